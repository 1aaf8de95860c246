//! Tests whether any linear model of a bounded class can meet the target. The class is that of models with a bounded
//! norm of the weights; a learner that this test may reject must have the same bound
//! ([`AdaSsp::with_weight_norm`](crate::linear::AdaSsp::with_weight_norm)).
//!
//! It runs on the train lane, beside the training. The least sum of squared losses over the class is at most that of
//! the model with the least expected loss, so if even the least sum is too large, no model of the class meets the
//! target. The kernel computes it with a proved gap. Minimising one loss and summing another, or clipping after
//! minimising, would break the argument.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{
    BestLoss, Contribution, Epsilon, Lane, Mechanism, MomentBounds, Moments, Pair, Rows, Session, SessionError,
};

use super::decide::{Tail, lower_limit, mean, rejects};
use super::help::{percent, short};
use super::margin::{Margin, Noise};
use super::risk::Risk;
use super::target::OutOfRange;
use super::verdict::{Decision, Verdict};
use crate::estimate::Estimate;

/// A test of whether any linear model with a bounded weight norm can meet a target: reject or retry.
///
/// The guarantee is about the unclipped squared loss of features and labels clipped to their bounds: a model whose loss
/// meets the target only because it is clipped is not covered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastLossCheck {
    target: f64,
    bounds: MomentBounds,
    weight_norm: f64,
    tail: Tail,
    epsilon: Epsilon,
    risk: Risk,
    /// The unit of the loss in the verdict.
    shown: f64,
    contribution: Contribution,
}

impl LeastLossCheck {
    /// Tests whether a model with a weight norm of at most `weight_norm` can have a mean squared loss of `target`.
    ///
    /// # Errors
    /// Unless the target is above zero and below the largest loss there is.
    pub fn new(
        target: f64, bounds: MomentBounds, weight_norm: f64, tail: Tail, epsilon: Epsilon, risk: Risk,
    ) -> Result<Self, OutOfRange> {
        let reach = weight_norm * bounds.feature_norm + bounds.label_size;
        let fine = target > 0.0 && target < reach * reach && (reach * reach).is_finite() && weight_norm > 0.0;
        let bad = OutOfRange("the target is above zero and below the largest squared loss of the class");
        let contribution = Contribution::ONE;
        fine.then_some(Self { target, bounds, weight_norm, tail, epsilon, risk, shown: 1.0, contribution }).ok_or(bad)
    }

    /// Reports losses in the label's own units, where a loss of one is `shown`. Decisions do not change.
    #[must_use]
    pub const fn shown_in(self, shown: f64) -> Self {
        Self { shown, ..self }
    }

    /// Counts so many records of a privacy unit: the loss of a unit is the mean of theirs.
    #[must_use]
    pub const fn with_contribution(self, contribution: Contribution) -> Self {
        Self { contribution, ..self }
    }

    /// The largest change of a prediction, in the label's own units, as one input moves from −1 to 1.
    pub fn sweep(&self) -> f64 {
        2.0 * self.weight_norm * libm::sqrt(self.shown)
    }

    /// The lane and the mechanism to charge, in addition to the training on the same lane.
    pub const fn cost(&self) -> (Lane, Mechanism) {
        (Lane::Train, Mechanism::Laplace { epsilon: self.epsilon, count: 1 })
    }

    /// Runs the test on the train lane; `value` writes the features and returns the label.
    ///
    /// # Errors
    /// When the charge does not cover it, a bound is out of range or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, value: impl Fn(R::Row<'_>, &mut [f64]) -> f64,
    ) -> Result<Verdict, SessionError> {
        let moments = session.moments(Lane::Train, self.contribution.per_unit(self.bounds), value)?;
        self.run_on(session, &moments)
    }

    /// Runs the test on moments that the session has summed before, for instance to train.
    ///
    /// # Errors
    /// As [`LeastLossCheck::run`], and when the moments are another session's.
    pub fn run_on<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, moments: &Moments,
    ) -> Result<Verdict, SessionError> {
        let best = session.least_squared_loss(moments, self.weight_norm, self.epsilon)?;
        Ok(self.judge(best))
    }

    pub(super) fn judge(&self, best: BestLoss) -> Verdict {
        let sums = Pair { above: best.loss, below: best.rest };
        let margin = Margin::one_sided(Noise::of_best_loss(self.epsilon, best.gap), self.risk);
        // A row's loss may be larger by the rounding than it is on the row itself.
        let target = self.target / best.bound + best.rounding;
        let most = best.bound * self.shown;
        let low = (lower_limit(sums, best.gap, margin) - best.rounding).max(0.0) * most;
        let value = mean(sums).map(|share| share * most);
        let estimate = Estimate { value, low, high: most };
        let confidence = 1.0 - self.risk.chance();
        let shown = short(self.target * self.shown);
        let class = format!(
            "a linear model whose prediction, not clipped, moves by at most {} as one input moves across its scale",
            short(self.sweep())
        );
        let (decision, explanation) = if rejects(sums, target, best.gap, margin, self.tail) {
            let (low, chance) = (short(low), short(self.risk.chance()));
            let text = format!(
                "no model of this class has a mean loss below {low}, and none meets the target {shown}, but for a \
                 chance of {chance}; the class is {class}. Other features, inputs whose scale is closer to their values \
                 or a higher target are needed."
            );
            (Decision::Reject, text)
        } else {
            let sure = percent(confidence);
            let text = format!(
                "a model of this class may still meet the target {shown}: the best is only known to have a mean loss \
                 of {} or more, with confidence {sure}; the class is {class}.",
                short(low)
            );
            (Decision::Retry, text)
        };
        Verdict::new(decision, vec![estimate], confidence, explanation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A larger gap or rounding error of the kernel makes a rejection less likely.
    #[test]
    fn gap_and_rounding_are_on_the_safe_side() {
        let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
        let epsilon = Epsilon::cost("1").unwrap();
        let risk = Risk::new(0.05).unwrap();
        let check = LeastLossCheck::new(0.2, bounds, 1.0, Tail::default(), epsilon, risk).unwrap();
        let best = BestLoss { loss: 100.0, rest: 900.0, bound: 4.0, gap: 1e-3, rounding: 1e-5 };
        assert_eq!(check.judge(best).decision, Decision::Reject);
        let shown = check.shown_in(100.0).judge(best);
        assert_eq!(shown.decision, Decision::Reject);
        assert!(shown.explanation.contains("the target 20,"), "{}", shown.explanation);
        assert_eq!(shown.estimates[0].high, 400.0);
        for worse in [
            BestLoss { gap: 40.0, ..best },
            BestLoss { rounding: 0.05, ..best },
            BestLoss { rounding: 2.0, ..best },
            // The same share of a smaller bound is a loss below the target.
            BestLoss { bound: 1.0, ..best },
            BestLoss { loss: f64::NAN, ..best },
            BestLoss { bound: f64::NAN, ..best },
        ] {
            assert_eq!(check.judge(worse).decision, Decision::Retry, "{worse:?}");
            assert!(check.judge(worse).estimates[0].low <= check.judge(best).estimates[0].low || worse.bound.is_nan());
        }
    }
}
