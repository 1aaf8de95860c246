//! `metric = "mse"`: the mean of squared errors.

use std::sync::Arc;

use super::{Measured, Metric, MetricKind, MetricTest, RejectionTest};

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

    fn rejection(&self) -> Option<RejectionTest> {
        Some(RejectionTest::LeastLoss)
    }
}
