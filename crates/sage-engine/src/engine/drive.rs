//! The loop: which run does what next.
//!
//! A step is recorded before anything follows from it, in this order: an attempt is chosen, charged, started, read,
//! judged. So a process that was stopped anywhere finds its runs as they were and goes on; what it had started is
//! burnt, what it had only charged is used. Who comes first is the schedule's to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::charge::Written;
use super::crash::Work;
use super::{Engine, EngineError, Granted, lock, note};
use crate::adapt::{Attempt, Phase};
use crate::allocate::{Event, PipelineId};
use crate::catalog::{Note, Step};
use crate::plan::{AttemptCost, Recipe};
use crate::schedule;

/// An attempt that is paid for and waits to be performed.
#[must_use = "it is paid for"]
pub struct Job {
    pub(super) run: u64,
    pub(super) attempt: Attempt,
    pub(super) recipe: Arc<Recipe>,
    pub(super) attempt_cost: AttemptCost,
    pub(super) granted: Granted,
    /// The charge of the test lane, where it is one of its own.
    pub(super) tested: Option<Granted>,
}

impl Job {
    /// The run.
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// The attempt.
    pub const fn attempt(&self) -> Attempt {
        self.attempt
    }
}

/// What a run would do if it were its turn.
pub(super) struct Choice {
    pub(super) run: u64,
    pub(super) attempt: Attempt,
    pub(super) blocks: Vec<(u32, u32)>,
    pub(super) written: Written,
    /// How much the agenda had taken in when it was made.
    pub(super) made: u64,
}

/// An allocation: a stream and the place of a context.
type Room = (String, u32);

/// What runs would do if it were their turn, by allocation and by their numbers.
#[derive(Default)]
pub(super) struct Choices {
    rooms: BTreeMap<Room, BTreeMap<u64, Choice>>,
    /// How much the agenda had taken in, and how late it was, when nobody had anything to do.
    quiet: Option<(u64, u64)>,
}

impl Choices {
    fn forget(&mut self, run: u64) {
        self.rooms.values_mut().for_each(|room| {
            room.remove(&run);
        });
        self.rooms.retain(|_, room| !room.is_empty());
    }

    /// The runs whose choices were made before the last of so many changes.
    fn made_before(&self, changes: u64) -> Vec<u64> {
        let all = self.rooms.values().flat_map(BTreeMap::values);
        all.filter(|choice| choice.made != changes).map(|choice| choice.run).collect()
    }
}

impl Engine {
    /// The next attempt to perform at this time, in milliseconds since 1970; nothing if every run waits or is over.
    ///
    /// Attempts that were under way when a process stopped come first, then whoever the schedule puts first. Only runs
    /// are looked at whose situation changed since they were looked at last, or whose time has come.
    ///
    /// # Errors
    /// When the log fails.
    pub fn next_job(&self, time: u64) -> Result<Option<Job>, EngineError> {
        // Held to the end: two workers must not choose for the same run.
        let mut busy = lock(&self.busy);
        let left_lying = lock(&self.agenda).left_lying(&busy);
        for number in left_lying {
            let catalog = self.catalog();
            let Some(run) = catalog.history().run(number) else { continue };
            lock(&self.agenda).look();
            let planned = self.crash_guard.enter(number, Work::Planning);
            let resumed = self.resume(number, run);
            drop(planned);
            if let Some(job) = resumed? {
                busy.insert(number);
                return Ok(Some(job));
            }
        }
        self.look_for_expired(time)?;
        self.resubmit_due(time)?;
        if lock(&self.schedule).tick(time) {
            lock(&self.agenda).stir_all();
        }
        let mut choices = lock(&self.choices);
        let taken = lock(&self.agenda).take(time);
        let unchanged = Some((lock(&self.agenda).changes(), time));
        if taken.is_empty() && choices.quiet == unchanged {
            return Ok(None);
        }
        let mut left = taken;
        while let Some(number) = left.pop_first() {
            self.look(number, time, &mut choices).inspect_err(|_| {
                left.insert(number);
                lock(&self.agenda).put_back(std::mem::take(&mut left));
            })?;
        }
        loop {
            while let Some(choice) = self.whose_turn(&mut choices) {
                let run = choice.run;
                if choice.made != lock(&self.agenda).changes() {
                    // Others have been charged since: it is looked at again, alone, now that its turn has come.
                    lock(&self.agenda).look();
                    self.look(run, time, &mut choices)?;
                    continue;
                }
                if let Some(job) = self.begin(choice)? {
                    busy.insert(job.run);
                    return Ok(Some(job));
                }
            }
            // It is nobody's turn by choices of before the last change: they may be made otherwise now.
            let changes = lock(&self.agenda).changes();
            let old = choices.made_before(changes);
            if old.is_empty() {
                break;
            }
            for run in old {
                lock(&self.agenda).look();
                self.look(run, time, &mut choices)?;
            }
        }
        choices.quiet = Some((lock(&self.agenda).changes(), time));
        Ok(None)
    }

    /// How many times a run was looked at since the directory was opened: what turns of the loop cost.
    pub fn looks(&self) -> u64 {
        lock(&self.agenda).looks()
    }

