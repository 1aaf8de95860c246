//! Charges attempts, and resumes attempts that were in progress when a process stopped.
//!
//! Every charge request is derived from the run's notes or, once it was charged, from the recorded charge. After a
//! restart the same request is therefore made under the same key and takes effect once, even if a later release or a
//! newer census would price it differently. An attempt that runs its author's program has two charges: one for the
//! train lane, which the program reads in the attested access mode, and one for the test of its model, which the engine
//! performs in the enforced mode.

use std::sync::Arc;

use sage_kernel::{AccessMode, Cost, Event, Filter, Gate, GrantState, Log, Request, RequestKey};

use crate::adapt::{Attempt, End, Phase};
use crate::allocate::Resources;
use crate::api::policy::{found, paying};
use crate::api::{Engine, EngineError, Store, lock};
use crate::catalog::{AttemptRecord, Catalog, Run, Step};
use crate::plan::{AttemptCost, CostInputs, Recipe};
use crate::scheduler::available::rows_of;
use crate::worker::run_loop::Job;
use crate::worker::{ChargeRequest, Granted};

/// A priced attempt: the recipe, the attempt cost and the charge requests.
pub(crate) struct PricedAttempt {
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) attempt_cost: AttemptCost,
    main: ChargeRequest,
    /// The request for the test lane, if it is charged separately.
    test: Option<ChargeRequest>,
    /// The same charges as already recorded in the log.
    before: RecordedCharges,
}

/// The recorded charges of an attempt. The requests may be priced differently today.
#[derive(Clone, Default)]
pub(crate) struct RecordedCharges {
    main: Option<RecordedCharge>,
    test: Option<RecordedCharge>,
}

/// A charge recorded in the log.
#[derive(Clone)]
struct RecordedCharge {
    request: Request,
    state: GrantState,
}

impl RecordedCharges {
    /// The recorded cost of each lane. A test that was not charged yet has its present cost.
    fn costs(&self, otherwise: Option<&AttemptCost>) -> Option<[Option<Cost>; 2]> {
        let [train, test] = self.main.as_ref()?.request.costs.clone();
        let separate = self.test.as_ref().map(|test| test.request.costs[1].clone());
        let other = || otherwise.and_then(|attempt_cost| attempt_cost.costs[1].clone());
        Some([train, test.or_else(|| separate.unwrap_or_else(other))])
    }
}

impl PricedAttempt {
    pub(crate) fn requests(&self) -> impl Iterator<Item = &ChargeRequest> {
        [&self.main].into_iter().chain(&self.test)
    }
}

/// Prices an attempt. Returns `None` if the pipeline no longer fits its stream.
pub(crate) fn price_attempt(
    recipe: Arc<Recipe>, catalog: &Catalog, number: u64, run: &Run, attempt: &Attempt, blocks: &[(u32, u32)],
    filter: &Filter,
) -> Option<PricedAttempt> {
    let known = catalog.stream(&run.pipeline.stream)?;
    let rows = rows_of(&run.pipeline, known, blocks).map(|each| each * f64::from(attempt.window));
    let attempt_cost =
        AttemptCost::new(&recipe, CostInputs { filter, terms: run.terms, cost: attempt.cost, rows }).ok()?;
    charge_requests(recipe, catalog, number, run, (attempt, blocks), attempt_cost)
}

/// As [`price_attempt`], for an attempt that may be charged already: recorded charges keep their cost.
fn price_recorded_attempt(
    recipe: Arc<Recipe>, catalog: &Catalog, number: u64, run: &Run, last: &AttemptRecord, filter: &Filter,
    before: RecordedCharges,
) -> Option<PricedAttempt> {
    let price_again = || price_attempt(Arc::clone(&recipe), catalog, number, run, &last.attempt, &last.blocks, filter);
    // Only a test that has not been charged is priced now.
    let separate = recipe.own_code().is_some() && before.test.is_none();
    let otherwise = if separate || before.main.is_none() { price_again() } else { None };
    let Some(costs) = before.costs(otherwise.as_ref().map(|priced| &priced.attempt_cost)) else { return otherwise };
    let attempt_cost = AttemptCost::as_charged(&recipe, costs, Resources(last.resources))?;
    let priced =
        charge_requests(Arc::clone(&recipe), catalog, number, run, (&last.attempt, &last.blocks), attempt_cost)?;
    Some(PricedAttempt { before, ..priced })
}

