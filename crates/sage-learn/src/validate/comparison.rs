//! Tests whether a new model is better than a baseline that was released before.
//!
//! Both are evaluated on the same rows, and the difference of their losses is summed, so that rows that are hard for
//! both cancel. Earlier estimates of the baseline are not used.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Range, Rounding, Rows, Session, SessionError, TableNoise};

use super::decide::{Tail, accepts, interval, mean};
use super::help::{found, remedy, short};
use super::margin::Margin;
use super::risk::Risk;
use super::target::ComparisonTarget;
use super::verdict::{Decision, Uncertainty, Verdict};
use crate::estimate::Estimate;

/// What is estimated when two models are compared.
const SUBJECT: &str = "the new model's mean loss less the old one's";

/// A test on the test lane of whether a new model's mean loss is below an old one's: accept or retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonCheck {
    /// The margin by which the new model must be better.
    pub target: ComparisonTarget,
    /// The bound behind the test.
    pub tail: Tail,
    /// The noise, and with it the cost: that of one loss test.
    pub noise: TableNoise,
    /// The probability of accepting a model that is not better by the margin.
    pub risk: Risk,
}

impl ComparisonCheck {
    /// The lane and the mechanism to charge.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self) -> Result<(Lane, Mechanism), SessionError> {
        Ok((Lane::Test, self.noise.mechanism()?))
    }

    /// Runs the test on the test lane; `losses` returns the new model's loss and the old one's. A row for which it
    /// returns `None`, such as one without a label, is left out of the sum and of the count.
    ///
    /// # Errors
    /// When the charge does not cover it or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource, L: Into<Option<(f64, f64)>>>(
        &self, session: &mut Session<R, N>, losses: impl Fn(R::Row<'_>) -> L,
    ) -> Result<Verdict, SessionError> {
        self.run_as(SUBJECT, session, losses)
    }

    /// As [`ComparisonCheck::run`]; the explanation calls the difference of the mean losses `subject`.
    ///
    /// # Errors
    /// As [`ComparisonCheck::run`].
    pub fn run_as<R: Rows, N: NoiseSource, L: Into<Option<(f64, f64)>>>(
        &self, subject: &str, session: &mut Session<R, N>, losses: impl Fn(R::Row<'_>) -> L,
    ) -> Result<Verdict, SessionError> {
        let range = Range::new(0.0, 1.0).ok_or(SessionError::Parameter("shares are from zero to one"))?;
        let value = |row: R::Row<'_>| {
            let (new, old) = losses(row).into()?;
            Some((0, self.target.of_row(new, old)))
        };
        let sums = session.pairs(Lane::Test, 1, range, Rounding::Up, self.noise, value)?;
        Ok(self.judge_as(subject, sums[0]))
    }

    #[cfg(test)]
    pub(super) fn judge(&self, sums: Pair) -> Verdict {
        self.judge_as(SUBJECT, sums)
    }

    fn judge_as(&self, subject: &str, sums: Pair) -> Verdict {
        let noise = self.noise.into();
        let margin = Margin::two_sided(noise, self.risk);
        let (low, high) = interval(sums, margin);
        let difference = |share: f64| (share - 0.5) * 2.0 * self.target.bound;
        let estimate = Estimate { value: mean(sums).map(difference), low: difference(low), high: difference(high) };
        let uncertainty = estimate.value.map(|value| {
            let (_, without_noise) = interval(sums, margin.without_noise());
            let sampling = (difference(without_noise) - value).clamp(0.0, estimate.high - value);
            Uncertainty { sampling, noise: estimate.high - value - sampling, missed_by: value + self.target.margin }
        });
        let confidence = 1.0 - self.risk.chance();
        let found = found(subject, estimate, confidence);
        let claim = match self.target.margin {
            0.0 => "lower".to_owned(),
            margin => format!("lower by more than {}", short(margin)),
        };
        let accepted = accepts(sums, self.target.share(), Margin::one_sided(noise, self.risk), self.tail);
        let (decision, explanation) = if accepted {
            let chance = short(self.risk.chance());
            (Decision::Accept, format!("{found}; it is {claim} but for a chance of {chance}."))
        } else {
            let remedy = remedy(uncertainty);
            (Decision::Retry, format!("{found}; that does not show it to be {claim}: {remedy}."))
        };
        Verdict { sums: vec![sums], uncertainty, ..Verdict::new(decision, vec![estimate], confidence, explanation) }
    }
}
