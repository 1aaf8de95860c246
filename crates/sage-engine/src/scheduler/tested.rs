//! Which blocks the attempts of a run have tested, from the catalog.

use crate::adapt::{Attempt, RowsPrices, Strategy, TestedBlocks};
use crate::catalog::{AttemptEnd, Catalog, Run, Stream};
use crate::pipeline::{Pipeline, Statistic, Train};
use crate::scheduler::available::ranges;

/// The blocks that a run may read, and which of them were tested.
pub(crate) struct RunBlocks {
    /// Indices in sealing order, rising. A block's rank is its index here.
    readable: Vec<u32>,
    tested: TestedBlocks,
}

impl RunBlocks {
    /// The blocks of a run whose attempts are chosen by estimates; `None` if verdicts alone decide.
    pub(crate) fn new(catalog: &Catalog, number: u64, run: &Run, known: &Stream) -> Option<Self> {
        if run.state.plan().strategy() != Strategy::Informed || !has_forecast(&run.pipeline) {
            return None;
        }
        let named = |key: &String| run.pipeline.blocks.as_ref().is_none_or(|named| named.contains(key));
        let readable: Vec<u32> =
            (0..).zip(&known.sealed).filter(|(_, key)| named(key)).map(|(index, _)| index).collect();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let before = readable.partition_point(|index| *index < run.sealed_before);
        let tested = TestedBlocks::new(count(readable.len()), count(before));
        let mut blocks = Self { readable, tested };
        for (other, same) in catalog.history().runs().filter(|(_, other)| other.is_same(run)) {
            for one in &same.attempts {
                let ranks = blocks.ranks(&one.blocks);
                match &one.end {
                    Some(AttemptEnd::Judged(_)) => blocks.tested.add_judged(ranks),
                    Some(AttemptEnd::Lost(_)) if other == number => blocks.tested.add_lost(ranks),
                    _ => continue,
                }
                if other == number && one.attempt.rows_divisor.is_none() {
                    blocks.tested.spend_undivided(one.attempt.risk_divisor);
                }
            }
        }
        Some(blocks)
    }

    fn ranks(&self, blocks: &[(u32, u32)]) -> Vec<u32> {
        let rank = |index: u32| self.readable.binary_search(&index).ok().and_then(|rank| u32::try_from(rank).ok());
        blocks.iter().flat_map(|&(first, last)| first..=last).filter_map(rank).collect()
    }

    /// The number of blocks that the run may read.
    pub(crate) const fn sealed(&self) -> u32 {
        self.tested.sealed()
    }

    /// The divisors that the next attempt may have, if it may read the offered blocks.
    pub(crate) fn prices(&self, run: &Run, offered: &[(u32, u64)]) -> RowsPrices {
        let first_cost = run.state.plan().first_cost();
        let able: Vec<u32> =
            offered.iter().filter(|(_, offer)| *offer >= first_cost).map(|(index, _)| *index).collect();
        self.tested.prices(run.state.plan(), &self.ranks(&ranges(&able)))
    }

    /// The blocks of an attempt, of those that admit it, and the attempt with its part of the risk.
    pub(crate) fn choose(&self, run: &Run, attempt: Attempt, fitting: &[u32]) -> (Attempt, Vec<u32>) {
        let chosen = self.tested.choose(&self.ranks(&ranges(fitting)), attempt.window);
        let divisor = self.tested.divisor(run.state.plan(), attempt.risk_divisor, (attempt.cost, &chosen));
        let index = |rank: &u32| self.readable.get(*rank as usize).copied();
        (attempt.with_rows_divisor(divisor), chosen.iter().filter_map(index).collect())
    }
}

/// Whether anything about the next attempt can be forecast from the reports of earlier ones.
pub(crate) fn has_forecast(pipeline: &Pipeline) -> bool {
    let Some(validate) = &pipeline.validate else { return false };
    match &pipeline.train {
        Train::Statistic(Statistic::Variance { .. } | Statistic::Quantile { .. }) => false,
        Train::Statistic(Statistic::Histogram { relative, .. }) => !relative,
        Train::Statistic(_) => true,
        _ => validate.also.is_empty() && validate.metric.test().target_share(&validate.goal).is_some(),
    }
}
