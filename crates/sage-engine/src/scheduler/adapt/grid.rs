//! The costs and numbers of blocks that attempts of [`Strategy::Informed`](super::Strategy::Informed) may have.
//!
//! They are on a geometric grid that is aligned with all sealed blocks: three steps to a doubling of the blocks, two to a
//! doubling of the cost. So a doubling of either is exact but for rounding to whole blocks, and there are few attempts
//! to divide a risk by.

use super::plan::Plan;

/// The steps of a doubling of the blocks, falling from all blocks.
const WINDOW_STEPS: [f64; 3] = [1.0, 0.793_700_525_984_099_8, 0.629_960_524_947_436_6];
/// The steps of a doubling of the cost.
const COST_STEPS: [f64; 2] = [1.0, std::f64::consts::SQRT_2];
/// No cost is so many doublings from the first.
const MOST_DOUBLINGS: u32 = 64;

/// The grid of one plan on so many sealed blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Falling.
    windows: Vec<u32>,
    /// Rising, from the first cost on.
    costs: Vec<u64>,
}

impl Grid {
    pub(super) fn new(plan: &Plan, sealed: u32) -> Self {
        let (first, limits) = (plan.first_window(), plan.limits());
        let all = sealed.min(limits.window);
        let part = |halves: i32, step: f64| (f64::from(all) * step * 0.5_f64.powi(halves)) as u32;
        let parts = (0..32).flat_map(|halves| WINDOW_STEPS.map(|step| part(halves, step)));
        let mut windows: Vec<u32> = parts.take_while(|window| *window > first).chain([first]).collect();
        windows.dedup();
        let least = COST_STEPS.map(|step| (plan.first_cost() as f64 * step).ceil() as u64);
        let levels = (0..MOST_DOUBLINGS).flat_map(|doublings| least.map(|cost| cost.checked_mul(1 << doublings)));
        let mut costs: Vec<u64> = levels.flatten().take_while(|cost| *cost <= limits.cost).collect();
        costs.dedup();
        Self { windows, costs }
    }

    /// The numbers of blocks, falling.
    pub(super) fn windows(&self) -> &[u32] {
        &self.windows
    }

    /// The costs, rising.
    pub(super) fn costs(&self) -> &[u64] {
        &self.costs
    }

    /// The largest number of blocks up to `most`.
    pub(super) fn window_within(&self, most: u32) -> Option<u32> {
        self.windows.iter().copied().find(|window| *window <= most)
    }

    /// The largest cost up to `most`.
    pub(super) fn cost_within(&self, most: u64) -> Option<u64> {
        self.costs[..self.costs.partition_point(|cost| *cost <= most)].last().copied()
    }

    /// The weight of an attempt at the first cost.
    pub(super) fn typical_weight(&self) -> f64 {
        0.5 / self.windows.len() as f64
    }

    /// The weight of an attempt of the grid, or zero. All weights sum to at most one: a half for attempts at the first
    /// cost, a half for those at higher costs, most of it where all blocks are read.
    pub(super) fn weight(&self, cost: u64, window: u32) -> f64 {
        let Some(rank) = self.windows.iter().position(|own| *own == window) else { return 0.0 };
        match self.costs.binary_search(&cost) {
            Ok(0) => self.typical_weight(),
            Ok(_) => {
                let rank = i32::try_from(rank).unwrap_or(i32::MAX);
                0.5 * 0.75 * 0.25_f64.powi(rank) / (self.costs.len() - 1) as f64
            }
            Err(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{Limits, Units};

    #[test]
    fn doubling_stays_on_the_grid() {
        for (cost, blocks) in [(1 << 30, 365), (77, 31), (1 << 10, 1000)] {
            let limits =
                Limits { cost: cost << 10, window: u32::MAX, attempts: None, data_doublings: 1, deadline: None };
            let grid = Grid::new(&Plan::new((cost, 1), limits, Units::Share).unwrap(), blocks);
            for (index, one) in grid.costs().iter().enumerate().filter(|(_, one)| **one <= cost << 9) {
                assert_eq!(grid.costs().get(index + COST_STEPS.len()), Some(&(2 * one)));
            }
            assert_eq!((grid.windows()[0], grid.windows()[grid.windows().len() - 1]), (blocks, 1));
            for window in grid.windows().iter().filter(|window| **window <= blocks / 2) {
                let doubled = |one: &u32| [2 * window, 2 * window + 1].contains(one);
                assert!(grid.windows().iter().any(doubled), "{window} of {:?}", grid.windows());
            }
            let sum: f64 = grid
                .windows()
                .iter()
                .flat_map(|window| grid.costs().iter().map(|cost| grid.weight(*cost, *window)))
                .sum();
            assert!(sum <= 1.0 && sum > 0.9, "{sum}");
            assert!(grid.weight(cost + 1, 1) == 0.0 && grid.weight(cost, blocks + 1) == 0.0);
        }
    }
}
