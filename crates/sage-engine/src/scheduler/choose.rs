//! Chooses the next attempt of a run, and the newest blocks that admit it.
//!
//! A run prefers its reservation, then what it can borrow, then what is unspent but reserved for others; the scheduler
//! decides which run is next. Only blocks that admit the attempt under every ceiling, including the joint one, are
//! chosen, so that a run does not wait for a block that would refuse it.

use sage_kernel::{BlockId, ContextId, Filter};

use crate::adapt::{Action, Attempt, End, Forecast, Offers, RowsPrices, World};
use crate::allocate::PipelineId;
use crate::api::policy::found;
use crate::api::{Engine, EngineError, lock};
use crate::catalog::{Catalog, Run, Step, Stream};
use crate::scheduler::available::{AvailableBudget, Reach, ranges, rows_of};
use crate::scheduler::ceilings::Ceilings;
use crate::scheduler::forecast::RunForecast;
use crate::scheduler::queue;
use crate::scheduler::tested::RunBlocks;
use crate::worker::charge::{self, PricedAttempt};
use crate::worker::grant;
use crate::worker::run_loop::Choice;

/// How often a run chooses again because a block refused its choice.
const CHOICES: usize = 24;

/// A run that is being evaluated.
struct Evaluation<'catalog> {
    catalog: &'catalog Catalog,
    number: u64,
    run: &'catalog Run,
    known: &'catalog Stream,
    time: u64,
    forecast: Option<RunForecast>,
    /// What earlier attempts tested, if their estimates choose the next one.
    blocks: Option<RunBlocks>,
}

impl Evaluation<'_> {
    /// The next action of the run, if this budget is available on each block.
    fn next(&self, offered: &[(u32, u64)], kind: fn(Vec<u64>) -> Offers) -> Action {
        let forecast = self.forecast.as_ref().map(|forecast| forecast as &dyn Forecast);
        let offers = kind(offered.iter().map(|(_, offer)| *offer).collect());
        let (offers, rows) = match &self.blocks {
            Some(blocks) => (offers.of_sealed(blocks.sealed()), blocks.prices(self.run, offered)),
            None => (offers, RowsPrices::FRESH),
        };
        self.run.state.next(World { time: self.time, offers: &offers, forecast, rows })
    }

    /// Whether the run would make an attempt if it could spend these amounts on its blocks.
    fn could_choose(&self, offered: &[(u32, u64)], kind: fn(Vec<u64>) -> Offers) -> bool {
        !matches!(self.next(offered, kind), Action::Wait(_))
    }

    /// An attempt with its blocks, out of those that admit it.
    fn with_blocks(&self, attempt: Attempt, fitting: &[u32]) -> (Attempt, Vec<(u32, u32)>) {
        match &self.blocks {
            Some(blocks) => {
                let (attempt, chosen) = blocks.choose(self.run, attempt, fitting);
                (attempt, ranges(&chosen))
            }
            // The newest ones.
            None => (attempt, ranges(&fitting[fitting.len().saturating_sub(attempt.window as usize)..])),
        }
    }
}

/// The result of an evaluation with one source of budget.
enum Found {
    /// An attempt.
    Choice(Box<Choice>),
    /// The run has ended.
    Over,
    /// No admitted attempt.
    Nothing,
}

