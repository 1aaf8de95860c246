//! The loop: which run does what next.
//!
//! A step is recorded before anything follows from it, in this order: an attempt is chosen, charged, started, read,
//! judged. So a process that was stopped anywhere finds its runs as they were and goes on; what it had started is
//! burnt, what it had only charged is used. Who comes first is the schedule's to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::charge::Written;
use super::offers::Offered;
use super::{Engine, EngineError, Granted, grant, lock, note};
use crate::adapt::{Action, Attempt, End, Limit, Offers, Phase, World};
use crate::allocate::{Event, PipelineId};
use crate::catalog::{Catalog, Note, Run, Step};
use crate::plan::{Bill, Recipe};
use crate::schedule;

/// An attempt that is paid for and waits to be performed.
#[must_use = "it is paid for"]
pub struct Job {
    pub(super) run: u64,
    pub(super) attempt: Attempt,
    pub(super) recipe: Arc<Recipe>,
    pub(super) bill: Bill,
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
struct Choice {
    run: u64,
    attempt: Attempt,
    blocks: Vec<(u32, u32)>,
    written: Written,
    /// How much the agenda had taken in when it was made.
    made: u64,
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
            let Some(run) = catalog.works().run(number) else { continue };
            lock(&self.agenda).look();
            if let Some(job) = self.resume(number, run)? {
                busy.insert(number);
                return Ok(Some(job));
            }
        }
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
        let catalog = self.catalog();
        let Some(run) = catalog.works().run(number).filter(|run| run.state.phase() == Phase::Idle) else {
            return Ok(());
        };
        let stream = &run.pipeline.stream;
        let Some(context) = schedule::context_of(run, catalog.stream(stream)) else { return Ok(()) };
        let choice = self.choose(&catalog, number, run, time)?;
        let pipeline = PipelineId(number);
        let asked = choice.as_ref().and_then(|choice| {
            let blocks = schedule::blocks(&choice.blocks)?;
            Some(Event::Ask { pipeline, blocks, cost: choice.written.bill.resources })
        });
        let mut schedule = lock(&self.schedule);
        let Some(room) = schedule.room(stream, context) else { return Ok(()) };
        // What it does not take is not ready, and waits.
        let _ = room.apply(asked.unwrap_or(Event::Withdraw { pipeline }));
        if let Some(choice) = choice {
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

    /// What a run wants to do, as far as the ledger would let it.
    fn choose(&self, catalog: &Catalog, number: u64, run: &Run, time: u64) -> Result<Option<Choice>, EngineError> {
        let name = &run.pipeline.stream;
        let Some(known) = catalog.stream(name) else { return Ok(None) };
        if !known.file.policy.still_pays(&run.by, run.pipeline.context.as_deref()) {
            self.step(number, Step::Ended { end: End::NotMember })?;
            return Ok(None);
        }
        let Some(Offered { offered, filter }) = self.offers(catalog, number, run, known)? else { return Ok(None) };
        let offers = Offers::new(offered.iter().map(|(_, offer)| *offer).collect());
        let attempt = match run.state.next(World { time, offers: &offers }) {
            Action::Choose(attempt) => attempt,
            Action::Stop(end) => {
                self.step(number, Step::Ended { end })?;
                return Ok(None);
            }
            _ => {
                // Would it go on if it might spend whatever it likes? If not, nothing but blocks helps.
                let anything = Offers::new(vec![u64::MAX; offered.len()]);
                if matches!(run.state.next(World { time, offers: &anything }), Action::Wait(_)) {
                    lock(&self.agenda).waits_for_blocks(number);
                }
                return Ok(None);
            }
        };
        // The newest blocks that allow it.
        let fitting = offered.iter().rev().filter(|(_, offer)| *offer >= attempt.cost).map(|(place, _)| *place);
        let mut places: Vec<u32> = fitting.take(attempt.window as usize).collect();
        places.reverse();
        let blocks = super::offers::ranges(&places);
        let recipe = self.recipe(catalog, number, run);
        if let Some(recipe) = &recipe {
            let rows =
                super::offers::rows_of(&run.pipeline, known, &blocks).map(|each| each * f64::from(attempt.window));
            if recipe.within_memory(&known.file, rows, self.memory_limit(&run.pipeline)).is_err() {
                self.step(number, Step::Ended { end: End::Limit(Limit::Memory) })?;
                return Ok(None);
            }
        }
        let written =
            recipe.and_then(|recipe| super::charge::written(recipe, catalog, number, run, &attempt, &blocks, &filter));
        let Some(written) = written else {
            self.step(number, Step::Ended { end: End::Failing })?;
            return Ok(None);
        };
        let admitted = self.with(|gate, catalog| {
            let mut all = true;
            for ask in written.asks() {
                let request = grant::request(gate, catalog, ask)?;
                all &= matches!(gate.ledger().decide(&request), sage_kernel::Decision::Admitted(_));
            }
            Ok(all)
        });
        // What the ledger would refuse now waits for other blocks or other times.
        let made = lock(&self.agenda).changes();
        Ok(admitted.unwrap_or(false).then_some(Choice { run: number, attempt, blocks, written, made }))
    }

    /// Takes the choice whose turn it is out of the list: of the room in which somebody came first.
    fn whose_turn(&self, choices: &mut Choices) -> Option<Choice> {
        let mut schedule = lock(&self.schedule);
        let mut rooms: Vec<(&Room, &mut BTreeMap<u64, Choice>)> = choices.rooms.iter_mut().collect();
        rooms.sort_by_key(|(_, own)| own.keys().next().copied());
        let taken = rooms.into_iter().find_map(|((stream, context), own)| {
            let first = schedule.room(stream, *context)?.ready_first(|id| own.contains_key(&id.0))?;
            own.remove(&first.0)
        });
        choices.rooms.retain(|_, room| !room.is_empty());
        taken
    }

    /// Records a choice and charges it.
    fn begin(&self, choice: Choice) -> Result<Option<Job>, EngineError> {
        let Choice { run, attempt, blocks, written, .. } = choice;
        self.step(run, Step::Chosen { attempt, blocks, resources: written.bill.resources.0 })?;
        self.charge_attempt(run, attempt, written)
    }

    /// Submits again what is to be run again and again, once its last run is over, its time has come and there are
    /// blocks that were sealed since.
    fn resubmit_due(&self, time: u64) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let due = lock(&self.agenda).take_due(time, &catalog);
        for run in due.into_iter().filter_map(|number| catalog.works().run(number)) {
            let (stream, text) = (run.pipeline.stream.clone(), run.pipeline.to_text());
            let again = Note::RunSubmitted {
                stream,
                text,
                by: run.by.clone(),
                at: time,
                terms: run.terms,
                code: run.code.clone(),
            };
            self.with(|gate, catalog| Ok(note(gate, catalog, &again)?))?;
        }
        Ok(())
    }

    /// Writes down what happened to a run.
    pub(super) fn step(&self, run: u64, step: Step) -> Result<(), EngineError> {
        self.with(|gate, catalog| Ok(note(gate, catalog, &Note::RunStepped { run, step })?))
    }
}
