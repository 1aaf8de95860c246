//! The worker loop: picks the next run and charges its attempt.
//!
//! Every step is recorded before it takes effect, in this order: an attempt is chosen, charged, started, read, judged.
//! A process that stops at any point therefore finds its runs in their recorded state and resumes them: a grant that
//! was started is burnt, a charge that was not started is used. The scheduler decides the order of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::adapt::{Attempt, Phase};
use crate::allocate::{Event, PipelineId};
use crate::api::{Engine, EngineError, lock, note};
use crate::catalog::{Note, Step};
use crate::plan::{AttemptCost, Recipe};
use crate::scheduler::queue;
use crate::worker::Granted;
use crate::worker::charge::PricedAttempt;
use crate::worker::crash::Work;

/// An attempt that is charged and waits to be performed.
#[must_use = "it is paid for"]
pub struct Job {
    pub(crate) run: u64,
    pub(crate) attempt: Attempt,
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) attempt_cost: AttemptCost,
    pub(crate) granted: Granted,
    /// The separate charge of the test lane, if the attempt has one.
    pub(crate) tested: Option<Granted>,
}

impl Job {
    /// The number of the run.
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// The attempt.
    pub const fn attempt(&self) -> Attempt {
        self.attempt
    }
}

/// The next attempt of a run, ready to be charged.
pub(crate) struct Choice {
    pub(crate) run: u64,
    pub(crate) attempt: Attempt,
    pub(crate) blocks: Vec<(u32, u32)>,
    pub(crate) priced: PricedAttempt,
    /// The change counter of the wake-ups when the choice was made.
    pub(crate) made: u64,
}

/// The key of an allocation: a stream and the index of a context.
type AllocationKey = (String, u32);

/// The choices of all ready runs, by allocation and run number.
#[derive(Default)]
pub(crate) struct Choices {
    allocations: BTreeMap<AllocationKey, BTreeMap<u64, Choice>>,
    /// The change counter and the time at which no run had anything to do.
    quiet: Option<(u64, u64)>,
}

impl Choices {
    fn forget(&mut self, run: u64) {
        self.allocations.values_mut().for_each(|allocation| {
            allocation.remove(&run);
        });
        self.allocations.retain(|_, allocation| !allocation.is_empty());
    }

    /// The runs whose choices were made before the last change.
    fn made_before(&self, changes: u64) -> Vec<u64> {
        let all = self.allocations.values().flat_map(BTreeMap::values);
        all.filter(|choice| choice.made != changes).map(|choice| choice.run).collect()
    }
}

impl Engine {
    /// The next attempt to perform at `time`, in milliseconds since 1970; `None` if every run waits or has ended.
    ///
    /// Attempts that were in progress when a process stopped come first, then runs in the order of the scheduler. Only
    /// runs whose situation has changed, or whose deadline has passed, are evaluated.
    ///
    /// # Errors
    /// When the log fails.
    pub fn next_job(&self, time: u64) -> Result<Option<Job>, EngineError> {
        // Locked until the end, so that two workers never choose for the same run.
        let mut busy = lock(&self.busy);
        let unattended = lock(&self.wakeups).unattended(&busy);
        for number in unattended {
            let catalog = self.catalog();
            let Some(run) = catalog.history().run(number) else { continue };
            lock(&self.wakeups).count_evaluation();
            let planned = self.crash_guard.enter(number, Work::Planning);
            let resumed = self.resume(number, run);
            drop(planned);
            if let Some(job) = resumed? {
                busy.insert(number);
                return Ok(Some(job));
            }
        }
        self.apply_retention(time)?;
        self.resubmit_due(time)?;
        if lock(&self.schedule).advance_clock(time) {
            lock(&self.wakeups).wake_all();
        }
        let mut choices = lock(&self.choices);
        let taken = lock(&self.wakeups).take(time);
        let unchanged = Some((lock(&self.wakeups).changes(), time));
        if taken.is_empty() && choices.quiet == unchanged {
            return Ok(None);
        }
        let mut left = taken;
        while let Some(number) = left.pop_first() {
            self.evaluate_run(number, time, &mut choices).inspect_err(|_| {
                left.insert(number);
                lock(&self.wakeups).restore(std::mem::take(&mut left));
            })?;
        }
        loop {
            while let Some(choice) = self.next_choice(&mut choices) {
                let run = choice.run;
                if choice.made != lock(&self.wakeups).changes() {
                    // Other runs were charged since this choice was made, so it is evaluated again before it is
                    // charged.
                    lock(&self.wakeups).count_evaluation();
                    self.evaluate_run(run, time, &mut choices)?;
                    continue;
                }
                if let Some(job) = self.begin(choice)? {
                    busy.insert(job.run);
                    return Ok(Some(job));
                }
            }
            // No choice can be charged. Choices made before the last change may now come out differently.
            let changes = lock(&self.wakeups).changes();
            let old = choices.made_before(changes);
            if old.is_empty() {
                break;
            }
            for run in old {
                lock(&self.wakeups).count_evaluation();
                self.evaluate_run(run, time, &mut choices)?;
            }
        }
        choices.quiet = Some((lock(&self.wakeups).changes(), time));
        Ok(None)
    }

