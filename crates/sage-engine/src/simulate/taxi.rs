//! The made-up traffic of the demonstration: who asks for how much, how often.

use sage_kernel::{Cost, Epsilon, Mechanism, Rate, Sigma};

use super::Pipeline;

/// The pipelines of the demonstration; nothing if a number of theirs is out of range.
pub(super) fn pipelines() -> Option<Vec<Pipeline>> {
    let laplace = |epsilon: &str, count| {
        Cost::new(vec![Mechanism::Laplace { epsilon: Epsilon::cost(epsilon).ok()?, count }]).ok()
    };
    let gaussian = |sigma: &str, coordinates, count| {
        let sigma = Sigma::cost(sigma).ok()?;
        Cost::new(vec![Mechanism::Gaussian { sigma, coordinates, count }]).ok()
    };
    let sampled = |rate: &str, sigma: &str, coordinates, steps| {
        let (rate, sigma) = (Rate::cost(rate).ok()?, Sigma::cost(sigma).ok()?);
        Cost::new(vec![Mechanism::SampledGaussian { rate, sigma, coordinates, steps }]).ok()
    };
    let pipeline = |name, does, window, every_days, costs| Pipeline { name, does, window, every_days, costs };
    Some(vec![
        pipeline("taxi-speed", "mean speed by hour, Laplace", 7, 1, [Some(laplace("0.05", 1)?), None]),
        pipeline(
            "taxi-duration",
            "ridge regression, Gaussian sums",
            14,
            2,
            [Some(gaussian("28", 64, 2)?), Some(laplace("0.05", 1)?)],
        ),
        pipeline(
            "taxi-demand",
            "small network, DP-SGD",
            28,
            5,
            [Some(sampled("0.01", "4", 4096, 300)?), Some(laplace("0.05", 1)?)],
        ),
        pipeline("taxi-fare", "histogram of fares, Gaussian", 21, 3, [Some(gaussian("20", 32, 1)?), None]),
    ])
}
