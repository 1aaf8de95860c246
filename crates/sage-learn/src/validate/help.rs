//! The words of an explanation: numbers of a few digits, what was found, and what would help.
//!
//! Everything said is computed from released numbers. It names means, limits, targets and factors, and never
//! a number of rows.

use super::verdict::Estimate;

/// A number with four digits.
pub(super) fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    let plain = rounded == 0.0 || (1e-4..1e7).contains(&rounded.abs());
    if plain { rounded.to_string() } else { format!("{rounded:e}") }
}

/// What was found: the beginning of a sentence.
pub(super) fn found(what: &str, estimate: Estimate, confidence: f64) -> String {
    match estimate.value {
        Some(value) => format!(
            "{what} is estimated at {} (from {} to {} with confidence {})",
            short(value),
            short(estimate.low),
            short(estimate.high),
            percent(confidence)
        ),
        None => format!("{what} could not be estimated"),
    }
}

/// A confidence, rounded down: never more than there is.
pub(super) fn percent(confidence: f64) -> String {
    format!("{} %", (confidence * 1e6 * (1.0 + 4.0 * f64::EPSILON)).floor() / 1e4)
}

/// Factors that are tried in turn.
const FACTORS: [f64; 10] = [1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0];

/// What would turn a retry into an accept if the estimate stayed as it is. `accepts` decides for so many
/// times the rows and so many times the budget.
pub(super) fn remedy(estimate: Estimate, accepts: impl Fn(f64, f64) -> bool) -> String {
    if estimate.value.is_none() {
        return "there are too few rows for so much noise; more rows or a larger ε would help".to_owned();
    }
    let rows = FACTORS.into_iter().find(|&factor| accepts(factor, 1.0));
    let budget = FACTORS.into_iter().find(|&factor| accepts(1.0, factor));
    match (rows, budget) {
        (Some(rows), Some(budget)) => format!(
            "if the estimate holds, about {rows} times as many rows or about {budget} times the ε would settle it"
        ),
        (Some(rows), None) => format!(
            "if the estimate holds, about {rows} times as many rows would settle it; a larger ε alone would not"
        ),
        (None, Some(budget)) => {
            format!("if the estimate holds, about {budget} times the ε would settle it")
        }
        (None, None) => {
            "at this estimate neither more rows nor a larger ε would settle it soon; the model has to get better \
                         or the target easier"
                .to_owned()
        }
    }
}
