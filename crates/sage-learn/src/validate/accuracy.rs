//! Tests whether the accuracy is above its target.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Range, Rounding, Rows, Session, SessionError, TableNoise};

use super::beta::lower_limit;
use super::decide::{Tail, accepts, accepts_accuracy, interval};
use super::help::{found, remedy, short};
use super::margin::Margin;
use super::risk::Risk;
use super::target::AccuracyTarget;
use super::verdict::{Decision, Uncertainty, Verdict};
use crate::estimate::Estimate;

/// A test of the accuracy on the test lane: accept or retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccuracyCheck {
    /// The accuracy to exceed.
    pub target: AccuracyTarget,
    /// The noise, and with it the cost.
    pub noise: TableNoise,
    /// The probability of accepting a model that misses the target.
    pub risk: Risk,
}

impl AccuracyCheck {
    /// The lane and the mechanism to charge.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self) -> Result<(Lane, Mechanism), SessionError> {
        Ok((Lane::Test, self.noise.mechanism()?))
    }

    /// Runs the test on the test lane; `right` returns whether the prediction for a row is correct. Rows for which it
    /// returns `None`, such as rows without a label, are not counted.
    ///
    /// # Errors
    /// When the charge does not cover it or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource, A: Into<Option<bool>>>(
        &self, session: &mut Session<R, N>, right: impl Fn(R::Row<'_>) -> A,
    ) -> Result<Verdict, SessionError> {
        let outcome = |row: R::Row<'_>| right(row).into().map(|right| u32::from(!right));
        let counts = session.histogram(Lane::Test, 2, self.noise, outcome)?;
        Ok(self.judge(counts[0], counts[1]))
    }

    /// As [`AccuracyCheck::run`], for units of several records: `wrong` returns the share of a unit's records whose
    /// prediction is wrong. A share is not a yes or a no, so the test is that of a mean.
    ///
    /// # Errors
    /// As [`AccuracyCheck::run`].
    pub fn run_shares<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, wrong: impl Fn(R::Row<'_>) -> Option<f64>,
    ) -> Result<Verdict, SessionError> {
        let range = Range::new(0.0, 1.0).ok_or(SessionError::Parameter("shares are from zero to one"))?;
        let share = |row: R::Row<'_>| wrong(row).map(|share| (0, share));
        let sums = session.pairs(Lane::Test, 1, range, Rounding::Up, self.noise, share)?[0];
        Ok(self.judge_shares(sums.below, sums.above))
    }

    pub(super) fn judge(&self, right: f64, wrong: f64) -> Verdict {
        let accepted =
            accepts_accuracy(right, wrong, self.target.share(), Margin::one_sided(self.noise.into(), self.risk));
        self.verdict([right, wrong], accepted, estimate)
    }

    pub(super) fn judge_shares(&self, right: f64, wrong: f64) -> Verdict {
        let margin = Margin::one_sided(self.noise.into(), self.risk);
        let sums = Pair { above: wrong, below: right };
        let accepted = accepts(sums, 1.0 - self.target.share(), margin, Tail::KullbackLeibler);
        self.verdict([right, wrong], accepted, estimate_of_shares)
    }

    fn verdict(
        &self, [right, wrong]: [f64; 2], accepted: bool, estimate: impl Fn(f64, f64, Margin) -> Estimate,
    ) -> Verdict {
        let margin = Margin::two_sided(self.noise.into(), self.risk);
        let limits = estimate;
        let estimate = limits(right, wrong, margin);
        let uncertainty = estimate.value.map(|value| {
            let without_noise = limits(right, wrong, margin.without_noise());
            let sampling = (value - without_noise.low).clamp(0.0, value - estimate.low);
            Uncertainty { sampling, noise: value - estimate.low - sampling, missed_by: self.target.share() - value }
        });
        let confidence = 1.0 - self.risk.chance();
        let found = found("the accuracy", estimate, confidence);
        let target = short(self.target.share());
        let (decision, explanation) = if accepted {
            let chance = short(self.risk.chance());
            (Decision::Accept, format!("{found}; it is above the target {target} but for a chance of {chance}."))
        } else {
            let remedy = remedy(uncertainty);
            (Decision::Retry, format!("{found}; that does not show it to be above the target {target}: {remedy}."))
        };
        let sums = vec![Pair { above: wrong, below: right }];
        Verdict { sums, uncertainty, ..Verdict::new(decision, vec![estimate], confidence, explanation) }
    }
}

fn estimate(right: f64, wrong: f64, margin: Margin) -> Estimate {
    let rows = right + wrong;
    let value = (rows.is_finite() && rows > 0.0).then(|| (right / rows).clamp(0.0, 1.0));
    let reach = margin.reach(right.abs() + wrong.abs());
    let limit = |hits: f64, misses: f64| lower_limit(hits - reach, (misses + reach).max(0.0), margin.chance());
    Estimate { value, low: limit(right, wrong), high: 1.0 - limit(wrong, right) }
}

/// As [`estimate`], where the sums are of shares.
fn estimate_of_shares(right: f64, wrong: f64, margin: Margin) -> Estimate {
    let units = right + wrong;
    let value = (units.is_finite() && units > 0.0).then(|| (right / units).clamp(0.0, 1.0));
    let (low, high) = interval(Pair { above: right, below: wrong }, margin);
    Estimate { value, low, high }
}
