//! Tests whether any classifier of a few categories can reach the target accuracy.
//!
//! Where a row is known by a key of public size, every classifier is a table from keys to answers, whatever it was
//! trained by. On the train lane the best table is found by counting, so if even that is wrong too often, none is
//! right often enough. What the kernel counts is exact: a row more moves it by one row.

use std::num::NonZeroU32;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Rows, Session, SessionError, TableNoise};

use super::beta::lower_limit;
use super::decide::rejects_accuracy;
use super::help::{percent, short};
use super::margin::Margin;
use super::risk::Risk;
use super::target::AccuracyTarget;
use super::verdict::{Decision, Verdict};
use crate::estimate::Estimate;

/// A test of whether any function of a key can reach the target accuracy: reject or retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestAnswersCheck {
    /// The accuracy to exceed.
    pub target: AccuracyTarget,
    /// How many keys there are: every combination of what a classifier sees.
    pub keys: NonZeroU32,
    /// The number of classes.
    pub answers: NonZeroU32,
    /// The noise, and with it the cost.
    pub noise: TableNoise,
    /// The probability of rejecting a class that holds a classifier which exceeds the target.
    pub risk: Risk,
}

impl BestAnswersCheck {
    /// What must be charged, and where: on top of the training, on the same lane.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self) -> Result<(Lane, Mechanism), SessionError> {
        Ok((Lane::Train, self.noise.mechanism()?))
    }

    /// Runs the test on the train lane; `value` gives a row's key and its right answer. A row without them counts
    /// as one that the best classifier is right about.
    ///
    /// # Errors
    /// When the charge does not cover it, there are too many keys or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, value: impl Fn(R::Row<'_>) -> Option<(u32, u32)>,
    ) -> Result<Verdict, SessionError> {
        let [right, wrong] =
            session.majority_counts(Lane::Train, self.keys.get(), self.answers.get(), self.noise, value)?;
        Ok(self.judge(right, wrong))
    }

    pub(super) fn judge(&self, right: f64, wrong: f64) -> Verdict {
        let margin = Margin::one_sided(self.noise.into(), self.risk);
        let rows = right + wrong;
        let value = (rows.is_finite() && rows > 0.0).then(|| (right / rows).clamp(0.0, 1.0));
        let reach = margin.reach(right.abs() + wrong.abs());
        let high = 1.0 - lower_limit(wrong - reach, (right + reach).max(0.0), margin.chance());
        let estimate = Estimate { value, low: 0.0, high };
        let confidence = 1.0 - self.risk.chance();
        let (high, target) = (short(high), short(self.target.share()));
        let (decision, explanation) = if rejects_accuracy(right, wrong, self.target.share(), margin) {
            let chance = short(self.risk.chance());
            let text = format!(
                "no classifier that sees these features alone has an accuracy above {high}, and none exceeds the \
                 target {target}, but for a chance of {chance}: other features or a lower target are needed."
            );
            (Decision::Reject, text)
        } else {
            let sure = percent(confidence);
            let text = format!(
                "a classifier that sees these features may still exceed the target {target}: the best is only known \
                 to have an accuracy of {high} or less, with confidence {sure}."
            );
            (Decision::Retry, text)
        };
        Verdict { decision, estimates: vec![estimate], confidence, explanation }
    }
}
