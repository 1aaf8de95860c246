//! `metric = "mse"`: the mean of squared errors.

use std::sync::Arc;

use sage_learn::validate::{Estimate, LabelLimits};

use super::{BestConstant, Measured, Metric, MetricKind, MetricTest, RejectionTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "mse",
    title: "mean squared error",
    heading: "mean squared error",
    measured: Measured::Numbers,
    keys: &["bound"],
    parse: |keys| Ok(Arc::new(SquaredError { bound: keys.bound()? })),
};

/// The mean squared error, clipped per row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SquaredError {
    /// The clipping bound of one row's loss.
    pub bound: f64,
}

impl Metric for SquaredError {
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
        let miss = (predicted - label) * width;
        miss * miss
    }

    /// The mean. The squared error of another constant is larger by the squared distance from it.
    fn best_constant(&self, mean: Estimate, width: f64) -> Option<BestConstant> {
        let prediction = mean.value.unwrap_or(0.5).clamp(0.0, 1.0);
        let reach = (prediction - mean.low.max(0.0)).max(mean.high.min(1.0) - prediction) * width;
        Some(BestConstant { prediction, gap: reach * reach })
    }

    /// The variance. Clipping a squared error, which is at most the squared width, takes at most this share of it away.
    fn best_constant_value(&self, labels: &LabelLimits, width: f64) -> Option<Estimate> {
        let (square, variance) = (width * width, labels.variance());
        let kept = (self.bound / square).min(1.0);
        let [low, high] = [kept * variance.low, variance.high].map(|share| (share * square).min(self.bound));
        Some(Estimate { value: variance.value.map(|value| (value * square).clamp(low, high)), low, high })
    }

    /// The middle of the range is at most half of it away.
    fn certain_value(&self, width: f64) -> Option<f64> {
        Some(0.25 * width * width)
    }

    fn rejection(&self) -> Option<RejectionTest> {
        Some(RejectionTest::LeastLoss)
    }
}
