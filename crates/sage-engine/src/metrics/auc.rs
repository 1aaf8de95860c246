//! `metric = "auc"`: the area under the ROC curve.

use std::sync::Arc;

use sage_learn::validate::{Estimate, LabelLimits};

use super::{Measured, Metric, MetricKind, MetricTest};

/// The registry's entry.
pub(super) const KIND: MetricKind = MetricKind {
    name: "auc",
    title: "area under the ROC curve",
    heading: "area under the ROC curve",
    measured: Measured::Classes,
    keys: &["bins"],
    parse: |keys| {
        const BINS: &str = "a whole number from 2 to 1024: how finely the scores of the model are distinguished";
        let whole = |bins: f64| bins.fract() == 0.0 && (2.0..=1024.0).contains(&bins);
        Ok(Arc::new(Auc { bins: keys.number("bins", BINS, Some(f64::from(BINS_DEFAULT)), whole)? as u32 }))
    },
};

const BINS_DEFAULT: u32 = 32;

/// The scores of the outermost bins are this far from the middle, in units of the logit.
const SPAN: f64 = 4.0;

/// The probability that a row of the class has a higher score than another row, by bins of the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auc {
    /// The number of bins.
    pub bins: u32,
}

/// The position of a probability among the bins, from 0 to 1; NaN for NaN. Bins are around the logit of a public or
/// released share of the class, and widen with the square of the distance from it: how far the scores of a model spread
/// is not known, and those of a model trained with much noise stay close to the share.
pub(crate) fn position(probability: f64, share: f64) -> f64 {
    let logit = |share: f64| (share / (1.0 - share)).ln();
    let distance = logit(probability.clamp(0.0, 1.0)) - logit(share.clamp(1e-3, 1.0 - 1e-3));
    (0.5 + 0.5 * (distance.abs() / SPAN).sqrt().copysign(distance)).clamp(0.0, 1.0)
}

impl Metric for Auc {
    fn kind(&self) -> &'static MetricKind {
        &KIND
    }

    fn write_keys(&self, out: &mut String) {
        out.push_str(&format!("bins = {}\n", self.bins));
    }

    fn test(&self) -> MetricTest {
        MetricTest::Ranking { bins: self.bins }
    }

    /// NaN: the area is about pairs of rows.
    fn loss(&self, _: f64, _: f64, _: f64) -> f64 {
        f64::NAN
    }

    /// All rows have the same score.
    fn best_constant_value(&self, _: &LabelLimits, _: f64) -> Option<Estimate> {
        Some(Estimate::around(0.5, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_rise_with_the_probability() {
        let positions: Vec<f64> = (0..=1000).map(|step| position(f64::from(step) / 1000.0, 0.2)).collect();
        assert!(positions.is_sorted(), "{positions:?}");
        assert_eq!((positions[0], positions[1000]), (0.0, 1.0));
        assert!((position(0.2, 0.2) - 0.5).abs() < 1e-12);
        assert!(position(f64::NAN, 0.2).is_nan());
        for share in [0.0, 1.0] {
            assert!((0.0..=1.0).contains(&position(0.5, share)));
        }
    }
}
