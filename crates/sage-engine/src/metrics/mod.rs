//! Metrics: what `metric` in `[validate]` can select, one file per metric.
//!
//! A [`MetricKind`] has a name and parses its keys of `[validate]` into a [`Metric`]. The metric defines everything the
//! engine needs for a validation: which labels it measures, the loss of one row, the test that its sums go through,
//! what a target means, and the texts that users read. To add one, write its file and its line in
//! [`registry`](self::register), or call [`register`] from another crate before a directory is opened.
//!
//! The loss of a row must be computed from the label and the prediction alone. The kernel clips it and adds the noise,
//! so a metric with a mistake accepts poor models; it cannot leak.

mod absolute;
mod accuracy;
mod auc;
mod classes;
mod keys;
mod log_loss;
mod mse;
mod precision;
mod registry;

use std::any::Any;
use std::fmt;

pub use absolute::AbsoluteError;
pub use accuracy::Accuracy;
pub use auc::Auc;
pub(crate) use auc::position;
pub use classes::{BestConstantClass, ClassMetric};
pub use keys::MetricKeys;
pub use log_loss::LogLoss;
pub use mse::SquaredError;
pub use precision::Precision;
pub(crate) use registry::kinds;
pub use registry::{MetricKind, MetricTaken, kind_names, register};
use sage_learn::validate::{AccuracyTarget, ComparisonTarget, Estimate, LabelLimits, LossTarget};

use crate::pipeline::Goal;

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Predictions of numbers.
    Numbers,
    /// Predictions of classes.
    Classes,
    /// The released numbers of a statistic.
    Statistics,
}

/// The test that decides whether the target of a metric is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricTest {
    /// The mean of the rows' losses, each clipped to `bound`, must be at most the target. The key `test` selects the
    /// inequality.
    MeanLoss {
        /// The clipping bound of one row's loss.
        bound: f64,
    },
    /// The share of rows with a loss of zero must be at least the target. The other rows must have a loss of one.
    CorrectShare,
    /// The area under the ROC curve must be at least the target.
    Ranking {
        /// The number of bins of scores.
        bins: u32,
    },
    /// The largest error of a released statistic must be at most the target.
    HalfWidth,
}

/// The best constant prediction according to an estimate of the label's mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestConstant {
    /// The prediction, as a learner would make it.
    pub prediction: f64,
    /// By how much the metric of another constant can be better, if the mean is within the limits of its estimate.
    pub gap: f64,
}

/// The test of whether any model can reach the target of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionTest {
    /// No linear model of the same inputs has a squared error as small as the target.
    LeastLoss,
    /// No classifier of the same categories has an accuracy as large as the target.
    BestAnswers,
}

/// A configured metric: `metric` and its keys in `[validate]` of a pipeline.
pub trait Metric: Any + fmt::Debug + Send + Sync {
    /// Its entry of the registry.
    fn kind(&self) -> &'static MetricKind;

    /// Appends its keys of `[validate]` as TOML lines in canonical form, without `metric`. Parsing them returns an equal
    /// metric: two metrics are equal if their kinds and these lines are.
    fn write_keys(&self, out: &mut String);

    /// The test of its target.
    fn test(&self) -> MetricTest;

    /// The loss of one prediction, not clipped. A label that is a number, and its prediction, are multiplied by `width`
    /// to get the units of the label; a class is 0 or 1, and its prediction a probability.
    fn loss(&self, label: f64, predicted: f64, width: f64) -> f64;

    /// How it measures predictions of several classes; by default it does not.
    fn several_classes(&self) -> Option<&dyn ClassMetric> {
        None
    }

    /// The best constant prediction, from an estimate of the label's mean; `None` if the mean does not determine it. A
    /// label that is a number is a share of its range, which is `width` wide; a class is 0 or 1.
    fn best_constant(&self, _mean: Estimate, _width: f64) -> Option<BestConstant> {
        None
    }

    /// The metric of the best constant prediction, for labels with these moments, in the units and with the clipping of
    /// the metric; `None` if the moments say nothing about it. A label that is a number is a share of its range, which is
    /// `width` wide; a class is 0 or 1.
    fn best_constant_value(&self, _labels: &LabelLimits, _width: f64) -> Option<Estimate> {
        None
    }

    /// The value that some constant prediction reaches whatever the rows are, for a label with a range of this width;
    /// `None` if there is no such value.
    fn certain_value(&self, _width: f64) -> Option<f64> {
        None
    }

    /// The test of whether a target is out of reach for every model; `None` if there is no such test.
    fn rejection(&self) -> Option<RejectionTest> {
        None
    }

    /// The clipping bound of one row's loss; `None` for metrics that are not means of losses.
    fn bound(&self) -> Option<f64> {
        self.test().bound()
    }
}

impl PartialEq for dyn Metric {
    fn eq(&self, other: &Self) -> bool {
        let keys = |metric: &Self| {
            let mut out = String::new();
            metric.write_keys(&mut out);
            out
        };
        self.kind().name == other.kind().name && keys(self) == keys(other)
    }
}

