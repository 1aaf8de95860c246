//! How long to train under noise: the time that minimises an explicit model of the final loss.
//!
//! Time is the sum of all learning rates times the squared norm of the gradient of a prediction, so it has no unit and
//! does not depend on the scale of weights. In a linear model with curvature v of the loss, the part of the signal in a
//! direction that has the share λ of the inputs' variance decays as exp(−2vλt), and the noise of all steps adds
//! λ(νt)²·(1 − exp(−2vλt)) / (2vλt) to the squared error of predictions, where ν is the noise per unit of time. Both
//! are summed over directions whose shares fall as 1/i, as frequencies of categories do, with signal in proportion. Long
//! trainings fit rare categories, short ones keep the noise out; the minimum depends on public numbers only.

/// The public facts that decide how long a training should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalAndNoise {
    /// The number of inputs of the learner.
    pub inputs: u32,
    /// The second derivative of the loss by the prediction: one for half the squared error, p(1 − p) for the logistic
    /// loss.
    pub curvature: f64,
    /// The variance of predictions that a good model is assumed to explain.
    pub signal: f64,
    /// The standard deviation that the noise of all steps adds to a prediction, per unit of time: σc / (qn√T), with the
    /// clip c relative to the norm of the gradient, the sampling rate q, n rows and T steps.
    pub noise: f64,
}

/// The times that are compared: a geometric sequence.
const TIMES: (f64, f64) = (1.0, 1e6);
const TIME_FACTOR: f64 = 1.05;
/// The weight of the noise's error against the signal's: a model that is worse than a constant is a greater loss than a
/// gain that is missed.
const NOISE_WEIGHT: f64 = 2.0;
/// Directions are grouped from this index on, so that the number of groups grows only with the logarithm of the inputs.
const GROUPED_FROM: f64 = 32.0;
const GROUP_FACTOR: f64 = 1.1;

impl SignalAndNoise {
    /// The time with the least expected error.
    pub fn best_time(&self) -> f64 {
        Self::common_time(&[*self])
    }

    /// The time with the least expected loss of several predictions that are trained together.
    pub fn common_time(together: &[Self]) -> f64 {
        let all: Vec<(&Self, Vec<(f64, f64)>)> = together.iter().map(|one| (one, shares(one.inputs))).collect();
        let mut best = (f64::INFINITY, TIMES.0);
        let mut time = TIMES.0;
        while time <= TIMES.1 {
            // A squared error costs half of the curvature in loss.
            let error = all.iter().map(|(one, shares)| one.curvature * one.error(shares, time)).sum();
            if error < best.0 {
                best = (error, time);
            }
            time *= TIME_FACTOR;
        }
        best.1
    }

    /// The expected squared error of predictions after this time, compared with the best model; noise is weighted.
    fn error(&self, shares: &[(f64, f64)], time: f64) -> f64 {
        let noise = NOISE_WEIGHT * (self.noise * time).powi(2);
        let error = |&(count, share): &(f64, f64)| {
            let decay = 2.0 * self.curvature * share * time;
            let kept = -libm::expm1(-decay) / decay;
            count * share * (self.signal * libm::exp(-decay) + noise * kept)
        };
        shares.iter().map(error).sum()
    }
}

/// The shares of variance of the directions as (number of directions, share of each).
fn shares(inputs: u32) -> Vec<(f64, f64)> {
    let (mut first, inputs) = (1.0, f64::from(inputs.max(1)));
    let mut groups = Vec::new();
    while first <= inputs {
        let next = if first < GROUPED_FROM { first + 1.0 } else { (first * GROUP_FACTOR).ceil() }.min(inputs + 1.0);
        groups.push((next - first, 2.0 / (first + next - 1.0)));
        first = next;
    }
    let total: f64 = groups.iter().map(|(count, share)| count * share).sum();
    groups.into_iter().map(|(count, share)| (count, share / total)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: SignalAndNoise = SignalAndNoise { inputs: 200, curvature: 0.2, signal: 0.5, noise: 1e-4 };

    #[test]
    fn shares_add_up() {
        for inputs in [0, 1, 2, 31, 32, 33, 100, 1_000_000] {
            let shares = shares(inputs);
            let total: f64 = shares.iter().map(|(count, share)| count * share).sum();
            let count: f64 = shares.iter().map(|(count, _)| count).sum();
            assert!((total - 1.0).abs() < 1e-12, "{inputs}");
            assert_eq!(count, f64::from(inputs.max(1)));
            assert!(shares.len() < 200, "{inputs}");
        }
    }

    #[test]
    fn noise_shortens_a_training_and_rare_categories_lengthen_it() {
        let time = |facts: SignalAndNoise| facts.best_time();
        assert!(time(FACTS) > 1000.0);
        assert!(time(SignalAndNoise { noise: 1e-3, ..FACTS }) < time(FACTS));
        assert!(time(SignalAndNoise { noise: 1e-2, ..FACTS }) < 100.0);
        assert_eq!(time(SignalAndNoise { noise: 10.0, ..FACTS }), 1.0);
        assert!(time(SignalAndNoise { inputs: 20, ..FACTS }) < time(FACTS));
        // Only the ratio of signal and noise matters.
        let scaled = SignalAndNoise { signal: 0.5 * 0.01, noise: 1e-5, ..FACTS };
        assert!((time(scaled) / time(FACTS) - 1.0).abs() < 1e-9);
    }
}
