//! `metric = "accuracy"`: the share of correctly classified rows.

use std::sync::Arc;

use sage_learn::validate::{Estimate, LabelLimits};
use sage_model::bundle::likeliest;

use super::classes::values;
use super::{BestConstant, BestConstantClass, ClassMetric, Measured, Metric, MetricKind, MetricTest, RejectionTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "accuracy",
    title: "accuracy",
    heading: "accuracy",
    measured: Measured::Classes,
    keys: &[],
    parse: |_| Ok(Arc::new(Accuracy)),
};

/// The share of correctly classified rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accuracy;

impl Metric for Accuracy {
    fn kind(&self) -> &'static MetricKind {
        &KIND
    }

    fn write_keys(&self, _: &mut String) {}

    fn test(&self) -> MetricTest {
        MetricTest::CorrectShare
    }

    fn several_classes(&self) -> Option<&dyn ClassMetric> {
        Some(self)
    }

    /// NaN is wrong for either label; otherwise it would count as the lower class.
    fn loss(&self, label: f64, predicted: f64, _: f64) -> f64 {
        f64::from(u8::from(predicted.is_nan() || (predicted >= 0.5) != (label >= 0.5)))
    }

    /// The more frequent class. If it is the other one, that is more frequent by up to twice the limit's distance from
    /// one half.
    fn best_constant(&self, mean: Estimate, _: f64) -> Option<BestConstant> {
        let prediction = f64::from(u8::from(mean.value.unwrap_or(0.5) >= 0.5));
        let gap = if prediction == 1.0 { 1.0 - 2.0 * mean.low.max(0.0) } else { 2.0 * mean.high.min(1.0) - 1.0 };
        Some(BestConstant { prediction, gap: gap.max(0.0) })
    }

    /// The share of the more frequent class.
    fn best_constant_value(&self, labels: &LabelLimits, _: f64) -> Option<Estimate> {
        Some(labels.accuracy())
    }

    /// One of the two classes has at least half of the rows.
    fn certain_value(&self, _: f64) -> Option<f64> {
        Some(0.5)
    }

    fn rejection(&self) -> Option<RejectionTest> {
        Some(RejectionTest::BestAnswers)
    }
}

impl ClassMetric for Accuracy {
    fn class_loss(&self, class: usize, probabilities: &[f32]) -> f64 {
        f64::from(u8::from(likeliest(probabilities) != Some(class)))
    }

    /// The most frequent class. Another one is at most as frequent as its upper limit.
    fn best_class_shares(&self, shares: &[Estimate]) -> BestConstantClass {
        let values = values(shares);
        let best = (0..values.len()).max_by(|&one, &other| values[one].total_cmp(&values[other])).unwrap_or(0);
        let low = shares.get(best).map_or(0.0, |share| share.low);
        let others =
            shares.iter().enumerate().filter(|(class, _)| *class != best).map(|(_, share)| share.high.min(1.0 - low));
        let gap = others.fold(0.0, f64::max) - low;
        let probabilities = (0..values.len()).map(|class| f32::from(u8::from(class == best))).collect();
        BestConstantClass { probabilities, gap: gap.max(0.0) }
    }

    /// One of the classes has at least this share of the rows.
    fn certain_class_value(&self, classes: usize) -> f64 {
        1.0 / classes as f64
    }
}
