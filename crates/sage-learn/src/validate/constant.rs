//! The best constant prediction, as far as released moments of the labels determine it. Proof: `proofs/validate.md`.
//!
//! A model that is no better than a constant has learnt nothing from its features, whatever target it meets. The
//! moments are three sums over the labels of a lane, released once.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Range, Rounding, Rows, SCALE, Session, SessionError, TableNoise, Triple};

use super::decide::{interval, mean};
use super::help::short;
use super::margin::Margin;
use super::risk::Risk;
use super::verdict::{Decision, Verdict};
use crate::encode::present;
use crate::estimate::Estimate;

/// The released sums of labels from 0 to 1, and of their squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelSums {
    /// The sums.
    pub sums: Triple,
    /// The noise of each of them.
    pub noise: TableNoise,
}

/// The limits of the first two moments of the labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelLimits {
    /// The mean.
    pub mean: Estimate,
    /// The mean square.
    pub square: Estimate,
}

impl LabelSums {
    /// The lane and the mechanism to charge.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(lane: Lane, noise: TableNoise) -> Result<(Lane, Mechanism), SessionError> {
        Ok((lane, noise.mechanism()?))
    }

    /// Releases the sums of a lane. A row for which `label` returns `None` or NaN is left out.
    ///
    /// # Errors
    /// When the charge does not cover it or there is no randomness.
    pub fn release<R: Rows, N: NoiseSource>(
        session: &mut Session<R, N>, lane: Lane, noise: TableNoise, label: impl Fn(R::Row<'_>) -> Option<f64>,
    ) -> Result<Self, SessionError> {
        let range = Range::new(0.0, 1.0).ok_or(SessionError::Parameter("the range of labels"))?;
        let value = |row: R::Row<'_>| Some((0, present(label(row)?)?));
        let sums = session.triples(lane, 1, range, Rounding::Nearest, noise, value)?;
        let sums = sums.first().copied().ok_or(SessionError::Parameter("a table has a key"))?;
        Ok(Self { sums, noise })
    }

    /// The mean according to the sums; `None` if the noise hides all rows.
    pub fn mean(&self) -> Option<f64> {
        mean(Pair { above: self.sums.squares + self.sums.rest, below: self.sums.below })
    }

    /// Limits that contain both moments of the labels' distribution except with the probability `risk`.
    pub fn limits(&self, risk: Risk) -> LabelLimits {
        let Triple { squares, rest, below } = self.sums;
        let margin = Margin::of_label_sums(self.noise.into(), risk);
        // A label is rounded by half a step, and its square by one step more.
        let limits = |above: f64, below: f64, steps: f64| {
            let pair = Pair { above, below };
            let (low, high) = interval(pair, margin);
            let rounding = steps / SCALE as f64;
            Estimate { value: mean(pair), low: (low - rounding).max(0.0), high: (high + rounding).min(1.0) }
        };
        LabelLimits { mean: limits(squares + rest, below, 0.5), square: limits(squares, rest + below, 2.0) }
    }
}

impl LabelLimits {
    /// Nothing is known.
    pub const UNKNOWN: Self = {
        let unknown = Estimate { value: None, low: 0.0, high: 1.0 };
        Self { mean: unknown, square: unknown }
    };

    /// The variance, which is the squared error of the mean as a prediction.
    pub fn variance(&self) -> Estimate {
        let (mean, square) = (self.mean, self.square);
        // Of all labels from 0 to 1 with a mean, those at the two ends vary most.
        let largest = peak(mean, &|mean| mean * (1.0 - mean)).high;
        let high = (square.high - mean.low * mean.low).clamp(0.0, largest);
        let low = (square.low - mean.high * mean.high).clamp(0.0, high);
        let value = mean.value.zip(square.value).map(|(mean, square)| (square - mean * mean).clamp(low, high));
        Estimate { value, low, high }
    }

    /// The accuracy of the more frequent of two classes.
    pub fn accuracy(&self) -> Estimate {
        let error = peak(self.mean, &|mean: f64| mean.min(1.0 - mean));
        Estimate { value: error.value.map(|error| 1.0 - error), low: 1.0 - error.high, high: 1.0 - error.low }
    }

    /// The least mean logarithmic loss of a constant probability, where losses are clipped at `bound`.
    pub fn entropy(&self, bound: f64) -> Estimate {
        let part = |share: f64| if share > 0.0 { -share * libm::log(share) } else { 0.0 };
        peak(self.mean, &|mean| (part(mean) + part(1.0 - mean)).min(mean * bound).min((1.0 - mean) * bound))
    }
}

/// The values of a concave function with its peak at one half, for a mean within its limits.
fn peak(mean: Estimate, function: &dyn Fn(f64) -> f64) -> Estimate {
    let ends = [function(mean.low), function(mean.high)];
    let inside = mean.low <= 0.5 && mean.high >= 0.5;
    let high = if inside { function(0.5) } else { ends[0].max(ends[1]) };
    let low = ends[0].min(ends[1]);
    Estimate { value: mean.value.map(|mean| function(mean).clamp(low, high)), low, high }
}