/// The charge requests for an attempt cost.
fn charge_requests(
    recipe: Arc<Recipe>, catalog: &Catalog, number: u64, run: &Run, (attempt, blocks): (&Attempt, &[(u32, u32)]),
    attempt_cost: AttemptCost,
) -> Option<PricedAttempt> {
    let name = &run.pipeline.stream;
    let known = catalog.stream(name)?;
    let indices = blocks.iter().flat_map(|&(first, last)| first..=last);
    let mut main = ChargeRequest {
        key: key_of(number, attempt),
        stream: name.clone(),
        context: run.pipeline.context.clone(),
        blocks: indices.filter_map(|index| known.sealed.get(index as usize).cloned()).collect(),
        costs: attempt_cost.costs.clone(),
        access: AccessMode::Enforced,
        purpose: format!("run {number} of {}", run.pipeline.name),
    };
    let mut test = None;
    if let Some(own) = recipe.own_code() {
        let [train, tested] = main.costs;
        main.costs = [train, None];
        let reason = format!("the program {} of pipeline {}", own.words.join(" "), run.pipeline.name);
        let purpose = format!("test of run {number} of {}", run.pipeline.name);
        test =
            Some(ChargeRequest { key: test_key_of(number, attempt), costs: [None, tested], purpose, ..main.clone() });
        main.access = AccessMode::Attested { author: run.by.clone(), reason };
    }
    Some(PricedAttempt { recipe, attempt_cost, main, test, before: RecordedCharges::default() })
}

impl Engine {
    /// The recipe of a run, planned once. Returns `None` if the pipeline no longer fits its stream.
    pub(crate) fn recipe(&self, catalog: &Catalog, number: u64, run: &Run) -> Option<Arc<Recipe>> {
        if let Some(known) = lock(&self.recipes).get(&number) {
            return Some(Arc::clone(known));
        }
        let file = &catalog.stream(&run.pipeline.stream)?.file;
        let recipe = Arc::new(Recipe::new(run.pipeline.clone(), file, self).ok()?);
        lock(&self.recipes).insert(number, Arc::clone(&recipe));
        Some(recipe)
    }