    /// Looks at a run that may have something to do, and keeps what it would do.
    fn look(&self, number: u64, time: u64, choices: &mut Choices) -> Result<(), EngineError> {
        choices.forget(number);
        lock(&self.agenda).unsettle(number);
        let catalog = self.catalog();
        let Some(run) = catalog.history().run(number).filter(|run| run.state.phase() == Phase::Idle) else {
            return Ok(());
        };
        let stream = &run.pipeline.stream;
        let Some(context) = schedule::context_of(run, catalog.stream(stream)) else { return Ok(()) };
        let planned = self.crash_guard.enter(number, Work::Planning);
        let choice = self.choose(&catalog, number, run, time);
        drop(planned);
        let choice = choice?;
        let pipeline = PipelineId(number);
        let asked = choice.as_ref().and_then(|choice| {
            let blocks = schedule::blocks(&choice.blocks)?;
            Some(Event::Ask { pipeline, blocks, cost: choice.written.attempt_cost.resources })
        });
        let mut schedule = lock(&self.schedule);
        let Some(room) = schedule.room(stream, context) else { return Ok(()) };
        // What it does not take is not ready, and waits.
        let _ = room.apply(asked.unwrap_or(Event::Withdraw { pipeline }));
        drop(schedule);
        if let Some(choice) = choice {
            lock(&self.agenda).settle(number);
            choices.rooms.entry((stream.clone(), context)).or_default().insert(number, choice);
        }
        Ok(())
    }

    /// Performs attempts until every run waits or is over; gives how many there were.
    ///
    /// # Errors
    /// When the log fails.
    pub fn work(&self, time: u64) -> Result<usize, EngineError> {
        let mut performed = 0;
        while let Some(job) = self.next_job(time)? {
            self.perform(job)?;
            performed += 1;
        }
        Ok(performed)
    }

    /// Takes the choice whose turn it is out of the list: of the room in which somebody came first. Where no run's own
    /// reservations cover its attempt, one borrows, in a room where nothing is under way.
    fn whose_turn(&self, choices: &mut Choices) -> Option<Choice> {
        let under_way = self.rooms_under_way();
        let mut schedule = lock(&self.schedule);
        let mut rooms: Vec<(&Room, &mut BTreeMap<u64, Choice>)> = choices.rooms.iter_mut().collect();
        rooms.sort_by_key(|(_, own)| own.keys().next().copied());
        let covered = rooms.iter_mut().find_map(|((stream, context), own)| {
            let first = schedule.room(stream, *context)?.ready_first(|id| own.contains_key(&id.0))?;
            own.remove(&first.0)
        });
        let taken = covered.or_else(|| {
            rooms.into_iter().filter(|(room, _)| !under_way.contains(*room)).find_map(|((stream, context), own)| {
                let borrower = schedule.room(stream, *context)?.borrower(|id| own.contains_key(&id.0))?;
                own.remove(&borrower.0)
            })
        });
        choices.rooms.retain(|_, room| !room.is_empty());
        taken
    }

    /// The rooms in which an attempt is under way.
    fn rooms_under_way(&self) -> BTreeSet<Room> {
        let catalog = self.catalog();
        let runs = lock(&self.agenda).under_way();
        let room = |number: u64| {
            let run = catalog.history().run(number)?;
            let stream = &run.pipeline.stream;
            Some((stream.clone(), schedule::context_of(run, catalog.stream(stream))?))
        };
        runs.into_iter().filter_map(room).collect()
    }

    /// Records a choice and charges it.
    fn begin(&self, choice: Choice) -> Result<Option<Job>, EngineError> {
        let Choice { run, attempt, blocks, written, .. } = choice;
        self.step(run, Step::Chosen { attempt, blocks, resources: written.attempt_cost.resources.0 })?;
        self.charge_attempt(run, attempt, written)
    }

    /// Submits again what is to be run again and again, once its last run is over, its time has come and there are
    /// blocks that were sealed since.
    fn resubmit_due(&self, time: u64) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let due = lock(&self.agenda).take_due(time, &catalog);
        for run in due.into_iter().filter_map(|number| catalog.history().run(number)) {
            let (stream, text) = (run.pipeline.stream.clone(), run.pipeline.to_text());
            let again = Note::RunSubmitted {
                stream,
                text,
                by: run.by.clone(),
                at: time,
                terms: run.terms,
                code: run.code.clone(),
            };
            self.with(|gate, catalog| {
                // Decided on the newest file of the stream: a person without the role does not spend again.
                let allowed = catalog.stream(&run.pipeline.stream).is_some_and(|known| known.may_spend(run));
                let owned = catalog.history().owner(&run.pipeline.name) == Some(run.pipeline.stream.as_str());
                if allowed && owned { Ok(note(gate, catalog, &again)?) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// Writes down what happened to a run.
    pub(super) fn step(&self, run: u64, step: Step) -> Result<(), EngineError> {
        self.with(|gate, catalog| Ok(note(gate, catalog, &Note::RunStepped { run, step })?))
    }
}
