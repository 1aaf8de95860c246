//! The part of a run's risk that is for an unlucky sample of rows, divided over its attempts.
//!
//! The noise of a test is fresh, so its part of the risk is divided in the order of the tests. The rows of the test lane
//! are drawn once. An attempt that is chosen by earlier estimates of the same rows is not independent of them, so its
//! part is fixed before any row is tested: every attempt that could be chosen has a weight, and all weights sum to at
//! most one ([`TestedBlocks::weight`]). An attempt on blocks that no earlier attempt has read is independent of
//! earlier estimates, and its part is divided in the order of the tests like that of the noise. Proof:
//! `docs/internals/informed.md`.

use std::collections::BTreeSet;

use super::grid::Grid;
use super::plan::Plan;

/// The share of the rows' risk for attempts on blocks that were not tested before. The rest is for repeated tests.
const FRESH_SHARE: f64 = 0.5;

/// The blocks whose test rows earlier attempts have read, by their rank among the blocks that a run may read.
#[derive(Clone, Debug, PartialEq)]
pub struct TestedBlocks {
    sealed: u32,
    at_submission: u32,
    tested: BTreeSet<u32>,
    lost: u32,
    /// The share of the risk that attempts without a part for the rows left.
    left: f64,
}

/// The divisors of the rows' risk that the next attempt of a run may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowsPrices {
    /// The number of blocks that no attempt has tested.
    pub(super) fresh_blocks: u32,
    /// The share of the risk that attempts without a part for the rows left.
    pub(super) left: f64,
    /// The divisor of an attempt that reads other blocks too, without gaps.
    pub(super) repeated: f64,
}

impl RowsPrices {
    /// Every attempt reads blocks that were not tested before.
    pub const FRESH: Self = Self { fresh_blocks: u32::MAX, left: 1.0, repeated: f64::INFINITY };

    /// The divisor of an attempt on so many blocks whose noise has this divisor.
    pub fn divisor(self, window: u32, noise_divisor: u64) -> f64 {
        if window <= self.fresh_blocks { fresh_divisor(noise_divisor, self.left) } else { self.repeated }
    }
}

/// The divisor of an attempt on fresh blocks. The divisors of the noise sum to at most one inverted, so these do too.
fn fresh_divisor(noise_divisor: u64, left: f64) -> f64 {
    noise_divisor as f64 / (FRESH_SHARE * left)
}

impl TestedBlocks {
    /// Nothing is tested yet. `sealed` is the number of blocks that a run may read and that are sealed, and
    /// `at_submission` is what it was when the run was submitted.
    pub const fn new(sealed: u32, at_submission: u32) -> Self {
        Self { sealed, at_submission, tested: BTreeSet::new(), lost: 0, left: 1.0 }
    }

    /// The same when more blocks are sealed.
    #[must_use]
    pub fn with_sealed(self, sealed: u32) -> Self {
        Self { sealed, ..self }
    }

    /// Adds the blocks of an attempt that was judged.
    pub fn add_judged(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.tested.extend(blocks);
    }

    /// Adds the blocks of an attempt of this run that was lost after it may have read rows.
    pub fn add_lost(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.tested.extend(blocks);
        self.lost = self.lost.saturating_add(1);
    }

    /// Subtracts an attempt of a log that does not divide the rows' part on its own.
    pub fn spend_undivided(&mut self, divisor: u64) {
        self.left = (self.left - 1.0 / divisor.max(1) as f64).max(f64::EPSILON);
    }

    /// The number of blocks that a run may read and that are sealed.
    pub const fn sealed(&self) -> u32 {
        self.sealed
    }

    /// The blocks of an attempt, among those that admit it, oldest first: the newest that were not tested, if there are
    /// enough of them, or else the newest with the fewest gaps.
    pub fn choose(&self, fitting: &[u32], window: u32) -> Vec<u32> {
        let window = window as usize;
        let fresh: Vec<u32> = fitting.iter().copied().filter(|block| !self.tested.contains(block)).collect();
        if fresh.len() >= window {
            return fresh[fresh.len() - window..].to_vec();
        }
        let gaps = |part: &&[u32]| part.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        fitting.windows(window.max(1)).rev().min_by_key(gaps).map_or_else(|| fitting.to_vec(), <[u32]>::to_vec)
    }

    /// The divisors that the next attempt may have, if it may read these blocks.
    pub fn prices(&self, plan: &Plan, readable: &[u32]) -> RowsPrices {
        let fresh = readable.iter().filter(|block| !self.tested.contains(block)).count();
        let grid = Grid::new(plan, self.sealed);
        let weight = self.end_weight() * self.lost_weight() * grid.typical_weight() * gap_weight(self.sealed, readable);
        let repeated = 1.0 / (self.left * (1.0 - FRESH_SHARE) * weight);
        RowsPrices { fresh_blocks: u32::try_from(fresh).unwrap_or(u32::MAX), left: self.left, repeated }
    }

    /// The divisor of the rows' risk of an attempt on these blocks, oldest first, rounded up.
    pub fn divisor(&self, plan: &Plan, noise_divisor: u64, (cost, blocks): (u64, &[u32])) -> u64 {
        let exact = if blocks.iter().any(|block| self.tested.contains(block)) {
            1.0 / (self.left * (1.0 - FRESH_SHARE) * self.weight(plan, cost, blocks))
        } else {
            fresh_divisor(noise_divisor, self.left)
        };
        // The conversion saturates: an attempt without a weight has the largest divisor.
        (exact * (1.0 + 1e-9)).ceil() as u64
    }

