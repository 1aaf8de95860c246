//! The chance that a test of a mean share accepts, for a number of blocks and a cost.

use sage_kernel::Pair;
use sage_numerics::bisect;

use super::curve::{LearningCurve, Setting};
use crate::validate::Margin;
use crate::validate::decide::{Tail, accepts};

/// The test rows of a block, as released sums show them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowsPerBlock {
    /// The estimate.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

/// The rows and the noise of a planned test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestSetting {
    /// The number of blocks.
    pub blocks: f64,
    /// The standard deviation of the noise of each sum, in rows.
    pub noise: f64,
    /// What the test allows for noise and for an unlucky sample.
    pub margin: Margin,
}

/// A forecast of tests of whether a mean share is below a target.
#[derive(Clone, Debug, PartialEq)]
pub struct TestForecast {
    /// The target as a share.
    pub target: f64,
    /// The bound behind the test.
    pub tail: Tail,
    /// The test rows of a block.
    pub rows: RowsPerBlock,
    /// How the mean falls with rows and noise. Its rows are blocks.
    pub curve: LearningCurve,
}

/// A released count is at most this many standard deviations too low; beyond that lies one case in thirty thousand.
const CERTAIN: f64 = 4.0;

impl TestForecast {
    /// The probability that a model trained and tested with this setting is accepted.
    pub fn chance(&self, test: TestSetting) -> f64 {
        let rows = self.rows.mean * test.blocks;
        if rows < 1.0 {
            return 0.0;
        }
        let Some(largest) = largest_accepted(self.target, self.tail, rows, test.margin) else { return 0.0 };
        let deviation = (self.target * (1.0 - self.target) / rows).sqrt().hypot(test.noise / rows);
        self.curve.chance_below(Setting { rows: test.blocks, noise: test.noise }, largest, deviation)
    }

    /// Whether not even a model without loss would be accepted, but for a small probability: there are too few rows
    /// for the noise and the confidence.
    pub fn is_too_small(&self, test: TestSetting) -> bool {
        let rows = (self.rows.mean + CERTAIN * self.rows.deviation) * test.blocks;
        // The noise of the sums may be favourable as well.
        let lucky = Pair { above: 0.0, below: rows };
        let reach = test.margin.lowered_by(CERTAIN * test.noise);
        !accepts(lucky, self.target, reach, self.tail)
    }

    /// Whether no attempt, however large, is likely to be accepted.
    pub fn is_hopeless(&self) -> bool {
        self.curve.chance_of_floor_below(self.target) < HOPELESS
    }
}

/// Below this probability a run is given up.
const HOPELESS: f64 = 0.01;

/// The largest mean of so many rows that a test accepts; `None` if it does not even accept zero.
fn largest_accepted(target: f64, tail: Tail, rows: f64, margin: Margin) -> Option<f64> {
    let accepted = |mean: f64| accepts(Pair { above: rows * mean, below: rows * (1.0 - mean) }, target, margin, tail);
    accepted(0.0).then(|| bisect(0.0, target, accepted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Observation;

    fn forecast(mean: f64) -> TestForecast {
        let seen = Observation { setting: Setting { rows: 10.0, noise: 5.0 }, mean, deviation: 0.01 };
        TestForecast {
            target: 0.2,
            tail: Tail::KullbackLeibler,
            rows: RowsPerBlock { mean: 100.0, deviation: 1.0 },
            curve: LearningCurve::fit(&[seen], 0.2),
        }
    }

    fn setting(blocks: f64, noise: f64) -> TestSetting {
        TestSetting { blocks, noise, margin: Margin::new(3.0 * noise, 0.01).unwrap() }
    }

    #[test]
    fn chances_rise_with_blocks_and_fall_with_noise() {
        let forecast = forecast(0.15);
        let chances: Vec<f64> = (0..12).map(|step| forecast.chance(setting(f64::from(1 << step), 5.0))).collect();
        assert!(chances.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{chances:?}");
        assert!(chances[0] < 0.05 && chances[11] > 0.9, "{chances:?}");
        assert!(forecast.chance(setting(16.0, 50.0)) < forecast.chance(setting(16.0, 5.0)));
    }

    #[test]
    fn too_small_means_that_no_model_passes() {
        let forecast = forecast(0.15);
        assert!(forecast.is_too_small(setting(0.1, 1.0)));
        assert!(!forecast.is_too_small(setting(10.0, 1.0)));
        for step in 0..200 {
            let setting = setting(0.05 * 1.05_f64.powi(step), 2.0);
            assert!(!forecast.is_too_small(setting) || forecast.chance(setting) < 1e-3, "step {step}");
        }
    }
}
