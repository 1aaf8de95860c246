//! What a metric of several classes defines: the loss of a row, and the best constant prediction.

use sage_learn::validate::Estimate;

/// The part of a metric that measures predictions of several classes, as their probabilities.
pub trait ClassMetric {
    /// The loss of one prediction, not clipped: of the probabilities of all classes, for the class at this index.
    fn class_loss(&self, class: usize, probabilities: &[f32]) -> f64;

    /// The best constant prediction, from estimates of the shares of the classes that hold together.
    fn best_class_shares(&self, shares: &[Estimate]) -> BestConstantClass;

    /// The value that some constant prediction reaches whatever the rows are.
    fn certain_class_value(&self, classes: usize) -> f64;
}

/// The best constant prediction of several classes.
#[derive(Clone, Debug, PartialEq)]
pub struct BestConstantClass {
    /// The probabilities of the classes.
    pub probabilities: Vec<f32>,
    /// By how much the metric of another constant can be better, if the shares are within the limits of their estimates.
    pub gap: f64,
}

/// The values of estimates: equal shares where one is unknown.
pub(super) fn values(shares: &[Estimate]) -> Vec<f64> {
    let equal = 1.0 / shares.len().max(1) as f64;
    shares.iter().map(|share| share.value.unwrap_or(equal).clamp(share.low, share.high)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Accuracy, LogLoss, Metric};

    /// No constant is better than the chosen one by more than the gap, for any shares within the limits.
    #[test]
    fn the_gap_covers_every_other_constant() {
        let metrics: [&dyn Metric; 2] = [&LogLoss { bound: 100.0 }, &Accuracy];
        let simplex = || {
            (0..=20_u32).flat_map(|one| {
                (0..=20 - one).map(move |two| [one, two, 20 - one - two].map(|part| f64::from(part) / 20.0))
            })
        };
        for metric in metrics.map(|metric| metric.several_classes().expect("it measures classes")) {
            for (centre, reach) in [([0.5, 0.3, 0.2], 0.1), ([0.34, 0.33, 0.33], 0.2), ([0.9, 0.1, 0.0], 0.05)] {
                let estimate = |value: f64| Estimate {
                    value: Some(value),
                    low: (value - reach).max(0.0),
                    high: (value + reach).min(1.0),
                };
                let shares: Vec<Estimate> = centre.into_iter().map(estimate).collect();
                let best = metric.best_class_shares(&shares);
                let mean = |truth: &[f64; 3], given: &[f32]| -> f64 {
                    let part = |class: usize| {
                        if truth[class] > 0.0 { truth[class] * metric.class_loss(class, given) } else { 0.0 }
                    };
                    (0..3).map(part).sum()
                };
                let within = |truth: &[f64; 3]| {
                    truth.iter().zip(&shares).all(|(share, limits)| (limits.low..=limits.high).contains(share))
                };
                let mut tried = 0;
                for truth in simplex().filter(|truth| within(truth)) {
                    tried += 1;
                    let own = mean(&truth, &best.probabilities);
                    let others = simplex().map(|other| mean(&truth, &other.map(|share| share.max(1e-6) as f32)));
                    let other = others.fold(f64::INFINITY, f64::min);
                    assert!(own - other <= best.gap + 1e-4, "{truth:?}: {own} {other} {best:?}");
                }
                assert!(tried > 1, "{centre:?}");
            }
            let unknown = vec![Estimate { value: None, low: 0.0, high: 1.0 }; 3];
            assert!(metric.best_class_shares(&unknown).gap > 0.2);
        }
    }

    #[test]
    fn losses_are_those_of_the_given_class() {
        let given = [0.2, 0.5, 0.3];
        let of = |metric: &dyn Metric, class: usize, given: &[f32]| {
            metric.several_classes().expect("it measures classes").class_loss(class, given)
        };
        assert_eq!([0, 1, 2].map(|class| of(&Accuracy, class, &given)), [1.0, 0.0, 1.0]);
        assert_eq!(of(&Accuracy, 0, &[f32::NAN; 3]), 1.0);
        assert!((of(&LogLoss { bound: 9.0 }, 1, &given) - 2.0_f64.ln()).abs() < 1e-6);
        assert!(of(&LogLoss { bound: 9.0 }, 7, &given) > 9.0, "a class that does not exist has no probability");
    }
}