impl Engine {
    /// The next attempt of a run that the ledger would admit.
    pub(crate) fn choose(
        &self, catalog: &Catalog, number: u64, run: &Run, time: u64,
    ) -> Result<Option<Choice>, EngineError> {
        let name = &run.pipeline.stream;
        let Some(known) = catalog.stream(name) else { return Ok(None) };
        if catalog.history().owner(&run.pipeline.name) != Some(name.as_str()) {
            self.step(number, Step::ended(End::NameTaken))?;
            return Ok(None);
        }
        if !known.may_spend(run) {
            self.step(number, Step::ended(End::NotMember))?;
            return Ok(None);
        }
        let forecast = self.forecast(catalog, number, run)?;
        let blocks = RunBlocks::new(catalog, number, run, known);
        let evaluation = Evaluation { catalog, number, run, known, time, forecast, blocks };
        for reach in [Reach::Reserved, Reach::Spare, Reach::Unspent] {
            let Some(offered) = self.available_budget(catalog, number, run, known, reach)? else { return Ok(None) };
            let unlimited: Vec<(u32, u64)> = offered.offered.iter().map(|(index, _)| (*index, u64::MAX)).collect();
            match self.choose_within(&evaluation, offered, reach)? {
                Found::Choice(choice) => return Ok(Some(*choice)),
                Found::Over => return Ok(None),
                Found::Nothing if reach != Reach::Reserved => {}
                Found::Nothing => {
                    // If the run would wait even with unlimited budget, only more blocks can unblock it.
                    if !evaluation.could_choose(&unlimited, Offers::new) {
                        lock(&self.wakeups).waits_for_blocks(number);
                        return Ok(None);
                    }
                    let unspent = self.available_budget(catalog, number, run, known, Reach::Unspent)?;
                    let all = unspent.map_or_else(Vec::new, |unspent| unspent.offered);
                    // Unspent budget requires an evaluation of all waiting runs, so it comes last.
                    if !self.reserves() || !evaluation.could_choose(&all, Offers::lent) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    fn reserves(&self) -> bool {
        self.options.scheduler == crate::allocate::Scheduler::EvenSplit
    }

    /// As [`Engine::choose`], with one source of budget. If a block refuses the attempt, its available budget is
    /// lowered and the run chooses again.
    fn choose_within(
        &self, evaluation: &Evaluation<'_>, AvailableBudget { mut offered, filter }: AvailableBudget, reach: Reach,
    ) -> Result<Found, EngineError> {
        let number = evaluation.number;
        for _ in 0..CHOICES {
            let kind = if reach == Reach::Reserved { Offers::new } else { Offers::lent };
            let attempt = match evaluation.next(&offered, kind) {
                Action::Choose(attempt) => attempt,
                Action::Stop(end) => return self.ended(number, end),
                _ => return Ok(Found::Nothing),
            };
            let fitting = offered.iter().filter(|(_, offer)| *offer >= attempt.cost).map(|(index, _)| *index);
            let fitting: Vec<u32> = fitting.collect();
            let (attempt, blocks) = evaluation.with_blocks(attempt, &fitting);
            let priced = match self.priced_attempt(evaluation, &attempt, &blocks, &filter) {
                Ok(priced) => priced,
                Err(end) => return self.ended(number, end),
            };
            if self.is_admitted(evaluation, &priced, &blocks, reach)? {
                let made = lock(&self.wakeups).changes();
                return Ok(Found::Choice(Box::new(Choice { run: number, attempt, blocks, priced, made })));
            }
            let refused = self.refused_by(evaluation, &priced, &fitting, reach)?;
            if refused.is_empty() {
                return Ok(Found::Nothing);
            }
            let less = attempt.cost - (attempt.cost / 8).max(1).min(attempt.cost);
            let mut refused = refused.into_iter().peekable();
            for (index, offer) in &mut offered {
                if refused.next_if_eq(index).is_some() {
                    *offer = less;
                }
            }
        }
        Ok(Found::Nothing)
    }

    fn ended(&self, number: u64, end: End) -> Result<Found, EngineError> {
        self.step(number, Step::ended(end))?;
        Ok(Found::Over)
    }

    /// Prices an attempt on these blocks, or returns why the run ends.
    fn priced_attempt(
        &self, evaluation: &Evaluation<'_>, attempt: &Attempt, blocks: &[(u32, u32)], filter: &Filter,
    ) -> Result<PricedAttempt, End> {
        let Evaluation { catalog, number, run, known, .. } = *evaluation;
        let Some(recipe) = self.recipe(catalog, number, run) else { return Err(End::Failing) };
        let rows = rows_of(&run.pipeline, known, blocks).map(|each| each * f64::from(attempt.window));
        let within = recipe.check_limits(&known.file, rows, self.attempt_limits(&run.pipeline));
        within.map_err(|over| End::Limit(over.limit))?;
        charge::price_attempt(recipe, catalog, number, run, attempt, blocks, filter).ok_or(End::Failing)
    }

    /// Whether the schedule and the ledger admit an attempt on all its blocks.
    fn is_admitted(
        &self, evaluation: &Evaluation<'_>, priced: &PricedAttempt, blocks: &[(u32, u32)], reach: Reach,
    ) -> Result<bool, EngineError> {
        let indices = blocks.iter().flat_map(|&(first, last)| first..=last);
        if indices.into_iter().any(|index| !self.is_within(evaluation, priced, index, reach)) {
            return Ok(false);
        }
        let admitted = self.with(|gate, catalog| {
            let mut all = true;
            for request in priced.requests() {
                let request = grant::kernel_request(gate, catalog, request)?;
                all &= matches!(gate.ledger().decide(&request), sage_kernel::Decision::Admitted(_));
            }
            Ok(all)
        });
        // A request that cannot be made now waits for other blocks or a later time.
        Ok(admitted.unwrap_or(false))
    }

    /// Whether every resource of an attempt is within what the run may spend on a block. Without reservations, the
    /// order of requests decides that.
    fn is_within(&self, evaluation: &Evaluation<'_>, priced: &PricedAttempt, index: u32, reach: Reach) -> bool {
        let Evaluation { number, run, known, .. } = *evaluation;
        let Some(context) = queue::context_of(run, Some(known)).filter(|_| self.reserves()) else { return true };
        let mut schedule = lock(&self.schedule);
        let Some(allocation) = schedule.allocation(&run.pipeline.stream, context) else { return true };
        priced.attempt_cost.resources.within(reach.of(allocation, PipelineId(number), BlockId(index)))
    }

    /// The blocks that refuse an attempt on their own.
    fn refused_by(
        &self, evaluation: &Evaluation<'_>, priced: &PricedAttempt, indices: &[u32], reach: Reach,
    ) -> Result<Vec<u32>, EngineError> {
        let Evaluation { run, known, .. } = *evaluation;
        let admitting = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &run.pipeline.stream)?;
            let ledgered = gate.ledger().stream(id);
            let (Some(ledgered), Some(context)) = (ledgered, queue::context_of(run, Some(known))) else {
                return Ok(vec![false; indices.len()]);
            };
            let ceilings = Ceilings::new(ledgered, ContextId(context), &priced.attempt_cost.costs);
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let admits = |index: &u32| numbers.get(*index as usize).is_some_and(|block| ceilings.admit(*block));
            Ok(indices.iter().map(admits).collect())
        })?;
        let refused = indices
            .iter()
            .zip(admitting)
            .filter(|(index, admits)| !admits || !self.is_within(evaluation, priced, **index, reach));
        Ok(refused.map(|(index, _)| *index).collect())
    }
}
