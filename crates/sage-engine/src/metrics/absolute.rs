//! `metric = "absolute"`: the mean of absolute errors.

use std::sync::Arc;

use sage_learn::validate::{Estimate, LabelLimits};

use super::{Measured, Metric, MetricKind, MetricTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "absolute",
    title: "mean absolute error",
    heading: "mean absolute error",
    measured: Measured::Numbers,
    keys: &["bound"],
    parse: |keys| Ok(Arc::new(AbsoluteError { bound: keys.bound()? })),
};

/// The mean absolute error, clipped per row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbsoluteError {
    /// The clipping bound of one row's loss.
    pub bound: f64,
}

impl Metric for AbsoluteError {
    fn kind(&self) -> &'static MetricKind {
        &KIND
    }

    fn write_keys(&self, out: &mut String) {
        out.push_str(&format!("bound = {:?}\n", self.bound));
    }

    fn test(&self) -> MetricTest {
        MetricTest::MeanLoss { bound: self.bound }
    }

    fn loss(&self, label: f64, predicted: f64, width: f64) -> f64 {
        ((predicted - label) * width).abs()
    }

    /// The best constant is the median, which moments do not determine. Its error is at most the standard deviation. No
    /// constant has less than the variance, because a distance of at most one is at least its square.
    fn best_constant_value(&self, labels: &LabelLimits, width: f64) -> Option<Estimate> {
        let variance = labels.variance();
        let kept = (self.bound / width).min(1.0);
        let high = (variance.high.sqrt() * width).min(self.bound);
        Some(Estimate { value: None, low: (kept * variance.low * width).min(high), high })
    }

    /// The middle of the range is at most half of it away.
    fn certain_value(&self, width: f64) -> Option<f64> {
        Some(0.5 * width)
    }
}
