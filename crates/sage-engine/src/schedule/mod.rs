//! The schedule: an allocation for each context of each stream, moved along by the log's notes.
//!
//! Blocks are known here by their place in the order of sealing, runs by their numbers. Like every allocation it is
//! policy: it says who may ask the ledger for what, and the ledger alone decides. An event that an allocation does
//! not take, because the policy or the scheduler has changed since, is passed over; a charge never is.
//!
//! What a run needs for its next attempt follows from its notes too, so that what loans leave to whom comes out the
//! same after a restart.

use std::collections::{BTreeMap, BTreeSet};

use sage_kernel::{Blocks, Filter, Rate, Rule};

use crate::adapt::{Action, Offers, Phase, World};
use crate::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler};
use crate::catalog::{Catalog, Note, Run, Step, Stream};
use crate::pipeline::Train;
use crate::plan::uses_both_lanes;

/// Who may be able to spend more after a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gain {
    /// At most the run that it is about.
    Own,
    /// Others that wait on its stream as well.
    Others,
}

/// The allocations of all streams.
#[derive(Default)]
pub(crate) struct Schedule {
    scheduler: Scheduler,
    rooms: BTreeMap<(String, u32), Allocation>,
    /// Runs that name their blocks, and are not over.
    restricted: BTreeSet<u64>,
    /// How late it is, where that brings budget within reach.
    time: Option<u64>,
}

impl Schedule {
    /// No stream yet.
    pub(crate) const fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, rooms: BTreeMap::new(), restricted: BTreeSet::new(), time: None }
    }

    /// The allocation of a context.
    pub(crate) fn room(&mut self, stream: &str, context: u32) -> Option<&mut Allocation> {
        self.rooms.get_mut(&(stream.to_owned(), context))
    }

    /// Time went on. Says whether that alone can have brought somebody budget.
    pub(crate) fn tick(&mut self, time: u64) -> bool {
        if !self.scheduler.unlocks_over_time() || self.time.is_some_and(|now| now >= time) {
            return false;
        }
        self.time = Some(time);
        for room in self.rooms.values_mut() {
            // A clock that was put back is passed over, as above.
            let _ = room.apply(Event::Tick { time });
        }
        true
    }

    /// Takes in a note that the catalog has just taken. Says who gains by a step of a run.
    pub(crate) fn follow(&mut self, note: &Note, catalog: &Catalog) -> Gain {
        match note {
            Note::StreamDefined { stream, .. } => {
                for (context, filter) in filters(catalog.stream(stream)) {
                    let counting = match filter.rule() {
                        Rule::Renyi => Counting::Primary,
                        _ => Counting::Every { smallest: Resources::ZERO },
                    };
                    let room = self.rooms.entry((stream.clone(), context));
                    let room = room.or_insert_with(|| Allocation::new(self.scheduler, counting));
                    if let Some(time) = self.time {
                        let _ = room.apply(Event::Tick { time });
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
            (Step::Chosen { .. }, Some((blocks, cost))) => Event::Ask { pipeline, blocks, cost },
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
        // Without reservations whatever one does is felt by all. With them, a charge leaves others what they have; only
        // who holds the last of a block may ask for more than that.
        let (stream, scheduler) = (&run.pipeline.stream, self.scheduler);
        let room = context_of(run, catalog.stream(stream)).and_then(|context| self.room(stream, context));
        match (step, spent, room) {
            (Step::Withdrawn, ..) | (_, _, None) => Gain::Others,
            (_, _, Some(_)) if scheduler != Scheduler::EvenSplit => Gain::Others,
            (_, Some(blocks), Some(room)) if room.may_leave_one(&blocks) => Gain::Others,
            _ => Gain::Own,
        }
    }

    /// Which of the sealed blocks a run reads that names them.
    fn restrict(&mut self, number: u64, catalog: &Catalog) {
        let Some(run) = catalog.history().run(number) else { return };
        let sealed = catalog.stream(&run.pipeline.stream).map_or(&[][..], |stream| &stream.sealed);
        let named = run.pipeline.blocks.iter().flatten();
        let places = named.filter_map(|key| sealed.iter().position(|own| own == key));
        let places = places.filter_map(|place| u32::try_from(place).ok()).map(|place| (place, place));
        let blocks = Blocks::from_ranges(places).ok();
        self.of(run, catalog, Event::Restrict { pipeline: PipelineId(number), blocks });
    }

    fn of(&mut self, run: &Run, catalog: &Catalog, event: Event) {
        let stream = &run.pipeline.stream;
        if let Some(context) = context_of(run, catalog.stream(stream)) {
            self.apply(stream, context, event);
        }
    }

    fn apply(&mut self, stream: &str, context: u32, event: Event) {
        let Some(room) = self.room(stream, context) else { return };
        let charge = match &event {
            Event::Spend { pipeline, blocks, cost } => {
                Some(Event::Borrow { pipeline: *pipeline, blocks: blocks.clone(), cost: *cost })
            }
            _ => None,
        };
        // Passed over where it does not fit: nothing has changed then. What was charged beyond a reservation is a loan.
        let taken = room.apply(event).is_ok();
        if let (false, Some(loan)) = (taken, charge) {
            let _ = room.apply(loan);
        }
    }
}

/// What the next attempt of a run that waits takes of each block at most, as the allocation counts; None while one is
/// under way, or if there is none.
fn need(run: &Run) -> Option<Resources> {
    let nothing = Offers::default();
    let Action::Wait(wanted) = run.state.next(World { time: 0, offers: &nothing }) else { return None };
    let share = match &run.pipeline.train {
        Train::Statistic(statistic) if uses_both_lanes(statistic) => Rate::LIMIT,
        Train::Statistic(_) => Rate::ZERO,
        _ => run.pipeline.budget.shares.validate,
    };
    let tested = (u128::from(wanted.cost) * u128::from(share.units())).div_ceil(u128::from(Rate::LIMIT.units()));
    let tested = u64::try_from(tested).unwrap_or(u64::MAX);
    let delta = run.terms.delta().units();
    Some(Resources([wanted.cost, delta, tested, if tested > 0 { delta } else { 0 }]))
}

/// Whether a run names any of these blocks.
fn names_any(run: &Run, keys: &[String]) -> bool {
    run.pipeline.blocks.as_ref().is_some_and(|named| keys.iter().any(|key| named.contains(key)))
}

/// A set of blocks by their places in the order of sealing.
pub(crate) fn blocks(ranges: &[(u32, u32)]) -> Option<Blocks> {
    Blocks::from_ranges(ranges.iter().copied()).ok()
}

/// The place of the context that pays for a run.
pub(crate) fn context_of(run: &Run, stream: Option<&Stream>) -> Option<u32> {
    stream?.file.policy.place_of(run.pipeline.context.as_deref())
}

/// The filters of a stream's contexts.
fn filters(stream: Option<&Stream>) -> Vec<(u32, Filter)> {
    let policy = stream.and_then(|stream| stream.file.kernel_policy());
    let contexts = policy.iter().flat_map(|policy| policy.contexts());
    (0..).zip(contexts.map(|context| context.filter.clone())).collect()
}
