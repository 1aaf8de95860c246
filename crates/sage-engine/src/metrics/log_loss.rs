//! `metric = "log_loss"`: the mean of logarithmic losses of probabilities.

use std::sync::Arc;

use super::{Measured, Metric, MetricKind, MetricTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "log_loss",
    title: "mean logarithmic loss",
    heading: "logarithmic loss",
    measured: Measured::Classes,
    keys: &["bound"],
    parse: |keys| Ok(Arc::new(LogLoss { bound: keys.bound()? })),
};

/// The mean logarithmic loss, clipped per row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLoss {
    /// The clipping bound of one row's loss.
    pub bound: f64,
}

impl Metric for LogLoss {
    fn kind(&self) -> &'static MetricKind {
        &KIND
    }

    fn write_keys(&self, out: &mut String) {
        out.push_str(&format!("bound = {:?}\n", self.bound));
    }

    fn test(&self) -> MetricTest {
        MetricTest::MeanLoss { bound: self.bound }
    }

    fn loss(&self, label: f64, predicted: f64, _: f64) -> f64 {
        let given = if label >= 0.5 { predicted } else { 1.0 - predicted };
        -given.max(f64::MIN_POSITIVE).ln()
    }
}
