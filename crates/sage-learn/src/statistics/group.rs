//! Numbers by key: histograms, and counts, sums and means of groups.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{BlockPart, Lane, Mechanism, Pair, Permit, Rounding, Rows, Session, Summary, SummaryTag, TableNoise};

use super::interval::{StatisticError, charge_for, noise_reach, range};
use super::number::mean_of;
use crate::encode::present;
use crate::estimate::Estimate;

/// How many rows each key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The number of keys.
    pub keys: u32,
    /// Its noise.
    pub noise: TableNoise,
}

impl Histogram {
    /// What a lane is charged.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The noisy counts, and how far off any of them is, but for this probability that one is further.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<(Vec<f64>, f64), StatisticError> {
        let reach = noise_reach(self.noise, chance / (2.0 * f64::from(self.keys.max(1))))?;
        Ok((session.histogram(lane, self.keys, self.noise, key)?, reach))
    }

    /// The sums of a block that replace its rows in a session; `None` if they do not fit.
    ///
    /// # Errors
    /// When the permit does not cover the block or a parameter is out of range.
    pub fn summarise<R: Rows>(
        &self, permit: &Permit, (part, tag): (BlockPart, SummaryTag), rows: &[R],
        key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Option<Summary>, StatisticError> {
        Ok(permit.summarise_histogram(part, tag, self.keys, rows, key)?)
    }
}

/// Count, sum and mean of a bounded number for each key, all from one table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupBy {
    /// The number of keys.
    pub keys: u32,
    /// The bounds numbers are clipped to.
    pub bounds: (f64, f64),
    /// Its noise.
    pub noise: TableNoise,
}

/// What is known of one key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The noisy number of rows.
    pub count: f64,
    /// The noisy sum.
    pub sum: f64,
    /// The mean, or the middle of the bounds where too few rows show.
    pub mean: f64,
    /// Whether too few rows show: the noise may be all there is.
    pub too_few: bool,
    /// Where the mean of the distribution lies, all keys together but for the probability asked for.
    pub interval: Estimate,
}

impl GroupBy {
    /// What a lane is charged: a row has one key at most, so one table pays for all of them.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The fewest noisy rows whose mean is taken for one: twice what the noise reaches in any of the keys,
    /// but for one time in twenty.
    ///
    /// # Errors
    /// When the noise has no quantile.
    pub fn fewest(&self) -> Result<f64, StatisticError> {
        Ok(2.0 * noise_reach(self.noise, 0.05 / f64::from(self.keys.max(1)))?)
    }

    /// Every key's group, the empty ones included. Keys beyond the last count nowhere, and neither do rows whose value
    /// is missing: not finite.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Group>, StatisticError> {
        let chance = chance / f64::from(self.keys.max(1));
        let (reach, fewest) = (noise_reach(self.noise, chance / 8.0)?, self.fewest()?);
        let value = |row: R::Row<'_>| with_value(value(row));
        let pairs = session.pairs(lane, self.keys, range(self.bounds)?, Rounding::Nearest, self.noise, value)?;
        Ok(pairs.into_iter().map(|pair| self.group(pair, reach, fewest, chance)).collect())
    }

    /// The sums of a block that replace its rows in a session; `None` if they do not fit.
    ///
    /// # Errors
    /// When the permit does not cover the block or a parameter is out of range.
    pub fn summarise<R: Rows>(
        &self, permit: &Permit, (part, tag): (BlockPart, SummaryTag), rows: &[R],
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Option<Summary>, StatisticError> {
        let taken = (range(self.bounds)?, Rounding::Nearest);
        Ok(permit.summarise_pairs(part, tag, self.keys, taken, rows, |row| with_value(value(row)))?)
    }

    fn group(&self, pair: Pair, reach: f64, fewest: f64, chance: f64) -> Group {
        let (low, high) = self.bounds;
        let count = pair.above + pair.below;
        let too_few = count < fewest;
        let share = if too_few { 0.5 } else { (pair.above / count).clamp(0.0, 1.0) };
        Group {
            count,
            sum: high * pair.above + low * pair.below,
            mean: low + share * (high - low),
            too_few,
            interval: mean_of(pair, self.bounds, reach, chance),
        }
    }
}

/// The key and the value of a row whose value is present.
fn with_value(row: Option<(u32, f64)>) -> Option<(u32, f64)> {
    row.and_then(|(key, value)| Some((key, present(value)?)))
}