/// The beginning of the warning of an accepted model that may be no better than a constant.
const NOT_SHOWN: &str = "Warning: this does not show that the model is better than the best constant prediction";

impl Verdict {
    /// Adds the value of the best constant prediction to the explanation. There is a warning if the model is accepted,
    /// the target is one that the constant may meet, and the limits of the model are not better than those of the
    /// constant.
    pub fn compare_with_constant(&mut self, constant: Estimate, target: f64, larger_is_better: bool) {
        let limits = format!("from {} to {}", short(constant.low), short(constant.high));
        let found = match constant.value {
            Some(value) => format!("is estimated at {} ({limits})", short(value)),
            None => format!("is {limits}"),
        };
        self.explanation.push_str(&format!(" The same metric of the best constant prediction {found}."));
        let Some(model) = self.estimates.first() else { return };
        let better = match larger_is_better {
            true => model.low > constant.high || target > constant.high,
            false => model.high < constant.low || target < constant.low,
        };
        if self.decision == Decision::Accept && !better {
            let remedy = "require better_than = \"constant\", or use more rows, a larger ε or other features";
            self.explanation.push_str(&format!(" {NOT_SHOWN}: {remedy}."));
        }
    }
}

#[cfg(test)]
mod tests {
    use sage_kernel::Epsilon;

    use super::*;

    fn sums(rows: f64, mean: f64, square: f64) -> LabelSums {
        let noise = TableNoise::Laplace(Epsilon::cost("1").expect("an epsilon"));
        let sums = Triple { squares: rows * square, rest: rows * (mean - square), below: rows * (1.0 - mean) };
        LabelSums { sums, noise }
    }

    fn near(one: f64, two: f64) -> bool {
        (one - two).abs() < 1e-3
    }

    #[test]
    fn many_rows_determine_the_constant() {
        let risk = Risk::new(0.05).expect("a risk");
        let limits = sums(1e10, 0.2, 0.05).limits(risk);
        for (found, exact) in [(limits.mean, 0.2), (limits.square, 0.05), (limits.variance(), 0.01)] {
            assert!(
                near(found.low, exact) && near(found.high, exact) && found.value.is_some_and(|one| near(one, exact))
            );
        }
        let classes = sums(1e10, 0.2, 0.2).limits(risk);
        assert!(near(classes.accuracy().low, 0.8) && near(classes.accuracy().high, 0.8));
        let entropy = -(0.2f64 * 0.2f64.ln() + 0.8 * 0.8f64.ln());
        assert!(near(classes.entropy(10.0).low, entropy) && near(classes.entropy(10.0).high, entropy));
        // Never predicting the class costs the bound for each of its rows.
        assert!(near(classes.entropy(1.0).high, 0.2), "{:?}", classes.entropy(1.0));
    }

    #[test]
    fn noise_widens_the_limits_and_unknown_moments_have_the_whole_range() {
        let risk = Risk::new(0.05).expect("a risk");
        for rows in [0.0, 3.0, 100.0, 1e4] {
            for (mean, square) in [(0.0, 0.0), (0.3, 0.1), (0.5, 0.5), (1.0, 1.0)] {
                let limits = sums(rows, mean, square).limits(risk);
                let variance = limits.variance();
                let exact = square - mean * mean;
                assert!(variance.low <= exact + 1e-9 && exact <= variance.high + 1e-9, "{rows} {mean} {variance:?}");
                assert!(limits.mean.low <= mean && mean <= limits.mean.high, "{rows} {mean} {limits:?}");
            }
        }
        assert_eq!(LabelLimits::UNKNOWN.variance(), Estimate { value: None, low: 0.0, high: 0.25 });
        assert_eq!(LabelLimits::UNKNOWN.accuracy(), Estimate { value: None, low: 0.5, high: 1.0 });
        assert!(near(LabelLimits::UNKNOWN.entropy(9.0).high, std::f64::consts::LN_2));
    }

    #[test]
    fn only_an_accepted_model_within_the_limits_of_the_constant_has_a_warning() {
        let constant = Estimate::around(0.3, 0.05);
        for (decision, value, target, larger, warned) in [
            (Decision::Accept, 0.2, 0.9, false, false),
            (Decision::Accept, 0.24, 0.9, false, true),
            (Decision::Accept, 0.24, 0.3, false, true),
            (Decision::Accept, 0.24, 0.249, false, false),
            (Decision::Accept, 0.4, 0.9, false, true),
            (Decision::Accept, 0.4, 0.1, true, false),
            (Decision::Accept, 0.36, 0.1, true, true),
            (Decision::Accept, 0.36, 0.3, true, true),
            (Decision::Accept, 0.36, 0.351, true, false),
            (Decision::Retry, 0.4, 0.9, false, false),
        ] {
            let mut verdict = Verdict::new(decision, vec![Estimate::around(value, 0.02)], 0.95, "Found.".to_owned());
            verdict.compare_with_constant(constant, target, larger);
            assert_eq!(verdict.explanation.contains("Warning"), warned, "{verdict}");
            assert!(verdict.explanation.contains("estimated at 0.3 (from 0.25 to 0.35)"), "{verdict}");
        }
    }
}
