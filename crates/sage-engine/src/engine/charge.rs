//! How an attempt is charged, and how one is found again that was under way when a process stopped.
//!
//! Everything that is asked of the ledger follows from the run's notes, so that it is asked in the same words after a
//! restart, under the same key, and has its effect once. A program of its author's has two charges: what it sees, the
//! train lane, through the declared door, and the test of what it made, which is ours.

use std::sync::Arc;

use sage_kernel::{Door, Filter, GrantState, RequestKey};

use super::drive::Job;
use super::offers::rows_of;
use super::policy::{found, paying};
use super::{Ask, Engine, EngineError, Granted, lock};
use crate::adapt::{Attempt, Phase};
use crate::catalog::{Catalog, Run, Step};
use crate::plan::{Bill, Known, Recipe};

/// What follows from a choice: the recipe, the bill and the questions to the ledger.
pub(super) struct Written {
    pub(super) recipe: Arc<Recipe>,
    pub(super) bill: Bill,
    ask: Ask,
    /// Of the test lane, where it is asked by itself.
    test: Option<Ask>,
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
    let name = &run.pipeline.stream;
    let known = catalog.stream(name)?;
    let rows = rows_of(&run.pipeline, known, blocks).map(|each| each * f64::from(attempt.window));
    let bill = Bill::new(&recipe, Known { filter, terms: run.terms, cost: attempt.cost, rows }).ok()?;
    let places = blocks.iter().flat_map(|&(first, last)| first..=last);
    let mut ask = Ask {
        key: key_of(number, attempt),
        stream: name.clone(),
        context: run.pipeline.context.clone(),
        blocks: places.filter_map(|place| known.sealed.get(place as usize).cloned()).collect(),
        costs: bill.costs.clone(),
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
    Some(Written { recipe, bill, ask, test })
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
        let Written { recipe, bill, ask, test } = written;
        match self.both(ask, test) {
            Ok((granted, tested)) => {
                self.step(run, Step::Charged)?;
                Ok(Some(Job { run, attempt, recipe, bill, granted, tested }))
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
    fn both(&self, ask: Ask, test: Option<Ask>) -> Result<(Granted, Option<Granted>), EngineError> {
        let granted = self.charge_for_engine(ask)?;
        let Some(test) = test else { return Ok((granted, None)) };
        match self.charge_for_engine(test) {
            Ok(tested) => Ok((granted, Some(tested))),
            Err(error) => {
                self.cancel(granted)?;
                Err(error)
            }
        }
    }

    /// Goes on with an attempt that was under way when a process stopped.
    pub(super) fn resume(&self, number: u64, run: &Arc<Run>) -> Result<Option<Job>, EngineError> {
        let Some(last) = run.last().cloned() else { return Ok(None) };
        let attempt = last.attempt;
        let (states, filter) = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &run.pipeline.stream)?;
            let state = |key: String| {
                let grant = gate.ledger().grant_for(RequestKey::from_text(&key));
                grant.and_then(|grant| gate.ledger().grant_state(grant))
            };
            let states = (state(key_of(number, &attempt)), state(test_key_of(number, &attempt)));
            Ok((states, paying(gate, id, &run.pipeline)?.1.clone()))
        })?;
        let catalog = self.catalog();
        let recipe = self.recipe(&catalog, number, run);
        let written = recipe.and_then(|recipe| written(recipe, &catalog, number, run, &attempt, &last.blocks, &filter));
        if !matches!(run.state.phase(), Phase::Running(_)) {
            return written.map_or(Ok(None), |written| self.charge_attempt(number, attempt, written));
        }
        // What leaves is released under the charge that paid for its test.
        let (first, second) = states;
        let step = match (first, second) {
            (_, Some(GrantState::Released(digest))) | (Some(GrantState::Released(digest)), None) => {
                match self.shelf.report(digest) {
                    Some(report) => Step::Judged { report },
                    None => Step::Lost { reason: "its report is gone".to_owned() },
                }
            }
            (Some(GrantState::Charged), None | Some(GrantState::Charged)) => {
                let Some(written) = written else { return Ok(None) };
                let (granted, tested) = self.both(written.ask, written.test)?;
                let (recipe, bill) = (written.recipe, written.bill);
                return Ok(Some(Job { run: number, attempt, recipe, bill, granted, tested }));
            }
            (Some(GrantState::Cancelled), _) => Step::Withdrawn,
            _ => Step::Lost { reason: STOPPED.to_owned() },
        };
        if let (Some(GrantState::Charged), Some(test)) = (second, written.and_then(|written| written.test)) {
            // Not a row of it was read.
            let granted = self.charge_for_engine(test)?;
            self.cancel(granted)?;
        }
        self.step(number, step)?;
        Ok(None)
    }
}

/// Why an attempt is lost that a process did not finish.
const STOPPED: &str = "the program was stopped while the attempt was under way";

/// The key under which an attempt is charged: the same one whenever it is asked for.
fn key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {}", attempt.serial)
}

/// The key of its test, where that is charged by itself.
fn test_key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {} test", attempt.serial)
}