impl MetricTest {
    /// The clipping bound of one row's loss; `None` unless the mean loss is tested.
    pub const fn bound(self) -> Option<f64> {
        match self {
            Self::MeanLoss { bound } => Some(bound),
            Self::CorrectShare | Self::Ranking { .. } | Self::HalfWidth => None,
        }
    }

    /// The largest value that the metric can have.
    pub const fn range(self) -> f64 {
        match self {
            Self::MeanLoss { bound } => bound,
            Self::CorrectShare | Self::Ranking { .. } => 1.0,
            Self::HalfWidth => f64::INFINITY,
        }
    }

    /// What a target of the metric may be, for messages.
    pub(crate) const fn allowed_targets(self) -> &'static str {
        match self {
            // Clipped losses never exceed the bound, so a target at the bound would always be met.
            Self::MeanLoss { .. } => "a number above 0 and below `bound`: the largest mean loss",
            Self::CorrectShare => "a number strictly between 0 and 1: the smallest share of correctly classified rows",
            Self::Ranking { .. } => "a number above 0.5 and below 1: the smallest area under the ROC curve",
            Self::HalfWidth => "a number above 0: the largest error of the released statistic",
        }
    }

    /// Whether the target is one that can be tested and is not always met.
    pub(crate) fn can_have(self, target: f64) -> bool {
        let least = if matches!(self, Self::Ranking { .. }) { 0.5 } else { 0.0 };
        target > least && target < self.range()
    }

    /// Which side of the target meets it: "at most" or "at least".
    pub const fn direction(self) -> &'static str {
        match self {
            Self::CorrectShare | Self::Ranking { .. } => "at least",
            Self::MeanLoss { .. } | Self::HalfWidth => "at most",
        }
    }

    /// Whether a value of the metric meets a target.
    pub const fn meets(self, value: f64, target: f64) -> bool {
        match self {
            Self::CorrectShare | Self::Ranking { .. } => value >= target,
            Self::MeanLoss { .. } | Self::HalfWidth => value <= target,
        }
    }

    /// The goal as the largest mean of the shares that the test sums; `None` for statistics, rankings and impossible
    /// goals.
    pub(crate) fn target_share(self, goal: &Goal) -> Option<f64> {
        match (goal, self) {
            (_, Self::Ranking { .. }) => None,
            (Goal::Target(target), Self::CorrectShare) => Some(1.0 - AccuracyTarget::new(*target).ok()?.share()),
            (Goal::Target(target), other) => Some(LossTarget::new(*target, other.bound()?).ok()?.share()),
            (Goal::BetterThan { margin, .. }, other) => {
                Some(ComparisonTarget::new(*margin, other.range()).ok()?.share())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No constant is better than the chosen one by more than the gap, for any mean within the limits.
    #[test]
    fn the_gap_covers_every_other_constant() {
        let metrics: [&dyn Metric; 3] = [&SquaredError { bound: 100.0 }, &LogLoss { bound: 100.0 }, &Accuracy];
        let shares = || (1..100_u8).map(|share| f64::from(share) / 100.0);
        for metric in metrics {
            for (value, low, high) in [(0.5, 0.45, 0.6), (0.3, 0.2, 0.35), (0.9, 0.4, 1.0), (0.02, 0.0, 0.05)] {
                let estimate = Estimate { value: Some(value), low, high };
                let width = if metric.kind().measured == Measured::Classes { 1.0 } else { 3.0 };
                let best = metric.best_constant(estimate, width).expect("the mean determines it");
                // The label is 1 with this probability and 0 otherwise.
                let mean_loss = |mean: f64, constant: f64| {
                    mean * metric.loss(1.0, constant, width) + (1.0 - mean) * metric.loss(0.0, constant, width)
                };
                for mean in shares().filter(|mean| (low..=high).contains(mean)) {
                    let own = mean_loss(mean, best.prediction);
                    let other = shares().map(|constant| mean_loss(mean, constant)).fold(f64::INFINITY, f64::min);
                    assert!(own - other <= best.gap + 1e-9, "{metric:?} {estimate:?} {mean}: {own} {other} {best:?}");
                }
            }
            let unknown = Estimate { value: None, low: 0.0, high: 1.0 };
            assert!(metric.best_constant(unknown, 1.0).is_some_and(|best| best.gap > 0.2), "{metric:?}");
        }
        assert_eq!(AbsoluteError { bound: 1.0 }.best_constant(Estimate::around(0.5, 0.1), 1.0), None);
    }

    /// No metric counts a NaN prediction as correct.
    #[test]
    fn nan_predictions_are_never_correct() {
        for label in [0.0, 1.0] {
            assert_eq!(Accuracy.loss(label, label, 1.0), 0.0);
            assert_eq!(Accuracy.loss(label, f64::NAN, 1.0), 1.0);
            assert!(LogLoss { bound: 5.0 }.loss(label, f64::NAN, 1.0) > 5.0);
            assert!(SquaredError { bound: 5.0 }.loss(label, f64::NAN, 1.0).is_nan());
        }
    }
}
