//! How an attempt is charged, and how one is found again that was under way when a process stopped.
//!
//! Everything that is asked of the ledger follows from the run's notes or, once it was charged, from the charge itself,
//! so that it is asked in the same words after a restart, under the same key, and has its effect once, also where a
//! later release, or a census that has counted since, would price it otherwise. A program of its author's has two
//! charges: what it sees, the train lane, through the declared door, and the test of what it made, which is ours.

use std::sync::Arc;

use sage_kernel::{Cost, Door, Event, Filter, Gate, GrantState, Log, Request, RequestKey};

use super::drive::Job;
use super::offers::rows_of;
use super::policy::{found, paying};
use super::{Ask, Engine, EngineError, Granted, Store, lock};
use crate::adapt::{Attempt, End, Phase};
use crate::allocate::Resources;
use crate::catalog::{AttemptRecord, Catalog, Run, Step};
use crate::plan::{AttemptCost, CostInputs, Recipe};

/// What follows from a choice: the recipe, the attempt cost and the questions to the ledger.
pub(super) struct Written {
    pub(super) recipe: Arc<Recipe>,
    pub(super) attempt_cost: AttemptCost,
    ask: Ask,
    /// Of the test lane, where it is asked by itself.
    test: Option<Ask>,
    /// The two as they were charged before.
    before: Before,
}

/// The questions of an attempt as the log has them, if they were charged: how they are asked now may have changed.
#[derive(Clone, Default)]
pub(super) struct Before {
    ask: Option<Charged>,
    test: Option<Charged>,
}

/// A charge of the log.
#[derive(Clone)]
struct Charged {
    request: Request,
    state: GrantState,
}

impl Before {
    /// What each lane was charged; of a test that was not, what it would be.
    fn costs(&self, otherwise: Option<&AttemptCost>) -> Option<[Option<Cost>; 2]> {
        let [train, test] = self.ask.as_ref()?.request.costs.clone();
        let apart = self.test.as_ref().map(|test| test.request.costs[1].clone());
        let other = || otherwise.and_then(|attempt_cost| attempt_cost.costs[1].clone());
        Some([train, test.or_else(|| apart.unwrap_or_else(other))])
    }
}

impl Written {
    pub(super) fn asks(&self) -> impl Iterator<Item = &Ask> {
        [&self.ask].into_iter().chain(&self.test)
    }
}

/// What follows from an attempt; nothing if its pipeline no longer fits its stream.
pub(super) fn written(
    recipe: Arc<Recipe>, catalog: &Catalog, number: u64, run: &Run, attempt: &Attempt, blocks: &[(u32, u32)],
    filter: &Filter,
) -> Option<Written> {
    let known = catalog.stream(&run.pipeline.stream)?;
    let rows = rows_of(&run.pipeline, known, blocks).map(|each| each * f64::from(attempt.window));
    let attempt_cost =
        AttemptCost::new(&recipe, CostInputs { filter, terms: run.terms, cost: attempt.cost, rows }).ok()?;
    asked(recipe, catalog, number, run, (attempt, blocks), attempt_cost)
}

/// The same for an attempt that was charged, by what it was charged.
fn written_as_charged(
    recipe: Arc<Recipe>, catalog: &Catalog, number: u64, run: &Run, last: &AttemptRecord, filter: &Filter,
    before: Before,
) -> Option<Written> {
    let anew = || written(Arc::clone(&recipe), catalog, number, run, &last.attempt, &last.blocks, filter);
    // Only a test that was not charged yet is priced now.
    let apart = recipe.own_code().is_some() && before.test.is_none();
    let otherwise = if apart || before.ask.is_none() { anew() } else { None };
    let Some(costs) = before.costs(otherwise.as_ref().map(|written| &written.attempt_cost)) else { return otherwise };
    let attempt_cost = AttemptCost::as_charged(&recipe, costs, Resources(last.resources), run.terms.delta())?;
    let written = asked(Arc::clone(&recipe), catalog, number, run, (&last.attempt, &last.blocks), attempt_cost)?;
    Some(Written { before, ..written })
}

