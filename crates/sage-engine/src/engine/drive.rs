//! The loop: which run does what next.
//!
//! A step is recorded before anything follows from it, in this order: an attempt is chosen, charged, started, read,
//! judged. So a process that was stopped anywhere finds its runs as they were and goes on; what it had started is
//! burnt, what it had only charged is used. Who comes first is the schedule's to say.

use std::sync::Arc;

use super::charge::Written;
use super::offers::Offered;
use super::{Engine, EngineError, Granted, grant, lock, note};
use crate::adapt::{Action, Attempt, End, Offers, Outcome, Phase, World};
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
}

impl Engine {
    /// The next attempt to perform at this time, in milliseconds since 1970; nothing if every run waits or is over.
    ///
    /// Attempts that were under way when a process stopped come first, then whoever the schedule puts first.
    ///
    /// # Errors
    /// When the log fails.
    pub fn next_job(&self, time: u64) -> Result<Option<Job>, EngineError> {
        // Held to the end: two workers must not choose for the same run.
        let mut busy = lock(&self.busy);
        let catalog = self.catalog();
        for (number, run) in catalog.works().runs() {
            let under_way = matches!(run.state.phase(), Phase::Chosen(_) | Phase::Running(_));
            if under_way
                && !busy.contains(&number)
                && let Some(job) = self.resume(number, run)?
            {
                busy.insert(number);
                return Ok(Some(job));
            }
        }
        self.resubmit_due(time)?;
        let catalog = self.catalog();
        let mut choices = Vec::new();
        for (number, run) in catalog.works().runs() {
            if run.state.phase() == Phase::Idle
                && let Some(choice) = self.choose(&catalog, number, run, time)?
            {
                choices.push(choice);
            }
        }
        while let Some(choice) = self.whose_turn(&mut choices, &catalog) {
            if let Some(job) = self.begin(choice)? {
                busy.insert(job.run);
                return Ok(Some(job));
            }
        }
        Ok(None)
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
        let Some(Offered { offered, filter }) = self.offers(catalog, number, run, known)? else { return Ok(None) };
        let offers = Offers::new(offered.iter().map(|(_, offer)| *offer).collect());
        let attempt = match run.state.next(World { time, offers: &offers }) {
            Action::Choose(attempt) => attempt,
            Action::Stop(end) => {
                self.step(number, Step::Ended { end })?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        // The newest blocks that allow it.
        let fitting = offered.iter().rev().filter(|(_, offer)| *offer >= attempt.cost).map(|(place, _)| *place);
        let mut places: Vec<u32> = fitting.take(attempt.window as usize).collect();
        places.reverse();
        let blocks = super::offers::ranges(&places);
        let recipe = self.recipe(catalog, number, run);
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
        Ok(admitted.unwrap_or(false).then_some(Choice { run: number, attempt, blocks, written }))
    }

    /// Takes the choice whose turn it is out of the list.
    fn whose_turn(&self, choices: &mut Vec<Choice>, catalog: &Catalog) -> Option<Choice> {
        let mut schedule = lock(&self.schedule);
        let mut first = None;
        for choice in choices.iter() {
            let run = catalog.works().run(choice.run)?;
            let stream = &run.pipeline.stream;
            let context = schedule::context_of(run, catalog.stream(stream))?;
            let Some(room) = schedule.room(stream, context) else { continue };
            let (pipeline, cost) = (PipelineId(choice.run), choice.written.bill.resources);
            if let Some(blocks) = schedule::blocks(&choice.blocks) {
                let _ = room.apply(Event::Ask { pipeline, blocks, cost });
            }
        }
        for choice in choices.iter() {
            let run = catalog.works().run(choice.run)?;
            let context = schedule::context_of(run, catalog.stream(&run.pipeline.stream))?;
            let ready = schedule.room(&run.pipeline.stream, context)?.ready();
            let chosen = ready.into_iter().find(|id| choices.iter().any(|choice| choice.run == id.0));
            first = first.or(chosen);
        }
        let place = choices.iter().position(|choice| Some(PipelineId(choice.run)) == first)?;
        Some(choices.remove(place))
    }

    /// Records a choice and charges it.
    fn begin(&self, choice: Choice) -> Result<Option<Job>, EngineError> {
        let Choice { run, attempt, blocks, written } = choice;
        self.step(run, Step::Chosen { attempt, blocks, resources: written.bill.resources.0 })?;
        self.charge_attempt(run, attempt, written)
    }

    /// Submits again what is to be run again and again, once its last run is over, its time has come and there are
    /// blocks that were sealed since.
    fn resubmit_due(&self, time: u64) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let mut newest: std::collections::BTreeMap<&str, (u64, &Arc<Run>)> = std::collections::BTreeMap::new();
        for (number, run) in catalog.works().runs().filter(|(_, run)| run.pipeline.every.is_some()) {
            newest.insert(&run.pipeline.name, (number, run));
        }
        for (_, run) in newest.into_values() {
            let Some(every) = run.pipeline.every else { continue };
            let due = run.submitted.saturating_add(every.microseconds().unsigned_abs() / 1000);
            let over = match run.state.phase() {
                Phase::Over(Outcome::Stopped(End::Cancelled)) => false,
                Phase::Over(_) => true,
                _ => false,
            };
            let seen = run.tries.iter().flat_map(|one| &one.blocks).map(|(_, last)| *last as usize + 1).max();
            let sealed = catalog.stream(&run.pipeline.stream).map_or(0, |stream| stream.sealed.len());
            if over && time >= due && sealed > seen.unwrap_or(0) {
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
        }
        Ok(())
    }

    /// Writes down what happened to a run.
    pub(super) fn step(&self, run: u64, step: Step) -> Result<(), EngineError> {
        self.with(|gate, catalog| Ok(note(gate, catalog, &Note::RunStepped { run, step })?))
    }
}