    /// How many times a run was evaluated since the directory was opened: a measure of the cost of the loop.
    pub fn evaluations(&self) -> u64 {
        lock(&self.wakeups).evaluations()
    }

    /// Evaluates a run that may be ready, and stores its choice.
    fn evaluate_run(&self, number: u64, time: u64, choices: &mut Choices) -> Result<(), EngineError> {
        choices.forget(number);
        lock(&self.wakeups).unmark_chosen(number);
        let catalog = self.catalog();
        let Some(run) = catalog.history().run(number).filter(|run| run.state.phase() == Phase::Idle) else {
            return Ok(());
        };
        let stream = &run.pipeline.stream;
        let Some(context) = queue::context_of(run, catalog.stream(stream)) else { return Ok(()) };
        let planned = self.crash_guard.enter(number, Work::Planning);
        let choice = self.choose(&catalog, number, run, time);
        drop(planned);
        let choice = choice?;
        let pipeline = PipelineId(number);
        let request = choice.as_ref().and_then(|choice| {
            let blocks = queue::blocks(&choice.blocks)?;
            Some(Event::Request { pipeline, blocks, cost: choice.priced.attempt_cost.resources })
        });
        let mut schedule = lock(&self.schedule);
        let Some(allocation) = schedule.allocation(stream, context) else { return Ok(()) };
        // An allocation that rejects the request leaves the run waiting.
        let _ = allocation.apply(request.unwrap_or(Event::Withdraw { pipeline }));
        drop(schedule);
        if let Some(choice) = choice {
            lock(&self.wakeups).mark_chosen(number);
            choices.allocations.entry((stream.clone(), context)).or_default().insert(number, choice);
        }
        Ok(())
    }

    /// Performs attempts until every run waits or has ended, and returns their number.
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

    /// Removes the next choice to charge from the list: from the allocation with the earliest run, the run that the
    /// scheduler puts first. If no run's own reservation covers its attempt, a run borrows, in an allocation without an
    /// attempt in progress.
    fn next_choice(&self, choices: &mut Choices) -> Option<Choice> {
        let under_way = self.allocations_in_progress();
        let mut schedule = lock(&self.schedule);
        let mut allocations: Vec<(&AllocationKey, &mut BTreeMap<u64, Choice>)> =
            choices.allocations.iter_mut().collect();
        allocations.sort_by_key(|(_, own)| own.keys().next().copied());
        let covered = allocations.iter_mut().find_map(|((stream, context), own)| {
            let first = schedule.allocation(stream, *context)?.ready_first(|id| own.contains_key(&id.0))?;
            own.remove(&first.0)
        });
        let taken = covered.or_else(|| {
            allocations.into_iter().filter(|(allocation, _)| !under_way.contains(*allocation)).find_map(
                |((stream, context), own)| {
                    let borrower = schedule.allocation(stream, *context)?.borrower(|id| own.contains_key(&id.0))?;
                    own.remove(&borrower.0)
                },
            )
        });
        choices.allocations.retain(|_, allocation| !allocation.is_empty());
        taken
    }

    /// The allocations with an attempt in progress.
    fn allocations_in_progress(&self) -> BTreeSet<AllocationKey> {
        let catalog = self.catalog();
        let runs = lock(&self.wakeups).under_way();
        let allocation = |number: u64| {
            let run = catalog.history().run(number)?;
            let stream = &run.pipeline.stream;
            Some((stream.clone(), queue::context_of(run, catalog.stream(stream))?))
        };
        runs.into_iter().filter_map(allocation).collect()
    }

    /// Records a choice and charges it.
    fn begin(&self, choice: Choice) -> Result<Option<Job>, EngineError> {
        let Choice { run, attempt, blocks, priced, .. } = choice;
        self.step(run, Step::Chosen { attempt, blocks, resources: priced.attempt_cost.resources.0 })?;
        self.charge_attempt(run, attempt, priced)
    }

    /// Submits recurring pipelines again whose last run has ended, whose interval has passed, and whose stream has new
    /// sealed blocks.
    fn resubmit_due(&self, time: u64) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let due = lock(&self.wakeups).take_due(time, &catalog);
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
                // Checked against the newest stream file: a principal who lost the role does not spend again.
                let allowed = catalog.stream(&run.pipeline.stream).is_some_and(|known| known.may_spend(run));
                let owned = catalog.history().owner(&run.pipeline.name) == Some(run.pipeline.stream.as_str());
                if allowed && owned { Ok(note(gate, catalog, &again)?) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// Records a step of a run.
    pub(crate) fn step(&self, run: u64, step: Step) -> Result<(), EngineError> {
        self.with(|gate, catalog| Ok(note(gate, catalog, &Note::RunStepped { run, step })?))
    }
}
