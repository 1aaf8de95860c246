//! Quantiles over a public grid, from noisy counts of a binary tree.
//!
//! The grid's edges cut the numbers into buckets, and each level of the tree is one histogram: two halves, four
//! quarters, down to the buckets. How many numbers lie below an edge is the sum of at most one node a level, so
//! its noise grows with the number of levels and not with that of the buckets, and one run answers every
//! quantile.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Rows, SCALE, Session, TableNoise};

use super::interval::{StatisticError, charge_for};
use crate::count::laplace_sum_quantile;
use crate::encode::present;

/// A plan to find quantiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    edges: Vec<f64>,
    levels: u32,
    noise: TableNoise,
}

/// Where a quantile lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Located {
    /// The edge nearest above the estimate's rank.
    pub value: f64,
    /// An edge that the quantile is not below, or minus infinity.
    pub low: f64,
    /// An edge that the quantile is not above, or infinity.
    pub high: f64,
}

impl Quantiles {
    /// Over these edges, finite and rising, with this noise on each level of the tree.
    ///
    /// # Errors
    /// When there is no edge, or they do not rise, or there are more than 2^20.
    pub fn new(edges: Vec<f64>, noise: TableNoise) -> Result<Self, StatisticError> {
        let rising = edges.iter().all(|edge| edge.is_finite()) && edges.windows(2).all(|pair| pair[0] < pair[1]);
        if edges.is_empty() || !rising || edges.len() > 1 << 20 {
            return Err(StatisticError::Bounds);
        }
        // One bucket more than edges.
        let levels = (edges.len() + 1).next_power_of_two().ilog2();
        Ok(Self { edges, levels, noise })
    }

    /// What a lane is charged: one table for each level.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().flat_map(|part| vec![part; self.levels as usize]).collect()
    }

    /// The quantiles of these shares, all from one run. A value that is not finite is missing: its row is not counted.
    ///
    /// The intervals are for the quantiles of the distribution that rows are drawn from, given that the value is
    /// present, all together but for `chance`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, shares: &[f64], chance: f64, value: impl Fn(R::Row<'_>) -> f64,
    ) -> Result<Vec<Located>, StatisticError> {
        let found = self.run_by_key(session, lane, 1, shares, chance, |row| Some((0, value(row))))?;
        found.into_iter().next().ok_or(StatisticError::Bounds)
    }

    /// The same for every key from 0 to `keys` − 1, at the same charge: a row has one key at most. Rows without a key or
    /// a value are not counted.
    ///
    /// The intervals of all keys hold together but for `chance`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run_by_key<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, keys: u32, shares: &[f64], chance: f64,
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Vec<Located>>, StatisticError> {
        if !(keys > 0 && chance > 0.0 && chance < 1.0 && shares.iter().all(|share| (0.0..=1.0).contains(share))) {
            return Err(StatisticError::Bounds);
        }
        let levels = self.levels;
        let cells = |level: u32| keys.checked_mul(1 << level).ok_or(StatisticError::Bounds);
        let chance = chance / f64::from(keys);
        let reach = self.reach(chance)?;
        let mut nodes = Vec::with_capacity(levels as usize);
        for level in 1..=levels {
            let counted = session.histogram(lane, cells(level)?, self.noise, |row| {
                let (key, number) = value(row).filter(|(key, _)| *key < keys)?;
                let number = present(number)?;
                let bucket = self.edges.partition_point(|edge| *edge <= number);
                Some((key << level) + (bucket >> (levels - level)) as u32)
            })?;
            nodes.push(counted);
        }
        let of_key = |key: usize| {
            let nodes: Vec<&[f64]> =
                nodes.iter().zip(1..).map(|(counts, level)| &counts[key << level..(key + 1) << level]).collect();
            let ranks: Vec<f64> = (1..=self.edges.len()).map(|buckets| rank(&nodes, buckets)).collect();
            let total = nodes[0].iter().sum::<f64>();
            shares.iter().map(|share| self.locate(*share, &ranks, total, reach, chance)).collect()
        };
        Ok((0..keys as usize).map(of_key).collect())
    }

    fn locate(&self, share: f64, ranks: &[f64], total: f64, reach: f64, chance: f64) -> Located {
        // Dvoretzky, Kiefer and Wolfowitz with Massart's constant, at the most rows there may be.
        let most = (total + 2.0 * reach).max(0.0);
        let spread = libm::sqrt(0.5 * most * libm::log(4.0 / chance));
        // The noise of a rank and of the total, and the deviation of the rows from their distribution.
        let slack = reach + 2.0 * reach * share + spread;
        let wanted = share * total;
        let at = |place: Option<usize>| place.and_then(|place| self.edges.get(place)).copied();
        let value = ranks.iter().position(|rank| *rank >= wanted).unwrap_or(self.edges.len() - 1);
        let below = ranks.iter().rposition(|rank| rank + slack < wanted);
        let above = ranks.iter().position(|rank| rank - slack > wanted);
        let value = at(Some(value)).unwrap_or(f64::NAN);
        let (low, high) = (at(below).unwrap_or(f64::NEG_INFINITY), at(above).unwrap_or(f64::INFINITY));
        Located { value: value.clamp(low.min(high), high.max(low)), low, high }
    }

    /// How far any sum of at most one node a level is off, but for half the probability.
    fn reach(&self, chance: f64) -> Result<f64, StatisticError> {
        let beta = chance / (4.0 * (self.edges.len() as f64 + 1.0));
        let terms = self.levels.max(2);
        match self.noise {
            TableNoise::Laplace(epsilon) => {
                let each = epsilon.units() as f64 / 1e12 / SCALE as f64;
                laplace_sum_quantile(terms, each, beta).map(|units| units / SCALE as f64).ok_or(StatisticError::Bounds)
            }
            // The discrete Gaussian's moments are below the continuous one's.
            TableNoise::Gaussian(sigma) => {
                Ok(sigma.units() as f64 / 1e9 * libm::sqrt(-2.0 * f64::from(terms) * libm::log(beta)))
            }
        }
    }
}

/// How many rows are in the first so many buckets: one node of each level whose bit is set.
fn rank(nodes: &[&[f64]], buckets: usize) -> f64 {
    let levels = nodes.len();
    let set = (0..levels).filter(|&level| buckets >> (levels - 1 - level) & 1 == 1);
    set.map(|level| nodes[level][(buckets >> (levels - 1 - level)) - 1]).sum()
}
