//! The schedule: one allocation per context of each stream, updated by the notes of the log.
//!
//! Blocks are identified by their index in sealing order, runs by their number. A schedule is policy: it decides who
//! may request what from the ledger, and the ledger alone decides about the charge. An event that an allocation
//! rejects, because the policy or the scheduler has changed since, is skipped; a charge never is.
//!
//! The cost of a run's next attempt follows from its notes too, so loans come out the same after a restart.

use std::collections::{BTreeMap, BTreeSet};

use sage_kernel::{Blocks, Filter, Rate, Rule};

use crate::adapt::{Action, Offers, Phase, World};
use crate::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler};
use crate::catalog::{Catalog, Note, Run, Step, Stream};
use crate::pipeline::Train;
use crate::plan::uses_both_lanes;

/// Which runs may be able to spend more after a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gain {
    /// At most the run that the note is about.
    Own,
    /// Other runs that wait on its stream as well.
    Others,
}

/// The allocations of all streams.
#[derive(Default)]
pub(crate) struct Schedule {
    scheduler: Scheduler,
    allocations: BTreeMap<(String, u32), Allocation>,
    /// Runs that name their blocks and have not ended.
    restricted: BTreeSet<u64>,
    /// The current time, for schedulers that unlock budget over time.
    time: Option<u64>,
}

impl Schedule {
    /// A schedule without streams.
    pub(crate) const fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, allocations: BTreeMap::new(), restricted: BTreeSet::new(), time: None }
    }

    /// The allocation of a context.
    pub(crate) fn allocation(&mut self, stream: &str, context: u32) -> Option<&mut Allocation> {
        self.allocations.get_mut(&(stream.to_owned(), context))
    }

    /// Advances the time. Returns whether that alone can have unlocked budget.
    pub(crate) fn advance_clock(&mut self, time: u64) -> bool {
        if !self.scheduler.unlocks_over_time() || self.time.is_some_and(|now| now >= time) {
            return false;
        }
        self.time = Some(time);
        for allocation in self.allocations.values_mut() {
            // A clock that was set back is ignored.
            let _ = allocation.apply(Event::AdvanceClock { time });
        }
        true
    }

    /// Applies a note that the catalog has just applied. Returns which runs can gain from it.
    pub(crate) fn follow(&mut self, note: &Note, catalog: &Catalog) -> Gain {
        match note {
            Note::StreamDefined { stream, .. } => {
                for (context, filter) in filters(catalog.stream(stream)) {
                    let counting = match filter.rule() {
                        Rule::Renyi => Counting::Primary,
                        _ => Counting::Every { smallest: Resources::ZERO },
                    };
                    let allocation = self.allocations.entry((stream.clone(), context));
                    let allocation = allocation.or_insert_with(|| Allocation::new(self.scheduler, counting));
                    if let Some(time) = self.time {
                        let _ = allocation.apply(Event::AdvanceClock { time });
                    }
                }
            }
            Note::BlocksSealed { stream, blocks, .. } => {
                for (context, filter) in filters(catalog.stream(stream)) {
                    let capacity = Resources::of_block(&filter).unwrap_or(Resources::ZERO);
                    for _ in blocks {
                        self.apply(stream, context, Event::Block { capacity });
                    }
                }
                let named = |run: &Run| run.pipeline.stream == *stream && names_any(run, blocks);
                let runs =
                    self.restricted.iter().filter(|run| catalog.history().run(**run).is_some_and(|run| named(run)));
                for run in runs.copied().collect::<Vec<u64>>() {
                    self.restrict(run, catalog);
                }
            }
            Note::RunSubmitted { .. } => {
                if let Some((number, run)) = catalog.history().newest() {
                    let pipelines = vec![PipelineId(number)];
                    self.of(run, catalog, Event::Arrive { pipelines });
                    if run.pipeline.blocks.is_some() {
                        self.restricted.insert(number);
                        self.restrict(number, catalog);
                    }
                    self.of(run, catalog, Event::Need { pipeline: PipelineId(number), cost: need(run) });
                }
            }
            Note::RunStepped { run: number, step } => {
                if let Some(run) = catalog.history().run(*number) {
                    return self.step(*number, run, step, catalog);
                }
            }
            _ => {}
        }
        Gain::Own
    }

    fn step(&mut self, number: u64, run: &Run, step: &Step, catalog: &Catalog) -> Gain {
        let pipeline = PipelineId(number);
        let of_last = run.last().and_then(|last| Some((blocks(&last.blocks)?, Resources(last.resources))));
        let event = match (step, of_last) {
            (Step::Chosen { .. }, Some((blocks, cost))) => Event::Request { pipeline, blocks, cost },
            (Step::Charged, Some((blocks, cost))) => Event::Spend { pipeline, blocks, cost },
            (Step::Withdrawn, Some((blocks, cost))) => Event::Refund { pipeline, blocks, cost },
            (Step::Refused, _) => Event::Withdraw { pipeline },
            _ => Event::Withdraw { pipeline },
        };
        let spent = match &event {
            Event::Spend { blocks, .. } => Some(blocks.clone()),
            _ => None,
        };
        self.of(run, catalog, event);
        self.of(run, catalog, Event::Need { pipeline, cost: need(run) });
        if matches!(run.state.phase(), Phase::Over(_)) {
            self.of(run, catalog, Event::Leave { pipeline });
            self.restricted.remove(&number);
            return Gain::Others;
        }
        // Without reservations every step affects all runs. With them, a charge leaves the reservations of others
        // unchanged; only the last run on a block may request more than its reservation.
        let (stream, scheduler) = (&run.pipeline.stream, self.scheduler);
        let allocation = context_of(run, catalog.stream(stream)).and_then(|context| self.allocation(stream, context));
        match (step, spent, allocation) {
            (Step::Withdrawn, ..) | (_, _, None) => Gain::Others,
            (_, _, Some(_)) if scheduler != Scheduler::EvenSplit => Gain::Others,
            (_, Some(blocks), Some(allocation)) if allocation.may_leave_one(&blocks) => Gain::Others,
            _ => Gain::Own,
        }
    }

    /// Restricts a run that names its blocks to those that are sealed.
    fn restrict(&mut self, number: u64, catalog: &Catalog) {
        let Some(run) = catalog.history().run(number) else { return };
        let sealed = catalog.stream(&run.pipeline.stream).map_or(&[][..], |stream| &stream.sealed);
        let named = run.pipeline.blocks.iter().flatten();
        let indices = named.filter_map(|key| sealed.iter().position(|own| own == key));
        let indices = indices.filter_map(|index| u32::try_from(index).ok()).map(|index| (index, index));
        let blocks = Blocks::from_ranges(indices).ok();
        self.of(run, catalog, Event::Restrict { pipeline: PipelineId(number), blocks });
    }

    fn of(&mut self, run: &Run, catalog: &Catalog, event: Event) {
        let stream = &run.pipeline.stream;
        if let Some(context) = context_of(run, catalog.stream(stream)) {
            self.apply(stream, context, event);
        }
    }

    fn apply(&mut self, stream: &str, context: u32, event: Event) {
        let Some(allocation) = self.allocation(stream, context) else { return };
        let charge = match &event {
            Event::Spend { pipeline, blocks, cost } => {
                Some(Event::Borrow { pipeline: *pipeline, blocks: blocks.clone(), cost: *cost })
            }
            _ => None,
        };
        // An event that does not fit is skipped and changes nothing. A charge beyond a reservation is a loan.
        let taken = allocation.apply(event).is_ok();
        if let (false, Some(loan)) = (taken, charge) {
            let _ = allocation.apply(loan);
        }
    }
}