/// The questions of an attempt cost.
fn asked(
    recipe: Arc<Recipe>, catalog: &Catalog, number: u64, run: &Run, (attempt, blocks): (&Attempt, &[(u32, u32)]),
    attempt_cost: AttemptCost,
) -> Option<Written> {
    let name = &run.pipeline.stream;
    let known = catalog.stream(name)?;
    let places = blocks.iter().flat_map(|&(first, last)| first..=last);
    let mut ask = Ask {
        key: key_of(number, attempt),
        stream: name.clone(),
        context: run.pipeline.context.clone(),
        blocks: places.filter_map(|place| known.sealed.get(place as usize).cloned()).collect(),
        costs: attempt_cost.costs.clone(),
        door: Door::Enforced,
        purpose: format!("run {number} of {}", run.pipeline.name),
    };
    let mut test = None;
    if let Some(own) = recipe.own_code() {
        let [train, tested] = ask.costs;
        ask.costs = [train, None];
        let reason = format!("the program {} of pipeline {}", own.words.join(" "), run.pipeline.name);
        let purpose = format!("test of run {number} of {}", run.pipeline.name);
        test = Some(Ask { key: test_key_of(number, attempt), costs: [None, tested], purpose, ..ask.clone() });
        ask.door = Door::Declared { author: run.by.clone(), reason };
    }
    Some(Written { recipe, attempt_cost, ask, test, before: Before::default() })
}

impl Engine {
    /// The recipe of a run, worked out once; nothing if its pipeline no longer fits its stream.
    pub(super) fn recipe(&self, catalog: &Catalog, number: u64, run: &Run) -> Option<Arc<Recipe>> {
        if let Some(known) = lock(&self.recipes).get(&number) {
            return Some(Arc::clone(known));
        }
        let file = &catalog.stream(&run.pipeline.stream)?.file;
        let recipe = Arc::new(Recipe::new(run.pipeline.clone(), file, self).ok()?);
        lock(&self.recipes).insert(number, Arc::clone(&recipe));
        Some(recipe)
    }

