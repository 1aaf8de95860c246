//! A learning curve with its uncertainty: a discrete posterior over a small family of curves.
//!
//! On r rows with noise of s, the mean share of a model is
//!
//! > floor + sampling · (r₀/r)^β + noise · (s r₀ / (s₀ r))^γ
//!
//! relative to a reference setting (r₀, s₀). The first term is what the model class can reach, the second the error of
//! learning from a sample, the third the excess loss of noisy sums: quadratic in the relative noise for a model that is
//! fitted exactly, closer to linear for one that is trained in noisy steps. The unknowns lie on a grid; each released
//! estimate weights the grid points by its likelihood. A single estimate leaves the split between the terms open, so
//! the forecast is as uncertain as it should be.

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
    rates: Rates,
}

/// How fast the terms fall.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    /// Whether the sampling term falls with the square root of the rows, or else with the rows.
    slow_sampling: bool,
    /// Whether the noise term is linear in the relative noise, or else quadratic.
    linear_noise: bool,
}

/// The floor as a share of the mean at the reference setting.
const FLOORS: [f64; 9] = [0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.97, 1.0];
/// The share of the excess that is due to noise.
const NOISE_SHARES: [f64; 4] = [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0];
/// The rates of the terms: parametric models and slower ones, exact fits and noisy steps.
const RATES: [Rates; 4] = [
    Rates { slow_sampling: false, linear_noise: false },
    Rates { slow_sampling: true, linear_noise: false },
    Rates { slow_sampling: false, linear_noise: true },
    Rates { slow_sampling: true, linear_noise: true },
];
/// How much models of the same setting differ by the luck of their noise, relative to their mean.
const LUCK: f64 = 0.03;

/// How plausible a floor is that is this multiple of the target. A target is set by a person who believes that it can
/// be met, and rarely far above what can be reached.
fn belief(multiple: f64) -> f64 {
    let distance = (multiple.max(1e-9) / 0.75).ln() / 0.35;
    0.04 + (-0.5 * distance * distance).exp()
}

impl LearningCurve {
    /// The curves that the observations leave plausible for a pipeline with this target. `first` is the setting of the
    /// smallest attempt, about which nothing is known without an observation.
    pub fn fit(observations: &[Observation], target: f64, first: Setting) -> Self {
        let precise = observations.iter().filter(|one| one.deviation < 0.5 * one.mean);
        let best = precise.min_by(|one, two| (one.deviation / one.mean).total_cmp(&(two.deviation / two.mean)));
        let (reference, points) = match best {
            Some(best) => (best.setting, Self::through(best, target)),
            None => (first, Self::before_any(target)),
        };
        let mut curve = Self { reference, points };
        curve.weight_by(observations);
        curve
    }

    /// The curves near an estimate.
    fn through(best: &Observation, target: f64) -> Vec<Point> {
        let spread = best.deviation.hypot(LUCK * best.mean);
        let means = (-3..=3).map(|step| best.mean + 0.8 * f64::from(step) * spread);
        let mut points = Vec::with_capacity(7 * FLOORS.len() * NOISE_SHARES.len() * RATES.len());
        for mean in means.filter(|mean| *mean > 0.0) {
            for floor in FLOORS.map(|share| share * mean) {
                for share in NOISE_SHARES {
                    let (sampling, noise) = ((mean - floor) * (1.0 - share), (mean - floor) * share);
                    let point = |rates| Point { weight: belief(floor / target), floor, sampling, noise, rates };
                    points.extend(RATES.map(point));
                }
            }
        }
        points
    }

    /// The curves of pipelines of which nothing is known but the target: floors near it, and excesses at the smallest
    /// attempt over many orders of magnitude.
    fn before_any(target: f64) -> Vec<Point> {
        let floors = [0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95, 1.05, 1.4, 2.0];
        let excesses = |from: i32, to: i32| (from..=to).step_by(2).map(move |power| target * f64::from(power).exp2());
        let mut points = Vec::new();
        for floor in floors.map(|multiple| multiple * target) {
            for sampling in excesses(-6, 6) {
                for noise in excesses(-6, 10) {
                    let point = |rates| Point { weight: belief(floor / target), floor, sampling, noise, rates };
                    points.extend(RATES.map(point));
                }
            }
        }
        points
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
        let sampling = if point.rates.slow_sampling { rows.sqrt() } else { rows };
        let noise = if point.rates.linear_noise { noise } else { noise * noise };
        point.floor + point.sampling * sampling + point.noise * noise
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

    const FIRST: Setting = Setting { rows: 1.0, noise: 1.0 };

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
            let curve = LearningCurve::fit(&observations, 0.2, FIRST);
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
        let curve = LearningCurve::fit(&[observed(10.0, 4.0, 0.25, 0.02)], 0.2, FIRST);
        let chance = |rows: f64, noise: f64| curve.chance_below(Setting { rows, noise }, 0.2, 0.001);
        for step in 0..20 {
            let rows = 10.0 * 1.5_f64.powi(step);
            assert!(chance(rows * 1.5, 4.0) >= chance(rows, 4.0) - 1e-12);
            assert!(chance(rows, 2.0) >= chance(rows, 4.0) - 1e-12);
        }
    }

    /// Precise estimates at different settings show what more of each buys. Two numbers of rows cannot tell a slow
    /// rate without a floor from a fast one with a floor, so there are three.
    #[test]
    fn observations_separate_sampling_from_noise_and_floor() {
        let truth = |rows: f64, noise: f64| 0.10 + 0.10 * (1.0 / rows) + 0.05 * (noise / rows).powi(2);
        let seen = [(1.0, 1.0), (4.0, 1.0), (4.0, 0.25), (16.0, 0.25)]
            .map(|(rows, noise)| observed(rows, noise, truth(rows, noise), 1e-3));
        let curve = LearningCurve::fit(&seen, 0.12, FIRST);
        let forecast = curve.expected(Setting { rows: 40.0, noise: 0.25 });
        assert!((forecast - truth(40.0, 0.25)).abs() < 0.012, "{forecast} {}", truth(40.0, 0.25));
        assert!(curve.chance_of_floor_below(0.05) < 0.05 && curve.chance_of_floor_below(0.12) > 0.8);
    }

    #[test]
    fn a_class_that_stops_improving_is_out_of_reach() {
        let seen = [1.0, 8.0, 64.0].map(|rows| observed(rows, 1.0, 0.3, 2e-3));
        let curve = LearningCurve::fit(&seen, 0.2, FIRST);
        assert!(curve.chance_of_floor_below(0.2) < 0.01, "{}", curve.chance_of_floor_below(0.2));
        let one = LearningCurve::fit(&seen[..1], 0.2, FIRST);
        assert!(one.chance_of_floor_below(0.2) > 0.1, "one estimate does not show that more rows do not help");
    }
}
