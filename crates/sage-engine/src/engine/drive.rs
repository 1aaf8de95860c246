//! The loop: which run does what next.
//!
//! A step is recorded before anything follows from it, in this order: an attempt is chosen, charged, started, read,
//! judged. So a process that was stopped anywhere finds its runs as they were and goes on; what it had started is
//! burnt, what it had only charged is used. Who comes first is the schedule's to say.

use std::sync::Arc;

use sage_kernel::{Component, Door, Filter, GrantState, Lane, RequestKey, Rule};
use sage_learn::count::Node;

use super::policy::found;
use super::{Ask, Engine, EngineError, Granted, grant, lock, note};
use crate::adapt::{Action, Attempt, End, Offers, Phase, World};
use crate::allocate::{Event, PipelineId, SHARES};
use crate::catalog::{Catalog, Note, Run, Stage, Step, Stream};
use crate::pipeline::{Pipeline, Train};
use crate::plan::{Bill, Known, Recipe};
use crate::schedule;

/// An attempt that is paid for and waits to be performed.
#[must_use = "it is paid for"]
pub struct Job {
    pub(super) run: u64,
    pub(super) attempt: Attempt,
    pub(super) recipe: Recipe,
    pub(super) bill: Bill,
    pub(super) granted: Granted,
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
    recipe: Recipe,
    bill: Bill,
    ask: Ask,
}

