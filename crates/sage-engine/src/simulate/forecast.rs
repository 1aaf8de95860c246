//! The forecast of a simulated pipeline: how its difficulty is distributed, and what its attempts have shown of it.

use sage_learn::forecast::normal_cdf;

use super::dice::TrafficRandom;
use super::{Need, Scenario};
use crate::adapt::{Attempt, Forecast, Units};

/// What a pipeline knows about its difficulty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KnownDifficulty {
    /// Only how difficulties are distributed.
    Distribution,
    /// An estimate, as an attempt's report shows it, with a relative error of about [`ERROR`].
    Estimate(f64),
}

/// The standard deviation of the logarithm of an estimated difficulty.
const ERROR: f64 = 0.25;

impl KnownDifficulty {
    /// What an attempt of a pipeline of this difficulty shows.
    pub(super) fn observe(difficulty: f64, pipeline: u64, attempt: &Attempt) -> Self {
        let mut random = TrafficRandom::new(pipeline.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ attempt.serial);
        // Twelve uniform numbers sum to nearly a normal one.
        let normal = (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        Self::Estimate(difficulty * (ERROR * normal).exp())
    }
}

/// The forecast of the next attempt of a simulated pipeline.
pub(super) struct SimulatedForecast<'scenario> {
    pub(super) scenario: &'scenario Scenario,
    pub(super) known: KnownDifficulty,
    /// The noise of a release at the reference cost, over sensitivity.
    pub(super) reference: (u64, f64),
    pub(super) units: Units,
}

impl SimulatedForecast<'_> {
    /// The largest difficulty that an attempt overcomes.
    fn overcomes(&self, cost: u64, window: u32) -> f64 {
        let (reference, noise) = self.reference;
        let ratio = reference as f64 / cost.max(1) as f64;
        let noise = noise * if self.units == Units::Epsilon { ratio } else { ratio.sqrt() };
        let Need { rows, noisy_rows } = self.scenario.need;
        self.scenario.rows * f64::from(window) / (rows + noisy_rows * noise)
    }
}

impl Forecast for SimulatedForecast<'_> {
    fn chance(&self, cost: u64, window: u32, _: f64) -> f64 {
        let most = self.overcomes(cost, window);
        match self.known {
            KnownDifficulty::Distribution => TrafficRandom::share_of_difficulties_below(most),
            KnownDifficulty::Estimate(estimate) => normal_cdf((most / estimate).ln() / ERROR),
        }
    }

    fn is_too_small(&self, cost: u64, window: u32, rows_divisor: f64) -> bool {
        /// Below this chance an attempt is left out.
        const IMPLAUSIBLE: f64 = 0.01;
        // With a margin for the rounding of prices.
        let is_estimated = matches!(self.known, KnownDifficulty::Estimate(_));
        self.overcomes(cost, window) < 0.99 || (is_estimated && self.chance(cost, window, rows_divisor) < IMPLAUSIBLE)
    }
}