    /// The weight of an attempt among all that could be chosen. It depends on nothing but which attempt it is: the
    /// number of blocks sealed since the submission, the cost, the blocks, and how many attempts were lost before.
    /// The weights of all of these sum to at most one.
    pub fn weight(&self, plan: &Plan, cost: u64, blocks: &[u32]) -> f64 {
        let window = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        let on_grid = Grid::new(plan, self.sealed).weight(cost, window);
        self.end_weight() * self.lost_weight() * on_grid * gap_weight(self.sealed, blocks)
    }

    /// The weight of this number of sealed blocks.
    fn end_weight(&self) -> f64 {
        match self.sealed.abs_diff(self.at_submission) {
            0 => UNCHANGED,
            // More, or fewer if blocks are no longer known.
            since => 0.5 * (1.0 - UNCHANGED) * round_weight(since),
        }
    }

    /// The weight of this number of lost attempts: an attempt that is repeated is another one.
    fn lost_weight(&self) -> f64 {
        (1.0 - LOST) * LOST.powi(i32::try_from(self.lost).unwrap_or(i32::MAX))
    }
}

/// The ratio of the weights of one more lost attempt and of one more gap.
const LOST: f64 = 1.0 / 16.0;
const GAP: f64 = 1.0 / 16.0;
const GAPLESS: f64 = 1.0 - GAP;
/// The weight of reading the newest block.
const ENDS: f64 = 15.0 / 16.0;
/// The weight of an attempt before any block is sealed after the submission.
const UNCHANGED: f64 = 0.75;

/// Weights of the numbers from one on that sum to one.
fn number_weight(number: u32) -> f64 {
    1.0 / (f64::from(number) * (f64::from(number) + 1.0))
}

/// The same, but larger for numbers with few binary digits before their trailing zeros.
fn round_weight(number: u32) -> f64 {
    let zeros = number.trailing_zeros();
    number_weight(zeros + 1) * number_weight((number >> zeros).div_ceil(2))
}

/// The weight of the gap after the newest of these blocks and of those between them, oldest first. With the number of
/// blocks, the gaps from the newest on and the numbers of blocks between gaps determine which blocks they are.
fn gap_weight(sealed: u32, blocks: &[u32]) -> f64 {
    let newest = blocks.last().map_or(0, |last| last + 1);
    let mut weight = match sealed.saturating_sub(newest) {
        0 => ENDS,
        gap => (1.0 - ENDS) * number_weight(gap),
    };
    let mut together = 1;
    weight *= GAPLESS;
    for pair in blocks.windows(2).rev() {
        match pair[1] - pair[0] - 1 {
            0 => together += 1,
            gap => {
                weight *= GAP * number_weight(together) * number_weight(gap);
                together = 1;
            }
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{Limits, Units};

    fn plan(cost: u64) -> Plan {
        let limits = Limits { cost, window: 100, attempts: None, data_doublings: 30, deadline: None };
        Plan::new((16, 1), limits, Units::Share).unwrap()
    }

    /// All sets of up to so many blocks, at all costs, after all numbers of sealed blocks and lost attempts.
    #[test]
    fn the_weights_of_all_attempts_sum_to_at_most_one() {
        let plan = plan(16 << 6);
        for at_submission in [3, 9] {
            let mut sum = 0.0;
            for sealed in 1..=10_u32 {
                for lost in 0..3 {
                    let tested = TestedBlocks { lost, ..TestedBlocks::new(sealed, at_submission) };
                    for set in 1..1_u32 << sealed {
                        let blocks: Vec<u32> = (0..sealed).filter(|block| set >> block & 1 == 1).collect();
                        sum += (16..=16 << 6).map(|cost| tested.weight(&plan, cost, &blocks)).sum::<f64>();
                    }
                }
            }
            println!("{at_submission} blocks at submission: {sum}");
            assert!(sum <= 1.0 && sum > 0.6, "{at_submission}: {sum}");
        }
    }

    #[test]
    fn numbers_have_weights_that_sum_to_one() {
        let sum = |weight: fn(u32) -> f64| (1..1_000_000).map(weight).sum::<f64>();
        assert!((sum(number_weight) - 1.0).abs() < 1e-5, "{}", sum(number_weight));
        // Of the numbers with many trailing zeros most are larger.
        assert!((0.8..1.0).contains(&sum(round_weight)), "{}", sum(round_weight));
    }

    #[test]
    fn fresh_blocks_are_preferred_and_have_a_part_of_their_own() {
        let plan = plan(16 << 6);
        let mut tested = TestedBlocks::new(20, 20);
        let all: Vec<u32> = (0..20).collect();
        assert_eq!(tested.choose(&all, 3), [17, 18, 19]);
        assert_eq!(tested.divisor(&plan, 2, (16, &[17, 18, 19])), 5, "half of what the noise has, rounded up");
        tested.add_judged([17, 18, 19]);
        assert_eq!(tested.choose(&all, 4), [13, 14, 15, 16]);
        assert_eq!(tested.choose(&all, 18), (2..20).collect::<Vec<u32>>());
        // Blocks 5 and 15 admit nothing: one gap is better than two.
        let some: Vec<u32> = (0..20).filter(|block| ![5, 15].contains(block)).collect();
        let mut all_tested = tested.clone();
        all_tested.add_judged(0..20);
        assert_eq!(all_tested.choose(&some, 9), (6..15).collect::<Vec<u32>>());
        let repeated = tested.divisor(&plan, 2, (16, &all[8..]));
        assert!(repeated > 20, "{repeated}");
        assert!(tested.prices(&plan, &all).repeated <= repeated as f64);
    }
}