/// The most that the next attempt of a waiting run takes of each block, in the units of the allocation; `None` if an
/// attempt is in progress or there is none.
fn need(run: &Run) -> Option<Resources> {
    let nothing = Offers::default();
    let Action::Wait(next) = run.state.next(World::new(0, &nothing)) else { return None };
    let share = match &run.pipeline.train {
        Train::Statistic(statistic) if uses_both_lanes(statistic) => Rate::LIMIT,
        Train::Statistic(_) => Rate::ZERO,
        _ => run.pipeline.budget.shares.validate,
    };
    let tested = (u128::from(next.cost) * u128::from(share.units())).div_ceil(u128::from(Rate::LIMIT.units()));
    let tested = u64::try_from(tested).unwrap_or(u64::MAX);
    let delta = run.terms.delta().units();
    Some(Resources([next.cost, delta, tested, if tested > 0 { delta } else { 0 }]))
}

/// Whether a run names any of these blocks.
fn names_any(run: &Run, keys: &[String]) -> bool {
    run.pipeline.blocks.as_ref().is_some_and(|named| keys.iter().any(|key| named.contains(key)))
}

/// A set of blocks, by their indices in sealing order.
pub(crate) fn blocks(ranges: &[(u32, u32)]) -> Option<Blocks> {
    Blocks::from_ranges(ranges.iter().copied()).ok()
}

/// The index of the context that pays for a run.
pub(crate) fn context_of(run: &Run, stream: Option<&Stream>) -> Option<u32> {
    stream?.file.policy.context_index(run.pipeline.context.as_deref())
}

/// The filters of a stream's contexts.
fn filters(stream: Option<&Stream>) -> Vec<(u32, Filter)> {
    let policy = stream.and_then(|stream| stream.file.kernel_policy());
    let contexts = policy.iter().flat_map(|policy| policy.contexts());
    (0..).zip(contexts.map(|context| context.filter.clone())).collect()
}
