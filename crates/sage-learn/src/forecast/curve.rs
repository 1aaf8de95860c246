//! A learning curve with its uncertainty: a discrete posterior over a small family of curves.
//!
//! On r rows with noise of s, the mean share of a model is
//!
//! > floor + sampling · (r₀/r)^β + noise · (s r₀ / (s₀ r))²
//!
//! relative to a reference setting (r₀, s₀). The first term is what the model class can reach, the second the error of
//! learning from a sample, the third the excess loss of noisy sums, which is quadratic in the relative noise. The four
//! unknowns lie on a grid; each released estimate weights the grid points by its likelihood. A single estimate leaves
//! the split between the terms open, so the forecast is as uncertain as it should be.

use super::normal_cdf;

/// Rows and noise of an attempt, each in any fixed unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The number of rows, or of blocks.
    pub rows: f64,
    /// The standard deviation of the noise of each sum.
    pub noise: f64,
}

/// A released estimate of a mean share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Rows and noise of the attempt that released it.
    pub setting: Setting,
    /// The estimate.
    pub mean: f64,
    /// Its standard deviation: sampling and noise of the test.
    pub deviation: f64,
}

/// A posterior over learning curves.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurve {
    reference: Setting,
    points: Vec<Point>,
}

/// A curve and its weight; all weights sum to one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    weight: f64,
    floor: f64,
    sampling: f64,
    noise: f64,
    exponent: f64,
}

/// The floor as a share of the mean at the reference setting.
const FLOORS: [f64; 9] = [0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.97, 1.0];
/// The share of the excess that is due to noise.
const NOISE_SHARES: [f64; 4] = [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0];
/// The exponents of the sampling term: parametric models, and slower ones.
const EXPONENTS: [f64; 2] = [1.0, 0.5];
/// How much models of the same setting differ by the luck of their noise, relative to their mean.
const LUCK: f64 = 0.03;

impl LearningCurve {
    /// The curves that the observations leave plausible. Without a precise observation, the mean at the reference
    /// setting is most likely near `target`: a target is set by a person who believes it can be met.
    pub fn fit(observations: &[Observation], target: f64) -> Self {
        let precise = observations.iter().filter(|one| one.deviation < 0.5 * one.mean);
        let best = precise.min_by(|one, two| (one.deviation / one.mean).total_cmp(&(two.deviation / two.mean)));
        let reference = best.or(observations.first()).map_or(Setting { rows: 1.0, noise: 1.0 }, |one| one.setting);
        let means: Vec<(f64, f64)> = match best {
            Some(one) => {
                let spread = one.deviation.hypot(LUCK * one.mean);
                (-5..=5).map(|step| (one.mean + 0.5 * f64::from(step) * spread, 1.0)).collect()
            }
            // From a sixteenth of the target to sixteen times, with weights that fall to either side.
            None => (-16..=16)
                .map(|step| f64::from(step) / 4.0)
                .map(|log| (target * log.exp2(), (-log.abs()).exp2()))
                .collect(),
        };
        let mut points = Vec::with_capacity(means.len() * FLOORS.len() * NOISE_SHARES.len() * EXPONENTS.len());
        for (mean, weight) in means.into_iter().filter(|(mean, _)| *mean > 0.0) {
            for floor in FLOORS {
                for share in NOISE_SHARES {
                    for exponent in EXPONENTS {
                        let excess = mean * (1.0 - floor);
                        let (sampling, noise) = (excess * (1.0 - share), excess * share);
                        points.push(Point { weight, floor: mean * floor, sampling, noise, exponent });
                    }
                }
            }
        }
        let mut curve = Self { reference, points };
        curve.weight_by(observations);
        curve
    }

