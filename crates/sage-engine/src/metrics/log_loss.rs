//! `metric = "log_loss"`: the mean of logarithmic losses of probabilities.

use std::sync::Arc;

use sage_learn::validate::{Estimate, LabelLimits};

use super::classes::values;
use super::{BestConstant, BestConstantClass, ClassMetric, Measured, Metric, MetricKind, MetricTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "log_loss",
    title: "mean logarithmic loss",
    heading: "logarithmic loss",
    measured: Measured::Classes,
    keys: &["bound"],
    parse: |keys| Ok(Arc::new(LogLoss { bound: keys.bound()? })),
};

/// The least probability that a constant gives to a class.
const LEAST: f64 = 1e-6;

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

    fn several_classes(&self) -> Option<&dyn ClassMetric> {
        Some(self)
    }

    /// The share of the class. The excess of another constant is the relative entropy, which is largest at a limit.
    fn best_constant(&self, mean: Estimate, _: f64) -> Option<BestConstant> {
        let prediction = mean.value.unwrap_or(0.5).clamp(LEAST, 1.0 - LEAST);
        let part = |share: f64, given: f64| if share > 0.0 { share * (share / given).ln() } else { 0.0 };
        let excess = |share: f64| part(share, prediction) + part(1.0 - share, 1.0 - prediction);
        let limits = [mean.low, mean.high].map(|limit| limit.clamp(0.0, 1.0));
        Some(BestConstant { prediction, gap: excess(limits[0]).max(excess(limits[1])) })
    }

    /// The entropy of the class.
    fn best_constant_value(&self, labels: &LabelLimits, _: f64) -> Option<Estimate> {
        Some(labels.entropy(self.bound))
    }

    /// A probability of one half has this loss for either class.
    fn certain_value(&self, _: f64) -> Option<f64> {
        Some(std::f64::consts::LN_2)
    }

    fn loss(&self, label: f64, predicted: f64, _: f64) -> f64 {
        let given = if label >= 0.5 { predicted } else { 1.0 - predicted };
        -given.max(f64::MIN_POSITIVE).ln()
    }
}

impl ClassMetric for LogLoss {
    fn class_loss(&self, class: usize, probabilities: &[f32]) -> f64 {
        let given = probabilities.get(class).copied().map_or(0.0, f64::from);
        -given.max(f64::MIN_POSITIVE).ln()
    }

    /// The shares. The excess of another constant is the relative entropy, which is at most the sum of the squared
    /// deviations over the shares.
    fn best_class_shares(&self, shares: &[Estimate]) -> BestConstantClass {
        let given: Vec<f64> = values(shares).into_iter().map(|share| share.max(LEAST)).collect();
        let sum: f64 = given.iter().sum();
        let given: Vec<f64> = given.into_iter().map(|share| share / sum).collect();
        let excess = |(given, share): (&f64, &Estimate)| (share.high - given).max(given - share.low).powi(2) / given;
        let gap = given.iter().zip(shares).map(excess).sum();
        BestConstantClass { probabilities: given.into_iter().map(|share| share as f32).collect(), gap }
    }

    /// Equal probabilities have this loss for every class.
    fn certain_class_value(&self, classes: usize) -> f64 {
        (classes as f64).ln()
    }
}