/// What a run may spend where.
struct Offered {
    /// The place of each block in the order of sealing, and the most, in units of cost.
    offered: Vec<(u32, u64)>,
    /// By which it is counted.
    filter: Filter,
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
        let blocks = ranges(&places);
        let Some((recipe, bill, ask)) = self.written(catalog, number, run, &attempt, &blocks, &filter)? else {
            self.step(number, Step::Ended { end: End::Failing })?;
            return Ok(None);
        };
        let admitted = self.with(|gate, catalog| {
            let request = grant::request(gate, catalog, &ask)?;
            Ok(matches!(gate.ledger().decide(&request), sage_kernel::Decision::Admitted(_)))
        });
        // What the ledger would refuse now waits for other blocks or other times.
        Ok(admitted.unwrap_or(false).then_some(Choice { run: number, attempt, blocks, recipe, bill, ask }))
    }

    /// What may be spent where, by the schedule and by the ledger.
    fn offers(
        &self, catalog: &Catalog, number: u64, run: &Run, known: &Stream,
    ) -> Result<Option<Offered>, EngineError> {
        let Some(context) = schedule::context_of(run, Some(known)) else { return Ok(None) };
        let name = &run.pipeline.stream;
        self.with(|gate, _| {
            let (id, _) = found(gate, catalog, name)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(None) };
            let Some(own) = ledgered.policy().contexts().get(context as usize) else { return Ok(None) };
            let numbers = super::blocks::numbers(gate, id, &known.sealed)?;
            let mut schedule = lock(&self.schedule);
            let Some(room) = schedule.room(name, context) else { return Ok(None) };
            let mut offered = Vec::new();
            for ((place, block), key) in (0..).zip(numbers).zip(&known.sealed) {
                if ledgered.is_retired(block) || known.stage(key) != Stage::Sealed {
                    let _ = room.apply(Event::Retire { block: sage_kernel::BlockId(place) });
                    continue;
                }
                let allowed = room.offer(PipelineId(number), sage_kernel::BlockId(place));
                let lanes = Lane::BOTH.map(|lane| {
                    let spent = ledgered.spent(sage_kernel::ContextId(context), block, lane).unwrap_or_default();
                    allowed.loss(lane).min(left(&own.filter, spent))
                });
                offered.push((place, lanes[0].min(within_share(&run.pipeline, lanes[1]))));
            }
            Ok(Some(Offered { offered, filter: own.filter.clone() }))
        })
    }

    /// The recipe, the bill and the question of an attempt; nothing if its pipeline no longer fits its stream.
    fn written(
        &self, catalog: &Catalog, number: u64, run: &Run, attempt: &Attempt, blocks: &[(u32, u32)], filter: &Filter,
    ) -> Result<Option<(Recipe, Bill, Ask)>, EngineError> {
        let name = &run.pipeline.stream;
        let Some(known) = catalog.stream(name) else { return Ok(None) };
        let Ok(recipe) = Recipe::new(run.pipeline.clone(), &known.file) else { return Ok(None) };
        let rows = rows_of(&run.pipeline, known, blocks).map(|each| each * f64::from(attempt.window));
        let Ok(bill) = Bill::new(&recipe, Known { filter, terms: run.terms, cost: attempt.cost, rows }) else {
            return Ok(None);
        };
        let places = blocks.iter().flat_map(|&(first, last)| first..=last);
        let keys = places.filter_map(|place| known.sealed.get(place as usize).cloned()).collect();
        let ask = Ask {
            key: key_of(number, attempt),
            stream: name.clone(),
            context: run.pipeline.context.clone(),
            blocks: keys,
            costs: bill.costs.clone(),
            door: Door::Enforced,
            purpose: format!("run {number} of {}", run.pipeline.name),
        };
        Ok(Some((recipe, bill, ask)))
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
            let (pipeline, cost) = (PipelineId(choice.run), choice.bill.resources);
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
        let Choice { run, attempt, blocks, recipe, bill, ask } = choice;
        self.step(run, Step::Chosen { attempt, blocks, resources: bill.resources.0 })?;
        self.charge_attempt(run, attempt, recipe, bill, ask)
    }

    fn charge_attempt(
        &self, run: u64, attempt: Attempt, recipe: Recipe, bill: Bill, ask: Ask,
    ) -> Result<Option<Job>, EngineError> {
        match self.charge_for_engine(ask) {
            Ok(granted) => {
                self.step(run, Step::Charged)?;
                Ok(Some(Job { run, attempt, recipe, bill, granted }))
            }
            Err(EngineError::Refused(_)) => {
                self.step(run, Step::Refused)?;
                Ok(None)
            }
            Err(EngineError::Served(_)) => {
                // It was charged and begun, and the note of that was lost with the process.
                self.step(run, Step::Charged)?;
                self.step(run, Step::Lost { reason: STOPPED.to_owned() })?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on with an attempt that was under way when a process stopped.
    fn resume(&self, number: u64, run: &Arc<Run>) -> Result<Option<Job>, EngineError> {
        let Some(last) = run.last().cloned() else { return Ok(None) };
        let attempt = last.attempt;
        let catalog = self.catalog();
        let running = matches!(run.state.phase(), Phase::Running(_));
        let (state, filter) = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &run.pipeline.stream)?;
            let grant = gate.ledger().grant_for(RequestKey::from_text(&key_of(number, &attempt)));
            let context = schedule::context_of(run, Some(known)).unwrap_or(0);
            let policy = gate.ledger().stream(id).map(|stream| stream.policy());
            let own = policy.and_then(|policy| policy.contexts().get(context as usize));
            Ok((grant.and_then(|grant| gate.ledger().grant_state(grant)), own.map(|own| own.filter.clone())))
        })?;
        let step = match (running, state) {
            (true, Some(GrantState::Released(digest))) => match self.shelf.report(digest) {
                Some(report) => Step::Judged { report },
                None => Step::Lost { reason: "its report is gone".to_owned() },
            },
            (true, Some(GrantState::Cancelled)) => Step::Withdrawn,
            (true, None | Some(GrantState::Burnt | GrantState::Started)) => Step::Lost { reason: STOPPED.to_owned() },
            (true, Some(GrantState::Charged)) | (false, _) => {
                let Some(filter) = filter else { return Ok(None) };
                let written = self.written(&catalog, number, run, &attempt, &last.blocks, &filter)?;
                let Some((recipe, bill, ask)) = written else { return Ok(None) };
                if !running {
                    return self.charge_attempt(number, attempt, recipe, bill, ask);
                }
                let granted = self.charge_for_engine(ask)?;
                return Ok(Some(Job { run: number, attempt, recipe, bill, granted }));
            }
        };
        self.step(number, step)?;
        Ok(None)
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
                Phase::Over(crate::adapt::Outcome::Stopped(End::Cancelled)) => false,
                Phase::Over(_) => true,
                _ => false,
            };
            let seen = run.tries.iter().flat_map(|one| &one.blocks).map(|(_, last)| *last as usize + 1).max();
            let sealed = catalog.stream(&run.pipeline.stream).map_or(0, |stream| stream.sealed.len());
            if over && time >= due && sealed > seen.unwrap_or(0) {
                let (stream, text) = (run.pipeline.stream.clone(), run.pipeline.to_text());
                let again = Note::RunSubmitted { stream, text, by: run.by.clone(), at: time, terms: run.terms };
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

/// Why an attempt is lost that a process did not finish.
const STOPPED: &str = "the program was stopped while the attempt was under way";

/// The key under which an attempt is charged: the same one whenever it is asked for.
fn key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {}", attempt.serial)
}

