//! Statistics over all rows: count, sum, mean, variance.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Contribution, Lane, Mechanism, Pair, PerUnit, Rounding, Rows, SCALE, Session, TableNoise};

use super::interval::{StatisticError, charge_for, noise_reach, range, shares, spread};
use crate::encode::present;
use crate::estimate::Estimate;

/// The number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Its noise.
    pub noise: TableNoise,
}

impl Count {
    /// What a lane is charged.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The number of rows for which `counts` returns true; the interval is for the exact count.
    ///
    /// # Errors
    /// When the charge does not cover it or the probability is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, counts: impl Fn(R::Row<'_>) -> bool,
    ) -> Result<Estimate, StatisticError> {
        self.run_records(Contribution::ONE, session, lane, chance, counts)
    }

    /// As [`Count::run`], counting up to so many records of every unit.
    ///
    /// # Errors
    /// As [`Count::run`].
    pub fn run_records<R: Rows, N: NoiseSource>(
        &self, contribution: Contribution, session: &mut Session<R, N>, lane: Lane, chance: f64,
        counts: impl Fn(R::Row<'_>) -> bool,
    ) -> Result<Estimate, StatisticError> {
        let reach = noise_reach(self.noise, chance / 2.0)? * spread(contribution);
        let counted = session.histogram(lane, contribution.per_unit(1), self.noise, |row| counts(row).then_some(0))?;
        Ok(Estimate::around(counted.first().copied().unwrap_or(0.0), reach))
    }
}

/// The sum of a bounded number over the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    /// The bounds numbers are clipped to.
    pub bounds: (f64, f64),
    /// Its noise.
    pub noise: TableNoise,
}

impl Sum {
    /// What a lane is charged.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The sum of the clipped numbers; the interval is for the exact sum. A value that is not finite is missing: its
    /// row adds nothing.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, value: impl Fn(R::Row<'_>) -> f64,
    ) -> Result<Estimate, StatisticError> {
        self.run_records(Contribution::ONE, session, lane, chance, value)
    }

    /// As [`Sum::run`], adding up to so many records of every unit.
    ///
    /// # Errors
    /// As [`Sum::run`].
    pub fn run_records<R: Rows, N: NoiseSource>(
        &self, contribution: Contribution, session: &mut Session<R, N>, lane: Lane, chance: f64,
        value: impl Fn(R::Row<'_>) -> f64,
    ) -> Result<Estimate, StatisticError> {
        let reach = noise_reach(self.noise, chance / 4.0)? * spread(contribution);
        let (low, high) = self.bounds;
        let pair = pair(session, lane, contribution.per_unit(1), self.bounds, self.noise, value)?;
        // Every record may also have been rounded by half a step of its range.
        let step = (high - low) / (2.0 * SCALE as f64) * spread(contribution);
        let rounding = step * (pair.above + pair.below + 2.0 * reach).max(0.0);
        Ok(Estimate::around(high * pair.above + low * pair.below, (high.abs() + low.abs()) * reach + rounding))
    }
}

/// The mean of a bounded number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The bounds numbers are clipped to.
    pub bounds: (f64, f64),
    /// Its noise.
    pub noise: TableNoise,
}

impl Mean {
    /// What a lane is charged.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The mean; the interval is for the mean of the distribution that rows are drawn from, one by one, given that the
    /// value is present. A value that is not finite is missing: its row is in neither the sum nor the count.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, value: impl Fn(R::Row<'_>) -> f64,
    ) -> Result<Estimate, StatisticError> {
        let reach = noise_reach(self.noise, chance / 8.0)?;
        let pair = pair(session, lane, Contribution::ONE.per_unit(1), self.bounds, self.noise, value)?;
        Ok(mean_of(pair, self.bounds, reach, chance))
    }
}

/// The variance of a bounded number, from the means of its deviation from the middle of the bounds and of the squared
/// deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// The bounds numbers are clipped to.
    pub bounds: (f64, f64),
    /// The noise of each of the two means.
    pub noise: TableNoise,
}

impl Variance {
    /// What a lane is charged: two tables.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().flat_map(|part| [part.clone(), part]).collect()
    }

    /// The variance of the distribution that rows are drawn from, given that the value is present. A value that is not
    /// finite is missing: its row is in neither the sums nor the counts.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, value: impl Fn(R::Row<'_>) -> f64,
    ) -> Result<Estimate, StatisticError> {
        let chance = chance / 2.0;
        let reach = noise_reach(self.noise, chance / 8.0)?;
        let (low, high) = self.bounds;
        range(self.bounds)?;
        let (middle, half) = (low + 0.5 * (high - low), 0.5 * (high - low));
        let distance = |row: R::Row<'_>| present(value(row)).map_or(f64::NAN, |value| value.clamp(low, high) - middle);
        let squares = (0.0, half * half);
        let first = pair(session, lane, Contribution::ONE.per_unit(1), (-half, half), self.noise, distance)?;
        let second =
            pair(session, lane, Contribution::ONE.per_unit(1), squares, self.noise, |row| distance(row).powi(2))?;
        let first = mean_of(first, (-half, half), reach, chance);
        let second = mean_of(second, squares, reach, chance);
        let most = first.low.abs().max(first.high.abs());
        let least = if first.low <= 0.0 && first.high >= 0.0 { 0.0 } else { first.low.abs().min(first.high.abs()) };
        let low = (second.low - most * most).max(0.0);
        let high = (second.high - least * least).max(low);
        let value = first.value.zip(second.value);
        Ok(Estimate { value: value.map(|(mean, square)| (square - mean * mean).clamp(low, high)), low, high })
    }
}

/// The pair of sums over the rows whose value is present.
fn pair<R: Rows, N: NoiseSource>(
    session: &mut Session<R, N>, lane: Lane, keys: PerUnit<u32>, bounds: (f64, f64), noise: TableNoise,
    value: impl Fn(R::Row<'_>) -> f64,
) -> Result<Pair, StatisticError> {
    let value = |row: R::Row<'_>| present(value(row)).map(|value| (0, value));
    let pairs = session.pairs(lane, keys, range(bounds)?, Rounding::Nearest, noise, value)?;
    pairs.first().copied().ok_or(StatisticError::Bounds)
}

/// The mean of a pair in its bounds, if each number's noise is within `reach` except with probability `chance` / 8.
pub(super) fn mean_of(pair: Pair, (low, high): (f64, f64), reach: f64, chance: f64) -> Estimate {
    let Some((least, middle, most)) = shares(pair, reach, chance) else {
        return Estimate { value: None, low, high };
    };
    let denormalise = |share: f64| low + share * (high - low);
    // Rounding a row to a step of the range moves the mean by half a step at most.
    let step = 0.5 * (high - low) / SCALE as f64;
    Estimate {
        value: Some(denormalise(middle)),
        low: (denormalise(least) - step).max(low),
        high: (denormalise(most) + step).min(high),
    }
}
