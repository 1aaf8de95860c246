//! Tests whether any classifier of a few categories can reach the target accuracy.
//!
//! If the features of a row are one key out of a public number of keys, every classifier is a table from keys to
//! classes, however it was trained. Counting on the train lane finds the best table; if even that one is wrong too
//! often, no classifier reaches the target. The kernel counts exactly: one more row changes a count by at most one.

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
    /// The number of keys: all combinations of the features.
    pub keys: NonZeroU32,
    /// The number of classes.
    pub answers: NonZeroU32,
    /// The noise, and with it the cost.
    pub noise: TableNoise,
    /// The probability of rejecting although some classifier of these features exceeds the target.
    pub risk: Risk,
}

impl BestAnswersCheck {
    /// The lane and the mechanism to charge, in addition to the training on the same lane.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self) -> Result<(Lane, Mechanism), SessionError> {
        Ok((Lane::Train, self.noise.mechanism()?))
    }

    /// Runs the test on the train lane; `value` returns a row's key and class. A row without them counts as one
    /// that the best classifier predicts correctly.
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
        Verdict::new(decision, vec![estimate], confidence, explanation)
    }
}