/// What is left of a lane in units of cost; under Rényi by the order that has most left.
fn left(filter: &Filter, spent: &[u128]) -> u64 {
    let of = |place: usize| {
        let cap = u128::from(filter.caps()[place]);
        cap.saturating_sub(spent.get(place).copied().unwrap_or(cap))
    };
    let share = |place: usize| of(place) * u128::from(SHARES) / u128::from(filter.caps()[place].max(1));
    let orders = (0..filter.caps().len()).filter(|place| filter.components()[*place] != Component::Delta);
    let units = match filter.rule() {
        Rule::Renyi => orders.map(share).max().unwrap_or(0),
        _ => of(0),
    };
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// The largest cost of an attempt of which the test lane's share is within this.
fn within_share(pipeline: &Pipeline, most: u64) -> u64 {
    let share = match &pipeline.train {
        Train::Statistic(statistic) if !crate::plan::of_both_lanes(statistic) => return u64::MAX,
        Train::Statistic(_) => return most,
        _ => pipeline.budget.shares.validate.units(),
    };
    let whole = u128::from(sage_kernel::Rate::LIMIT.units());
    u64::try_from(u128::from(most) * whole / u128::from(share.max(1))).unwrap_or(u64::MAX)
}

/// About how many rows of a block are learned from: as the census released it, or as the file says. Without blocks
/// the newest are meant.
pub(super) fn rows_of(pipeline: &Pipeline, known: &Stream, blocks: &[(u32, u32)]) -> Option<f64> {
    let stated = match &pipeline.train {
        Train::Logistic(descent) | Train::Network { descent, .. } => descent.rows.map(f64::from),
        _ => None,
    };
    let newest = known.sealed.len().checked_sub(1).and_then(|last| u32::try_from(last).ok());
    let all = if blocks.is_empty() { newest.map(|last| (last, last)).into_iter().collect() } else { blocks.to_vec() };
    let places = || all.iter().flat_map(|&(first, last)| first..=last);
    let counted = places().map(|place| known.counted.get(&Node { level: 0, first: u64::from(place) }));
    let counts: Option<Vec<i64>> = counted.map(|counts| counts.map(|[train, _]| *train)).collect();
    let mean = |counts: Vec<i64>| counts.iter().sum::<i64>() as f64 / counts.len().max(1) as f64;
    counts.filter(|counts| !counts.is_empty()).map(mean).filter(|mean| *mean >= 1.0).or(stated)
}

/// Places in rising order as runs of them.
fn ranges(places: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &place in places {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == place => *last = place,
            _ => ranges.push((place, place)),
        }
    }
    ranges
}
