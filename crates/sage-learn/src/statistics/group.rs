//! Statistics by key: histograms, and counts, sums and means of groups.

use std::num::NonZeroU32;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{
    BlockPart, Contribution, Lane, Mechanism, Pair, Permit, Rounding, Rows, SCALE, Session, Summary, SummaryTag,
    TableNoise,
};

use super::interval::{StatisticError, charge_for, noise_reach, range, spread};
use super::number::mean_of;
use crate::encode::present;
use crate::estimate::Estimate;
use crate::validate::Noise;

/// The number of rows of each key.
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

    /// The noisy counts, and a bound on the noise of all of them that fails with probability at most `chance`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<(Vec<f64>, f64), StatisticError> {
        self.run_records(Contribution::ONE, session, lane, chance, key)
    }

    /// As [`Histogram::run`], counting up to so many records of every unit.
    ///
    /// # Errors
    /// As [`Histogram::run`].
    pub fn run_records<R: Rows, N: NoiseSource>(
        &self, contribution: Contribution, session: &mut Session<R, N>, lane: Lane, chance: f64,
        key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<(Vec<f64>, f64), StatisticError> {
        let reach = noise_reach(self.noise, chance / (2.0 * f64::from(self.keys.max(1))))? * spread(contribution);
        Ok((session.histogram(lane, contribution.per_unit(self.keys), self.noise, key)?, reach))
    }

    /// The share of each key in the rows of all keys, from counts of up to so many records of every unit that are sums over
    /// `lanes` lanes and each within `reach` of the exact one. The limits of all shares hold together, except with
    /// probability `chance` and where a count is beyond its reach.
    pub fn shares(
        &self, contribution: Contribution, counts: &[f64], lanes: usize, reach: f64, chance: f64,
    ) -> Vec<Estimate> {
        let draws = u32::try_from(counts.len().saturating_mul(lanes)).ok().and_then(NonZeroU32::new);
        let noise = Noise::from(self.noise);
        let sum_reach =
            draws.map_or(f64::INFINITY, |draws| noise.reach_of_sums(draws, 0.5 * chance) * spread(contribution));
        // All counts within their reach bound their sum too.
        let sum_reach = sum_reach.min(reach * counts.len() as f64);
        let sum: f64 = counts.iter().sum();
        let (least, most) = ((sum - sum_reach).max(0.0), sum + sum_reach);
        let share = |count: f64, sum: f64, none: f64| if sum > 0.0 { (count / sum).clamp(0.0, 1.0) } else { none };
        let estimate = |&count: &f64| Estimate {
            value: (least > 0.0).then(|| share(count, sum, 0.0)),
            low: share(count - reach, most, 0.0),
            high: share(count + reach, least, 1.0),
        };
        counts.iter().map(estimate).collect()
    }

    /// Summarises the rows of a block, to replace them in a session; `None` if the sums overflow.
    ///
    /// # Errors
    /// When the permit does not cover the block or a parameter is out of range.
    pub fn summarise<R: Rows>(
        &self, contribution: Contribution, permit: &Permit, (part, tag): (BlockPart, SummaryTag), rows: &[R],
        key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Option<Summary>, StatisticError> {
        Ok(permit.summarise_histogram(part, tag, contribution.per_unit(self.keys), rows, key)?)
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

/// The noisy statistics of one key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The noisy number of rows.
    pub count: f64,
    /// The noisy sum.
    pub sum: f64,
    /// The mean, or the middle of the bounds if there are too few rows.
    pub mean: f64,
    /// Whether the noisy count is too small to distinguish from noise.
    pub too_few: bool,
    /// The confidence interval of the distribution's mean; the intervals of all keys hold simultaneously with the
    /// requested confidence.
    pub interval: Estimate,
}

impl GroupBy {
    /// What a lane is charged: one table for all keys, since a row has at most one key.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The least noisy count for which a mean is reported: twice a bound on the noise of all keys that fails with
    /// probability 1/20.
    ///
    /// # Errors
    /// When the noise has no quantile.
    pub fn fewest(&self) -> Result<f64, StatisticError> {
        Ok(2.0 * noise_reach(self.noise, 0.05 / f64::from(self.keys.max(1)))?)
    }

    /// The groups of all keys, including empty ones. Rows with a key out of range or a missing (non-finite) value are
    /// not counted.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Group>, StatisticError> {
        self.run_records(Contribution::ONE, session, lane, chance, value)
    }

    /// As [`GroupBy::run`], where up to so many records of a unit count. The intervals hold if a unit adds to a key once.
    ///
    /// # Errors
    /// As [`GroupBy::run`].
    pub fn run_records<R: Rows, N: NoiseSource>(
        &self, contribution: Contribution, session: &mut Session<R, N>, lane: Lane, chance: f64,
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Group>, StatisticError> {
        let (chance, spread) = (chance / f64::from(self.keys.max(1)), spread(contribution));
        let (reach, fewest) = (noise_reach(self.noise, chance / 8.0)? * spread, self.fewest()? * spread);
        let value = |row: R::Row<'_>| with_value(value(row));
        let (keys, range) = (contribution.per_unit(self.keys), range(self.bounds)?);
        let pairs = session.pairs(lane, keys, range, Rounding::Nearest, self.noise, value)?;
        // Half a step of one record's grid, less the half step that the mean's interval allows for.
        let step = 0.5 * (self.bounds.1 - self.bounds.0) / SCALE as f64 * (spread - 1.0);
        let widened = |mut group: Group| {
            group.interval.low = (group.interval.low - step).max(self.bounds.0);
            group.interval.high = (group.interval.high + step).min(self.bounds.1);
            group
        };
        Ok(pairs.into_iter().map(|pair| widened(self.group(pair, reach, fewest, chance))).collect())
    }

    /// Summarises the rows of a block, to replace them in a session; `None` if the sums overflow.
    ///
    /// # Errors
    /// When the permit does not cover the block or a parameter is out of range.
    pub fn summarise<R: Rows>(
        &self, contribution: Contribution, permit: &Permit, (part, tag): (BlockPart, SummaryTag), rows: &[R],
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Option<Summary>, StatisticError> {
        let scaling = (range(self.bounds)?, Rounding::Nearest);
        let keys = contribution.per_unit(self.keys);
        Ok(permit.summarise_pairs(part, tag, keys, scaling, rows, |row| with_value(value(row)))?)
    }

    /// The released sums behind a group: the share of the bounds above the lower one, and the rest.
    pub fn sums(&self, group: &Group) -> Pair {
        let (low, high) = self.bounds;
        let above = (group.sum - low * group.count) / (high - low);
        Pair { above, below: group.count - above }
    }

    /// The half-width that the interval of a group would have without noise, where the intervals of all groups fail with
    /// probability `chance` together.
    pub fn sampling_half_width(&self, group: &Group, chance: f64) -> f64 {
        mean_of(self.sums(group), self.bounds, 0.0, chance / f64::from(self.keys.max(1))).half_width()
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

#[cfg(test)]
mod tests {
    use sage_kernel::Epsilon;

    use super::*;

    /// The limits hold for every noise of the counts within their reach, and narrow with more rows.
    #[test]
    fn shares_hold_for_every_noise_within_the_reach() {
        let noise = TableNoise::Laplace(Epsilon::cost("1").expect("an epsilon"));
        let histogram = Histogram { keys: 3, noise };
        let mut last = f64::INFINITY;
        for rows in [10.0, 100.0, 1e3, 1e5] {
            let exact = [0.5 * rows, 0.3 * rows, 0.2 * rows];
            let reach = 20.0;
            for bits in 0..8_u32 {
                let noise = |bit: u32| if bits >> bit & 1 == 1 { reach } else { -reach };
                let noisy = [exact[0] + noise(0), exact[1] + noise(1), exact[2] + noise(2)];
                // The sum of the three is off by at most as much as the bound on it allows.
                let shares = histogram.shares(Contribution::ONE, &noisy, 2, reach, 1e-9);
                for (found, exact) in shares.iter().zip([0.5, 0.3, 0.2]) {
                    let within = found.low <= exact && exact <= found.high;
                    assert!(within, "{rows} {bits}: {found:?}, not {exact}");
                    assert!((0.0..=1.0).contains(&found.low) && (0.0..=1.0).contains(&found.high));
                }
            }
            let width = histogram.shares(Contribution::ONE, &exact, 2, reach, 1e-9)[0];
            let width = width.high - width.low;
            assert!(width <= last, "{rows}: {width}, not below {last}");
            last = width;
        }
        assert!(last < 1e-3);
        for hidden in [[0.0, 0.0, 0.0], [-5.0, 1.0, 2.0]] {
            let shares = histogram.shares(Contribution::ONE, &hidden, 2, 20.0, 1e-9);
            assert!(shares.iter().all(|share| share.value.is_none() && share.high == 1.0), "{shares:?}");
        }
    }

    /// Where several records of a unit count, the sum of the counts has as much more noise as each of them.
    #[test]
    fn shares_of_records_hold_for_every_noise_within_the_reach() {
        let noise = TableNoise::Laplace(Epsilon::cost("1").expect("an epsilon"));
        let histogram = Histogram { keys: 3, noise };
        let exact = [50_000.0, 30_000.0, 20_000.0];
        for contribution in [1, 10, 100].map(|records| Contribution::new(records).expect("a contribution")) {
            let reach = 20.0 * spread(contribution);
            for bits in 0..8_u32 {
                let noise = |bit: u32| if bits >> bit & 1 == 1 { reach } else { -reach };
                let noisy = [exact[0] + noise(0), exact[1] + noise(1), exact[2] + noise(2)];
                let shares = histogram.shares(contribution, &noisy, 2, reach, 1e-9);
                for (found, exact) in shares.iter().zip([0.5, 0.3, 0.2]) {
                    let within = found.low <= exact && exact <= found.high;
                    assert!(within, "{contribution:?} {bits}: {found:?}, not {exact}");
                }
            }
        }
    }
}