    /// Charges an attempt that is written down as chosen.
    pub(super) fn charge_attempt(
        &self, run: u64, attempt: Attempt, written: Written,
    ) -> Result<Option<Job>, EngineError> {
        let Written { recipe, attempt_cost, ask, test, before } = written;
        match self.both(ask, test, before) {
            Ok((granted, tested)) => {
                self.step(run, Step::Charged)?;
                Ok(Some(Job { run, attempt, recipe, attempt_cost, granted, tested }))
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

    /// Charges one question or two; where the second is not granted, the first is taken back.
    fn both(&self, ask: Ask, test: Option<Ask>, before: Before) -> Result<(Granted, Option<Granted>), EngineError> {
        let granted = self.charge_as_before(ask, before.ask)?;
        let Some(test) = test else { return Ok((granted, None)) };
        match self.charge_as_before(test, before.test) {
            Ok(tested) => Ok((granted, Some(tested))),
            Err(error) => {
                self.cancel(granted)?;
                Err(error)
            }
        }
    }

    /// Charges a question in the words in which it was charged, if it was.
    fn charge_as_before(&self, ask: Ask, before: Option<Charged>) -> Result<Granted, EngineError> {
        match before {
            Some(charged) => self.charge_request(charged.request, ask.stream, ask.blocks),
            None => self.charge_for_engine(ask),
        }
    }

    /// Goes on with an attempt that was under way when a process stopped.
    pub(super) fn resume(&self, number: u64, run: &Arc<Run>) -> Result<Option<Job>, EngineError> {
        let Some(last) = run.last().cloned() else { return Ok(None) };
        let attempt = last.attempt;
        let (before, filter) = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &run.pipeline.stream)?;
            let ask = charged(gate, &key_of(number, &attempt))?;
            let before = Before { ask, test: charged(gate, &test_key_of(number, &attempt))? };
            Ok((before, paying(gate, id, &run.pipeline)?.1.clone()))
        })?;
        let catalog = self.catalog();
        let known = catalog.stream(&run.pipeline.stream);
        let pays = known.is_some_and(|known| known.may_spend(run));
        if matches!(run.state.phase(), Phase::Chosen(_)) && before.ask.is_none() && !pays {
            // It was not charged yet when whoever submitted it ceased to be a member.
            self.step(number, Step::Refused)?;
            return Ok(None);
        }
        let states = [&before.ask, &before.test].map(|charged| charged.as_ref().map(|charged| charged.state));
        let written = self
            .recipe(&catalog, number, run)
            .and_then(|recipe| written_as_charged(recipe, &catalog, number, run, &last, &filter, before));
        if !matches!(run.state.phase(), Phase::Running(_)) {
            return written.map_or(Ok(None), |written| self.charge_attempt(number, attempt, written));
        }
        // What leaves is released under the charge that paid for its test.
        let [first, second] = states;
        let step = match (first, second) {
            (_, Some(GrantState::Released(digest))) | (Some(GrantState::Released(digest)), None) => {
                match self.shelf.report(digest) {
                    Some(report) => Step::Judged { report },
                    None => Step::Lost { reason: "its report is gone".to_owned() },
                }
            }
            (Some(GrantState::Charged), None | Some(GrantState::Charged)) => {
                let Some(written) = written else { return Ok(None) };
                let (granted, tested) = self.both(written.ask, written.test, written.before)?;
                let (recipe, attempt_cost) = (written.recipe, written.attempt_cost);
                return Ok(Some(Job { run: number, attempt, recipe, attempt_cost, granted, tested }));
            }
            (Some(GrantState::Cancelled), _) => Step::Withdrawn,
            _ => Step::Lost { reason: STOPPED.to_owned() },
        };
        if let (Some(GrantState::Charged), Some(Written { test: Some(test), before, .. })) = (second, written) {
            // Not a row of it was read.
            let granted = self.charge_as_before(test, before.test)?;
            self.cancel(granted)?;
        }
        self.step(number, step)?;
        Ok(None)
    }
}

impl Engine {
    /// Ends a run that the process crashed on again and again. An attempt that was under way is lost, and what it was
    /// charged stays charged.
    pub(super) fn end_crashed(&self, number: u64) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let Some(run) = catalog.history().run(number) else { return Ok(()) };
        let lost = || Step::Lost { reason: CRASHED.to_owned() };
        match run.state.phase() {
            Phase::Over(_) => return Ok(()),
            Phase::Idle => {}
            Phase::Running(_) => self.step(number, lost())?,
            Phase::Chosen(attempt) => {
                if self.with(|gate, _| charged(gate, &key_of(number, &attempt)))?.is_some() {
                    self.step(number, Step::Charged)?;
                    self.step(number, lost())?;
                } else {
                    self.step(number, Step::Refused)?;
                }
            }
        }
        self.step(number, Step::ended(End::Crashed))
    }
}

/// The charge that was made under a key, as the log has it.
fn charged(gate: &Gate<Store>, key: &str) -> Result<Option<Charged>, EngineError> {
    let Some(grant) = gate.ledger().grant_for(RequestKey::from_text(key)) else { return Ok(None) };
    let failed = |error| EngineError::Gate(sage_kernel::GateError::Log(error));
    let record = gate.log().log().read(grant.0, 1).map_err(failed)?.into_iter().next();
    let event = record.and_then(|record| Event::from_bytes(&record.body).ok());
    Ok(match (event, gate.ledger().grant_state(grant)) {
        (Some(Event::Charged(charge)), Some(state)) => Some(Charged { request: charge.request, state }),
        _ => None,
    })
}

/// Why an attempt is lost that a process did not finish.
const STOPPED: &str = "the program was stopped while the attempt was under way";

/// Why the last attempt of a run is lost that is quarantined.
const CRASHED: &str = "the program crashed while the attempt was under way";

/// The key under which an attempt is charged: the same one whenever it is asked for.
fn key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {}", attempt.serial)
}

/// The key of its test, where that is charged by itself.
fn test_key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {} test", attempt.serial)
}
