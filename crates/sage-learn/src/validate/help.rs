//! The texts of an explanation: rounded numbers, the result, and what would help.
//!
//! Everything is computed from released numbers. The text contains means, limits, targets and factors, and never a
//! number of rows.

use super::verdict::Uncertainty;
use crate::estimate::Estimate;

/// A number rounded to four digits.
pub(super) fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    let plain = rounded == 0.0 || (1e-4..1e7).contains(&rounded.abs());
    if plain { rounded.to_string() } else { format!("{rounded:e}") }
}

/// The result, as the beginning of a sentence.
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

/// A confidence in percent, rounded down.
pub(super) fn percent(confidence: f64) -> String {
    format!("{} %", (confidence * 1e6 * (1.0 + 4.0 * f64::EPSILON)).floor() / 1e4)
}

/// What would turn a retry into an accept, from the parts of the uncertainty.
pub(super) fn remedy(uncertainty: Option<Uncertainty>) -> String {
    let Some(uncertainty) = uncertainty else {
        return "there are too few rows for so much noise; more rows or a larger ε would help".to_owned();
    };
    let Uncertainty { sampling, noise, missed_by } = uncertainty;
    let parts = format!("its uncertainty is {} from sampling and {} from noise", short(sampling), short(noise));
    if missed_by > 0.0 {
        let missed = short(missed_by);
        return format!(
            "the estimate misses it by {missed}, and {parts}; the model has to get better by more rows or less noise, or \
             the target easier"
        );
    }
    format!("the estimate meets it, but {parts}: {}", lever(uncertainty))
}

/// What reduces the larger part of an uncertainty.
pub(super) fn lever(Uncertainty { sampling, noise, .. }: Uncertainty) -> &'static str {
    if noise > sampling {
        "a larger ε or more rows would settle it"
    } else {
        "more rows would settle it, a larger ε alone would not"
    }
}

#[cfg(test)]
mod tests {
    use sage_kernel::{BestLoss, Epsilon, MomentBounds, Pair, TableNoise, Triple};

    use super::super::decide::Tail;
    use super::super::{
        AccuracyCheck, AccuracyTarget, BestAnswersCheck, Bound, ComparisonCheck, ComparisonTarget, Decision,
        LeastLossCheck, LossCheck, LossTarget, PrecisionTarget, Risk, SumCheck, Verdict,
    };
    use super::{percent, short};

    #[test]
    fn numbers_have_few_digits() {
        for (number, text) in [
            (0.0, "0"),
            (0.123_456_789, "0.1235"),
            (12_345.678, "12350"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (1.234_56e-9, "1.235e-9"),
            (2.5e12, "2.5e12"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!(percent(0.95), "95 %");
        assert_eq!(percent(1.0 - 0.025 / 6.0), "99.5833 %");
        assert_eq!(percent(0.999_999_99), "99.9999 %");
    }

    fn risk() -> Risk {
        Risk::new(0.05).unwrap()
    }

    fn noise() -> TableNoise {
        TableNoise::Laplace(Epsilon::cost("1").unwrap())
    }

    /// The verdicts of every kind of check on these sums, which may be impossible ones.
    fn verdicts(above: f64, below: f64) -> Vec<Verdict> {
        let target = LossTarget::new(0.2, 1.0).unwrap();
        let loss = LossCheck { target, bound: Bound::default(), noise: noise(), risk: risk() };
        let accuracy = AccuracyCheck { target: AccuracyTarget::new(0.8).unwrap(), noise: noise(), risk: risk() };
        let target = ComparisonTarget::new(0.1, 1.0).unwrap();
        let comparison = ComparisonCheck { target, tail: Tail::default(), noise: noise(), risk: risk() };
        let precision = PrecisionTarget::new(0.05).unwrap();
        let sum = SumCheck::new((0.0, 1.0), std::num::NonZeroU32::MIN, precision, noise(), risk()).unwrap();
        let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
        let epsilon = Epsilon::cost("1").unwrap();
        let least = LeastLossCheck::new(0.2, bounds, 1.0, Tail::default(), epsilon, risk()).unwrap();
        let (keys, answers) = (std::num::NonZeroU32::MIN, std::num::NonZeroU32::MIN);
        let best = BestAnswersCheck { target: accuracy.target, keys, answers, noise: noise(), risk: risk() };
        let pair = Pair { above, below };
        vec![
            loss.judge_pair(Tail::KullbackLeibler, pair),
            loss.judge_triple(Triple { squares: above / 2.0, rest: above / 2.0, below }),
            accuracy.judge(below, above),
            comparison.judge(pair),
            sum.judge(&[pair]),
            least.judge(BestLoss { loss: above, rest: below, bound: 4.0, gap: 1e-3, rounding: 1e-5 }),
            best.judge(below, above),
        ]
    }

    #[test]
    fn explanations_say_what_would_help() {
        let verdict_of = |above, below, check: usize| verdicts(above, below)[check].clone();
        for (above, below, check, decision, words) in [
            (100.0, 900.0, 0, Decision::Accept, "estimated at 0.1 (from 0.0"),
            (100.0, 900.0, 0, Decision::Accept, "below the target 0.2 but for a chance of 0.05."),
            (170.0, 830.0, 0, Decision::Retry, "a larger ε alone would not"),
            (1.0, 39.0, 0, Decision::Retry, "a larger ε or more rows would settle it"),
            (170.0, 830.0, 0, Decision::Retry, "from sampling and"),
            (300.0, 700.0, 0, Decision::Retry, "the model has to get better"),
            (-3.0, 2.0, 0, Decision::Retry, "could not be estimated"),
            (-3.0, 2.0, 0, Decision::Retry, "too few rows for so much noise"),
            (100.0, 900.0, 2, Decision::Accept, "the accuracy is estimated at 0.9"),
            (190.0, 810.0, 2, Decision::Retry, "above the target 0.8"),
            (300.0, 700.0, 3, Decision::Accept, "lower by more than 0.1"),
            (480.0, 520.0, 3, Decision::Retry, "the new model's mean loss less the old one's is estimated at -0.04"),
            (800.0, 4200.0, 4, Decision::Accept, "every mean is within 0.0"),
            (8.0, 42.0, 4, Decision::Retry, "one mean is only known to within"),
            (500.0, 500.0, 5, Decision::Reject, "none meets the target 0.2"),
            (40.0, 960.0, 5, Decision::Retry, "may still meet the target 0.2"),
            (300.0, 700.0, 6, Decision::Reject, "none exceeds the target 0.8"),
            (210.0, 790.0, 6, Decision::Retry, "may still exceed the target 0.8"),
        ] {
            let verdict = verdict_of(above, below, check);
            assert_eq!(verdict.decision, decision, "{verdict}");
            assert!(verdict.explanation.contains(words), "{words:?} is not in {verdict}");
            assert!(verdict.explanation.ends_with('.') && !verdict.explanation.contains("NaN"), "{verdict}");
        }
    }

    #[test]
    fn absurd_sums_are_retried_in_words() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e300, f64::MIN] {
            for (above, below) in [(bad, 100.0), (100.0, bad), (bad, bad)] {
                for verdict in verdicts(above, below) {
                    let explained = !verdict.explanation.is_empty() && !verdict.explanation.contains("NaN");
                    assert!(explained, "{above} {below}: {verdict}");
                    assert!(bad.is_finite() || verdict.decision == Decision::Retry, "{above} {below}: {verdict}");
                }
            }
        }
    }
}