    /// Charges an attempt that is recorded as chosen.
    pub(crate) fn charge_attempt(
        &self, run: u64, attempt: Attempt, priced: PricedAttempt,
    ) -> Result<Option<Job>, EngineError> {
        let PricedAttempt { recipe, attempt_cost, main, test, before } = priced;
        match self.charge_lanes(main, test, before) {
            Ok((granted, tested)) => {
                self.step(run, Step::Charged)?;
                Ok(Some(Job { run, attempt, recipe, attempt_cost, granted, tested }))
            }
            Err(EngineError::Refused(_)) => {
                self.step(run, Step::Refused)?;
                Ok(None)
            }
            Err(EngineError::Served(_)) => {
                // The attempt was charged and started, but the process stopped before its note was priced.
                self.step(run, Step::Charged)?;
                self.step(run, Step::Lost { reason: STOPPED.to_owned() })?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes one charge or two. If the second is not granted, the first is cancelled.
    fn charge_lanes(
        &self, main: ChargeRequest, test: Option<ChargeRequest>, before: RecordedCharges,
    ) -> Result<(Granted, Option<Granted>), EngineError> {
        let granted = self.charge_as_before(main, before.main)?;
        let Some(test) = test else { return Ok((granted, None)) };
        match self.charge_as_before(test, before.test) {
            Ok(tested) => Ok((granted, Some(tested))),
            Err(error) => {
                self.cancel(granted)?;
                Err(error)
            }
        }
    }

    /// Repeats a recorded charge as it was made, or makes a new one.
    fn charge_as_before(&self, main: ChargeRequest, before: Option<RecordedCharge>) -> Result<Granted, EngineError> {
        match before {
            Some(charged) => self.charge_request(charged.request, main.stream, main.blocks),
            None => self.charge_for_engine(main),
        }
    }

    /// Resumes an attempt that was in progress when a process stopped.
    pub(crate) fn resume(&self, number: u64, run: &Arc<Run>) -> Result<Option<Job>, EngineError> {
        let Some(last) = run.last().cloned() else { return Ok(None) };
        let attempt = last.attempt;
        let (before, filter) = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &run.pipeline.stream)?;
            let main = charged(gate, &key_of(number, &attempt))?;
            let before = RecordedCharges { main, test: charged(gate, &test_key_of(number, &attempt))? };
            Ok((before, paying(gate, id, &run.pipeline)?.1.clone()))
        })?;
        let catalog = self.catalog();
        let known = catalog.stream(&run.pipeline.stream);
        let pays = known.is_some_and(|known| known.may_spend(run));
        if matches!(run.state.phase(), Phase::Chosen(_)) && before.main.is_none() && !pays {
            // The attempt was not charged before its author lost the membership.
            self.step(number, Step::Refused)?;
            return Ok(None);
        }
        let states = [&before.main, &before.test].map(|charged| charged.as_ref().map(|charged| charged.state));
        let priced = self
            .recipe(&catalog, number, run)
            .and_then(|recipe| price_recorded_attempt(recipe, &catalog, number, run, &last, &filter, before));
        if !matches!(run.state.phase(), Phase::Running(_)) {
            return priced.map_or(Ok(None), |priced| self.charge_attempt(number, attempt, priced));
        }
        // The result is released under the charge that paid for its test.
        let [first, second] = states;
        let step = match (first, second) {
            (_, Some(GrantState::Released(digest))) | (Some(GrantState::Released(digest)), None) => {
                match self.artifacts.report(digest) {
                    Some(report) => Step::Judged { report },
                    None => Step::Lost { reason: "its report is gone".to_owned() },
                }
            }
            (Some(GrantState::Charged), None | Some(GrantState::Charged)) => {
                let Some(priced) = priced else { return Ok(None) };
                let (granted, tested) = self.charge_lanes(priced.main, priced.test, priced.before)?;
                let (recipe, attempt_cost) = (priced.recipe, priced.attempt_cost);
                return Ok(Some(Job { run: number, attempt, recipe, attempt_cost, granted, tested }));
            }
            (Some(GrantState::Cancelled), _) => Step::Withdrawn,
            _ => Step::Lost { reason: STOPPED.to_owned() },
        };
        if let (Some(GrantState::Charged), Some(PricedAttempt { test: Some(test), before, .. })) = (second, priced) {
            // No row was read under this charge.
            let granted = self.charge_as_before(test, before.test)?;
            self.cancel(granted)?;
        }
        self.step(number, step)?;
        Ok(None)
    }
}

impl Engine {
    /// Ends a run that has crashed the process repeatedly. An attempt in progress is lost; its charge stands.
    pub(crate) fn end_crashed(&self, number: u64) -> Result<(), EngineError> {
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

/// The charge recorded under a key, if any.
fn charged(gate: &Gate<Store>, key: &str) -> Result<Option<RecordedCharge>, EngineError> {
    let Some(grant) = gate.ledger().grant_for(RequestKey::from_text(key)) else { return Ok(None) };
    let failed = |error| EngineError::Gate(sage_kernel::GateError::Log(error));
    let record = gate.log().log().read(grant.0, 1).map_err(failed)?.into_iter().next();
    let event = record.and_then(|record| Event::from_bytes(&record.body).ok());
    Ok(match (event, gate.ledger().grant_state(grant)) {
        (Some(Event::Charged(charge)), Some(state)) => Some(RecordedCharge { request: charge.request, state }),
        _ => None,
    })
}

/// The reason of an attempt that a process did not finish.
const STOPPED: &str = "the program was stopped while the attempt was under way";

/// The reason of the last attempt of a quarantined run.
const CRASHED: &str = "the program crashed while the attempt was under way";

/// The key under which an attempt is charged. It is the same on every retry.
fn key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {}", attempt.serial)
}

/// The key of a separately charged test.
fn test_key_of(run: u64, attempt: &Attempt) -> String {
    format!("run {run} attempt {} test", attempt.serial)
}