    fn weight_by(&mut self, observations: &[Observation]) {
        let logs: Vec<f64> = self.points.iter().map(|point| self.log_likelihood(point, observations)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (point, log) in self.points.iter_mut().zip(logs) {
            point.weight *= (log - most).exp();
        }
        let total: f64 = self.points.iter().map(|point| point.weight).sum();
        self.points.iter_mut().for_each(|point| point.weight /= total);
    }

    fn log_likelihood(&self, point: &Point, observations: &[Observation]) -> f64 {
        let log = |one: &Observation| {
            let mean = self.mean_of(point, one.setting);
            let deviation = one.deviation.hypot(LUCK * mean).max(f64::MIN_POSITIVE);
            -0.5 * ((one.mean - mean) / deviation).powi(2) - deviation.ln()
        };
        observations.iter().map(log).sum()
    }

    fn mean_of(&self, point: &Point, setting: Setting) -> f64 {
        let rows = self.reference.rows / setting.rows;
        let noise = rows * setting.noise / self.reference.noise;
        let sampling = if point.exponent == 1.0 { rows } else { rows.sqrt() };
        point.floor + point.sampling * sampling + point.noise * noise * noise
    }

    /// The probability that a model of this setting has an estimate of at most `largest`, if estimates have this
    /// standard deviation.
    pub fn chance_below(&self, setting: Setting, largest: f64, deviation: f64) -> f64 {
        let chance = |point: &Point| {
            let mean = self.mean_of(point, setting);
            let deviation = deviation.hypot(LUCK * mean).max(f64::MIN_POSITIVE);
            point.weight * normal_cdf((largest - mean) / deviation)
        };
        self.points.iter().map(chance).sum()
    }

    /// The probability that the model class reaches a mean below `target` with unlimited rows and no noise.
    pub fn chance_of_floor_below(&self, target: f64) -> f64 {
        self.points.iter().filter(|point| point.floor < target).map(|point| point.weight).sum()
    }

    /// The expected mean of a setting.
    pub fn expected(&self, setting: Setting) -> f64 {
        self.points.iter().map(|point| point.weight * self.mean_of(point, setting)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(rows: f64, noise: f64, mean: f64, deviation: f64) -> Observation {
        Observation { setting: Setting { rows, noise }, mean, deviation }
    }

    #[test]
    fn weights_sum_to_one_and_chances_are_probabilities() {
        for observations in [
            vec![],
            vec![observed(1.0, 1.0, 0.3, 1e-9)],
            vec![observed(1.0, 1.0, 0.0, 5.0)],
            vec![observed(1.0, 1.0, 0.3, 0.01), observed(2.0, 1.0, 0.9, 0.01)],
        ] {
            let curve = LearningCurve::fit(&observations, 0.2);
            let total: f64 = curve.points.iter().map(|point| point.weight).sum();
            assert!((total - 1.0).abs() < 1e-9, "{observations:?}");
            for rows in [1e-3, 1.0, 1e6] {
                let chance = curve.chance_below(Setting { rows, noise: 1.0 }, 0.2, 0.01);
                assert!((0.0..=1.0 + 1e-9).contains(&chance), "{observations:?} {rows}: {chance}");
            }
        }
    }

    #[test]
    fn more_rows_and_less_noise_never_lower_the_chance() {
        let curve = LearningCurve::fit(&[observed(10.0, 4.0, 0.25, 0.02)], 0.2);
        let chance = |rows: f64, noise: f64| curve.chance_below(Setting { rows, noise }, 0.2, 0.001);
        for step in 0..20 {
            let rows = 10.0 * 1.5_f64.powi(step);
            assert!(chance(rows * 1.5, 4.0) >= chance(rows, 4.0) - 1e-12);
            assert!(chance(rows, 2.0) >= chance(rows, 4.0) - 1e-12);
        }
    }

    /// Two precise estimates at different settings tell what more of each buys.
    #[test]
    fn observations_separate_sampling_from_noise_and_floor() {
        let truth = |rows: f64, noise: f64| 0.10 + 0.10 * (1.0 / rows) + 0.05 * (noise / rows).powi(2);
        let seen =
            [(1.0, 1.0), (4.0, 1.0), (4.0, 0.25)].map(|(rows, noise)| observed(rows, noise, truth(rows, noise), 1e-3));
        let curve = LearningCurve::fit(&seen, 0.12);
        let forecast = curve.expected(Setting { rows: 40.0, noise: 0.25 });
        assert!((forecast - truth(40.0, 0.25)).abs() < 0.012, "{forecast} {}", truth(40.0, 0.25));
        assert!(curve.chance_of_floor_below(0.05) < 0.05 && curve.chance_of_floor_below(0.12) > 0.8);
    }

    #[test]
    fn a_class_that_stops_improving_is_out_of_reach() {
        let seen = [1.0, 8.0, 64.0].map(|rows| observed(rows, 1.0, 0.3, 2e-3));
        let curve = LearningCurve::fit(&seen, 0.2);
        assert!(curve.chance_of_floor_below(0.2) < 0.01, "{}", curve.chance_of_floor_below(0.2));
        let one = LearningCurve::fit(&seen[..1], 0.2);
        assert!(one.chance_of_floor_below(0.2) > 0.1, "one estimate does not show that more rows do not help");
    }
}
