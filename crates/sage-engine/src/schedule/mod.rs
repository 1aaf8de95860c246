//! The schedule: an allocation for each context of each stream, moved along by the log's notes.
//!
//! Blocks are known here by their place in the order of sealing, runs by their numbers. Like every allocation it is
//! policy: it says who may ask the ledger for what, and the ledger alone decides. An event that an allocation does
//! not take, because the policy or the scheduler has changed since, is passed over.

use std::collections::BTreeMap;

use sage_kernel::{Blocks, Filter, Rule};

use crate::adapt::Phase;
use crate::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler};
use crate::catalog::{Catalog, Note, Run, Step, Stream};

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
    /// How late it is, where that brings budget within reach.
    time: Option<u64>,
}

impl Schedule {
    /// No stream yet.
    pub(crate) const fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, rooms: BTreeMap::new(), time: None }
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
            }
            Note::RunSubmitted { .. } => {
                if let Some((number, run)) = catalog.works().newest() {
                    let pipelines = vec![PipelineId(number)];
                    self.of(run, catalog, Event::Arrive { pipelines });
                }
            }
            Note::RunStepped { run: number, step } => {
                if let Some(run) = catalog.works().run(*number) {
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
        if matches!(run.state.phase(), Phase::Over(_)) {
            self.of(run, catalog, Event::Leave { pipeline });
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

    fn of(&mut self, run: &Run, catalog: &Catalog, event: Event) {
        let stream = &run.pipeline.stream;
        if let Some(context) = context_of(run, catalog.stream(stream)) {
            self.apply(stream, context, event);
        }
    }

    fn apply(&mut self, stream: &str, context: u32, event: Event) {
        if let Some(room) = self.room(stream, context) {
            // Passed over where it does not fit: nothing has changed then.
            let _ = room.apply(event);
        }
    }
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
