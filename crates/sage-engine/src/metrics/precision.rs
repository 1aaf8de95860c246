//! `metric = "precision"`: the largest error of a released statistic.

use std::sync::Arc;

use super::{Measured, Metric, MetricKind, MetricTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "precision",
    title: "precision",
    heading: "distance from the truth",
    measured: Measured::Statistics,
    keys: &[],
    parse: |_| Ok(Arc::new(Precision)),
};

/// The largest error of a released statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision;

impl Metric for Precision {
    fn kind(&self) -> &'static MetricKind {
        &KIND
    }

    fn write_keys(&self, _: &mut String) {}

    fn test(&self) -> MetricTest {
        MetricTest::HalfWidth
    }

    /// NaN: a statistic predicts nothing.
    fn loss(&self, _: f64, _: f64, _: f64) -> f64 {
        f64::NAN
    }
}
