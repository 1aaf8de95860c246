//! Available budget: what a run can spend on each block, from its reservation or a loan, within what the ledger has
//! left.

use sage_kernel::{BlockId, Component, ContextId, Filter, Lane, Rate, Rule, Stream as Ledgered};
use sage_learn::count::Node;

use crate::allocate::{Allocation, Event, PipelineId, Resources, SHARES};
use crate::api::policy::found;
use crate::api::{Engine, EngineError, lock};
use crate::catalog::{Catalog, Run, Stage, Stream};
use crate::pipeline::{Pipeline, Train};
use crate::plan;
use crate::scheduler::queue;

/// The source of the budget that a run would spend, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its own reservation.
    Reserved,
    /// What it can borrow now.
    Spare,
    /// Everything unspent, including what is reserved for other runs.
    Unspent,
}

impl Reach {
    /// The most that a pipeline may spend on a block of an allocation.
    pub(crate) fn of(self, allocation: &Allocation, pipeline: PipelineId, block: BlockId) -> Resources {
        match self {
            Self::Reserved => allocation.offer(pipeline, block),
            Self::Spare => allocation.spare(pipeline, block),
            Self::Unspent => allocation.unspent(block),
        }
    }
}

/// The budget that a run can spend on each block.
pub(crate) struct AvailableBudget {
    /// The index of each block in sealing order, and the most that can be spent on it, in units of cost.
    pub(crate) offered: Vec<(u32, u64)>,
    /// The filter that counts these units.
    pub(crate) filter: Filter,
}

impl Engine {
    /// The budget that the schedule and the ledger leave to a run.
    pub(crate) fn available_budget(
        &self, catalog: &Catalog, number: u64, run: &Run, known: &Stream, reach: Reach,
    ) -> Result<Option<AvailableBudget>, EngineError> {
        let Some(context) = queue::context_of(run, Some(known)) else { return Ok(None) };
        let name = &run.pipeline.stream;
        self.with(|gate, _| {
            let (id, _) = found(gate, catalog, name)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(None) };
            let Some(own) = ledgered.policy().contexts().get(context as usize) else { return Ok(None) };
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let mut schedule = lock(&self.schedule);
            let Some(allocation) = schedule.allocation(name, context) else { return Ok(None) };
            let reads = catalog.history().reads(&run.pipeline);
            let mut offered = Vec::new();
            for ((index, block), key) in (0..).zip(numbers).zip(&known.sealed) {
                if ledgered.is_retired(block) || known.stage(key) != Stage::Sealed {
                    let _ = allocation.apply(Event::Retire { block: BlockId(index) });
                    continue;
                }
                if !reads(index, key) {
                    continue;
                }
                let allowed = reach.of(allocation, PipelineId(number), BlockId(index));
                let lanes = Lane::BOTH.map(|lane| {
                    let spent = ledgered.spent(ContextId(context), block, lane).unwrap_or_default();
                    let left = left_of_lane(&own.filter, spent).min(left_jointly(ledgered, &own.filter, block, lane));
                    allowed.loss(lane).min(left)
                });
                offered.push((index, lanes[0].min(within_share(&run.pipeline, lanes[1]))));
            }
            Ok(Some(AvailableBudget { offered, filter: own.filter.clone() }))
        })
    }
}

/// What the joint ceiling leaves on a lane, in units of this filter. If the joint ceiling uses another rule, this is no
/// limit, and the ledger is queried block by block.
fn left_jointly(ledgered: &Ledgered, filter: &Filter, block: BlockId, lane: Lane) -> u64 {
    match (ledgered.policy().joint(), ledgered.spent_jointly(block, lane)) {
        (Some(joint), Some(spent)) if joint.rule() == filter.rule() && joint.rule() != Rule::Renyi => {
            left_of_lane(joint, spent)
        }
        _ => u64::MAX,
    }
}

/// What is left on a lane, in units of cost; under Rényi filters, on the order with the most left.
pub(crate) fn left_of_lane(filter: &Filter, spent: &[u128]) -> u64 {
    let of = |index: usize| {
        let cap = u128::from(filter.caps()[index]);
        cap.saturating_sub(spent.get(index).copied().unwrap_or(cap))
    };
    let share = |index: usize| of(index) * u128::from(SHARES) / u128::from(filter.caps()[index].max(1));
    let orders = (0..filter.caps().len()).filter(|index| filter.components()[*index] != Component::Delta);
    let units = match filter.rule() {
        Rule::Renyi => orders.map(share).max().unwrap_or(0),
        _ => of(0),
    };
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// The largest attempt cost whose test share is at most `most`.
fn within_share(pipeline: &Pipeline, most: u64) -> u64 {
    let share = match &pipeline.train {
        Train::Statistic(statistic) if !plan::uses_both_lanes(statistic) => return u64::MAX,
        Train::Statistic(_) => return most,
        _ => pipeline.budget.shares.validate.units(),
    };
    let whole = u128::from(Rate::LIMIT.units());
    u64::try_from(u128::from(most) * whole / u128::from(share.max(1))).unwrap_or(u64::MAX)
}

/// The approximate number of training rows per block, as released by the census or stated in the pipeline file. With no
/// blocks given, for the newest block.
pub(crate) fn rows_of(pipeline: &Pipeline, known: &Stream, blocks: &[(u32, u32)]) -> Option<f64> {
    let stated = match &pipeline.train {
        Train::Model(learner) => learner.declared_rows().map(f64::from),
        _ => None,
    };
    let newest = known.sealed.len().checked_sub(1).and_then(|last| u32::try_from(last).ok());
    let all = if blocks.is_empty() { newest.map(|last| (last, last)).into_iter().collect() } else { blocks.to_vec() };
    let indices = || all.iter().flat_map(|&(first, last)| first..=last);
    let counted = indices().map(|index| known.counted.get(&Node { level: 0, first: u64::from(index) }));
    let counts: Option<Vec<i64>> = counted.map(|counts| counts.map(|[train, _]| *train)).collect();
    let mean = |counts: Vec<i64>| counts.iter().sum::<i64>() as f64 / counts.len().max(1) as f64;
    counts.filter(|counts| !counts.is_empty()).map(mean).filter(|mean| *mean >= 1.0).or(stated)
}

/// Sorted indices as inclusive ranges.
pub(crate) fn ranges(indices: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    ranges
}
