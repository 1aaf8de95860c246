//! `metric = "accuracy"`: the share of correctly classified rows.

use std::sync::Arc;

use super::{Measured, Metric, MetricKind, MetricTest, RejectionTest};

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

    /// NaN is wrong for either label; otherwise it would count as the lower class.
    fn loss(&self, label: f64, predicted: f64, _: f64) -> f64 {
        f64::from(u8::from(predicted.is_nan() || (predicted >= 0.5) != (label >= 0.5)))
    }

    fn rejection(&self) -> Option<RejectionTest> {
        Some(RejectionTest::BestAnswers)
    }
}
