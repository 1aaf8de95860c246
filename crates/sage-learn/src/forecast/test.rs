//! The chance that a test of a mean share accepts, for a number of blocks and a cost.

use sage_kernel::Pair;
use sage_numerics::bisect;

use super::curve::{LearningCurve, Observation, Setting};
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

/// The released sums of an earlier test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleasedTest {
    /// The number of blocks.
    pub blocks: f64,
    /// The standard deviation of the noise of each sum, in rows.
    pub noise: f64,
    /// The released sums.
    pub sums: Pair,
}

impl ReleasedTest {
    /// The mean share with its standard deviation; `None` if noise hides it.
    fn observe(&self) -> Option<Observation> {
        let count = self.sums.above + self.sums.below;
        let mean = (count > 1.0).then(|| (self.sums.above / count).clamp(0.0, 1.0))?;
        let deviation = (mean.max(1.0 / count) / count).sqrt().hypot(self.noise / count);
        Some(Observation { setting: Setting { rows: self.blocks, noise: self.noise }, mean, deviation })
    }
}

impl RowsPerBlock {
    /// The test rows of a block according to released sums, weighted by their precision; `None` without sums.
    fn from_released(released: &[ReleasedTest]) -> Option<Self> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for one in released {
            let deviation = std::f64::consts::SQRT_2 * one.noise / one.blocks;
            let weight = 1.0 / (deviation * deviation);
            sum += weight * (one.sums.above + one.sums.below) / one.blocks;
            weights += weight;
        }
        let deviation = (1.0 / weights).sqrt();
        (weights > 0.0).then(|| Self { mean: (sum / weights).max(0.5 * deviation), deviation })
    }
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

/// Below this probability an attempt is left out of account.
const IMPLAUSIBLE: f64 = 0.01;

impl TestForecast {
    /// The forecast that earlier tests of the same pipeline leave. `first` is the setting of the smallest attempt;
    /// `declared` is used until a test was released. `None` if nothing is known about the rows.
    pub fn new(
        (target, tail): (f64, Tail), first: Setting, released: &[ReleasedTest],
        declared: impl FnOnce() -> Option<RowsPerBlock>,
    ) -> Option<Self> {
        let rows = RowsPerBlock::from_released(released).or_else(declared)?;
        let observations: Vec<Observation> = released.iter().filter_map(ReleasedTest::observe).collect();
        Some(Self { target, tail, rows, curve: LearningCurve::fit(&observations, target, first) })
    }

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

    /// Whether such an attempt can be left out, because it is implausible that it is accepted.
    pub fn is_too_small(&self, test: TestSetting) -> bool {
        self.chance(test) < IMPLAUSIBLE
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

    fn forecast(mean: f64) -> TestForecast {
        let seen = Observation { setting: Setting { rows: 10.0, noise: 5.0 }, mean, deviation: 0.01 };
        TestForecast {
            target: 0.2,
            tail: Tail::KullbackLeibler,
            rows: RowsPerBlock { mean: 100.0, deviation: 1.0 },
            curve: LearningCurve::fit(&[seen], 0.2, Setting { rows: 1.0, noise: 5.0 }),
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
    fn what_is_too_small_has_hardly_a_chance() {
        let forecast = forecast(0.15);
        assert!(forecast.is_too_small(setting(0.1, 1.0)));
        assert!(!forecast.is_too_small(setting(100.0, 1.0)));
    }

    /// The rows of a block are known as precisely as the noise of the released sums allows.
    #[test]
    fn released_sums_give_the_rows_of_a_block() {
        let test = |blocks: f64, noise: f64, above: f64, below: f64| ReleasedTest {
            blocks,
            noise,
            sums: Pair { above, below },
        };
        let released = [test(1.0, 50.0, 90.0, 60.0), test(10.0, 50.0, 200.0, 810.0)];
        let rows = RowsPerBlock::from_released(&released).unwrap();
        assert!((rows.mean - 101.5).abs() < 0.5 && (6.9..7.1).contains(&rows.deviation), "{rows:?}");
        assert_eq!(RowsPerBlock::from_released(&[]), None);
        let hidden = RowsPerBlock::from_released(&[test(1.0, 50.0, -70.0, -60.0)]).unwrap();
        assert!(hidden.mean > 0.0, "noise may hide all rows: {hidden:?}");
    }
}
