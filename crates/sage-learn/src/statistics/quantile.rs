//! Quantiles over a public grid, from noisy counts of a binary tree.
//!
//! The grid's edges divide the numbers into buckets, and each level of the tree is one histogram: two halves, four
//! quarters, down to the buckets. The number of values below an edge is the sum of at most one node of each level, so
//! its noise grows with the number of levels and not with the number of buckets, and one run gives all quantiles.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Rows, SCALE, Session, TableNoise};

use super::interval::{StatisticError, charge_for};
use crate::count::laplace_sum_quantile;
use crate::encode::present;

/// Quantiles over a public grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    edges: Vec<f64>,
    levels: u32,
    noise: TableNoise,
}

/// A quantile with its confidence interval.
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
    /// Quantiles over these edges, finite and ascending, with this noise on each level of the tree.
    ///
    /// # Errors
    /// When there is no edge, edges are not ascending, or there are more than 2^20.
    pub fn new(edges: Vec<f64>, noise: TableNoise) -> Result<Self, StatisticError> {
        let ascending = edges.iter().all(|edge| edge.is_finite()) && edges.windows(2).all(|pair| pair[0] < pair[1]);
        if edges.is_empty() || !ascending || edges.len() > 1 << 20 {
            return Err(StatisticError::Bounds);
        }
        // There is one more bucket than edges.
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
    /// present; they hold simultaneously except with probability `chance`.
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
    /// The intervals of all keys hold simultaneously except with probability `chance`.
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
        // The Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, at the upper limit of the row count.
        let most = (total + 2.0 * reach).max(0.0);
        let spread = libm::sqrt(0.5 * most * libm::log(4.0 / chance));
        // The noise of a rank and of the total, and the deviation of the rows from their distribution.
        let slack = reach + 2.0 * reach * share + spread;
        let target = share * total;
        let edge = |index: Option<usize>| index.and_then(|index| self.edges.get(index)).copied();
        let value = ranks.iter().position(|rank| *rank >= target).unwrap_or(self.edges.len() - 1);
        let below = ranks.iter().rposition(|rank| rank + slack < target);
        let above = ranks.iter().position(|rank| rank - slack > target);
        let value = edge(Some(value)).unwrap_or(f64::NAN);
        let (low, high) = (edge(below).unwrap_or(f64::NEG_INFINITY), edge(above).unwrap_or(f64::INFINITY));
        Located { value: value.clamp(low.min(high), high.max(low)), low, high }
    }

    /// The bound on the noise of all sums of at most one node of each level; it fails with probability at most
    /// `chance` / 2.
    fn reach(&self, chance: f64) -> Result<f64, StatisticError> {
        let beta = chance / (4.0 * (self.edges.len() as f64 + 1.0));
        let terms = self.levels.max(2);
        match self.noise {
            TableNoise::Laplace(epsilon) => {
                let each = epsilon.units() as f64 / 1e12 / SCALE as f64;
                laplace_sum_quantile(terms, each, beta).map(|units| units / SCALE as f64).ok_or(StatisticError::Bounds)
            }
            // The discrete Gaussian's moment generating function is at most the continuous one's.
            TableNoise::Gaussian(sigma) => {
                Ok(sigma.units() as f64 / 1e9 * libm::sqrt(-2.0 * f64::from(terms) * libm::log(beta)))
            }
        }
    }
}

/// The noisy number of rows in the first `buckets` buckets: the sum of one node of each level whose bit is set.
fn rank(nodes: &[&[f64]], buckets: usize) -> f64 {
    let levels = nodes.len();
    let set = (0..levels).filter(|&level| buckets >> (levels - 1 - level) & 1 == 1);
    set.map(|level| nodes[level][(buckets >> (levels - 1 - level)) - 1]).sum()
}
