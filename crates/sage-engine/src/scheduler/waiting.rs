//! Why a run waits, and the privacy loss of its attempts. Both are computed on request.
//!
//! The loss of an attempt follows from its pipeline, its terms and public counts. Nothing here charges, chooses or
//! reads a row.

use std::sync::Arc;

use sage_kernel::{BlockId, Epsilon, Filter};

use crate::adapt::{Action, Forecast, Offers, RowsPrices, Strategy, Wanted, World};
use crate::allocate::PipelineId;
use crate::api::policy::{found, paying};
use crate::api::{Engine, EngineError, lock, submit};
use crate::catalog::{Run, Stage};
use crate::plan::{AttemptCost, CostInputs, Recipe};
use crate::scheduler::available;
use crate::scheduler::available::Reach;
use crate::scheduler::ceilings::Ceilings;
use crate::scheduler::tested::RunBlocks;

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The number of blocks that the next attempt needs.
    pub blocks: u32,
    /// The loss of the attempt on each of these blocks.
    pub epsilon: Epsilon,
    /// How many sealed blocks in its window admit the attempt under every ceiling.
    pub admit: u32,
    /// On how many of those blocks it can spend that much now. The rest is reserved for earlier runs, or locked.
    pub free: u32,
    /// How many blocks are sealed and not retired.
    pub sealed: u32,
    /// The run's deadline, in milliseconds since 1970.
    pub deadline: Option<u64>,
}

impl Engine {
    /// What a run waits for; `None` if an attempt is in progress or the run has ended.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn waiting(&self, number: u64) -> Result<Option<Waiting>, EngineError> {
        let run = self.run_of(number)?;
        let Some(next) = self.next_wanted(number, &run)? else { return Ok(None) };
        let Some((recipe, filter, attempt_cost)) = self.price_attempt(&run, next.cost, next.blocks, &[])? else {
            return Ok(None);
        };
        let lefts = self.left_for(&recipe, &attempt_cost)?;
        let free = self.free_for(number, &recipe, &attempt_cost)?;
        let sealed = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &run.pipeline.stream)?;
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let retired = |block| gate.ledger().stream(id).is_none_or(|stream| stream.is_retired(block));
            let blocks = numbers.into_iter().zip(&known.sealed);
            Ok(blocks.filter(|(block, key)| !retired(*block) && known.stage(key) == Stage::Sealed).count())
        })?;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Some(Waiting {
            blocks: next.blocks,
            epsilon: submit::alone(&filter, &attempt_cost),
            admit: count(lefts.iter().filter(|left| **left > 0).count()),
            free: count(free),
            sealed: count(sealed),
            deadline: next.deadline,
        }))
    }

    /// What the next attempt of a run needs; `None` if an attempt is in progress or the run has ended.
    fn next_wanted(&self, number: u64, run: &Run) -> Result<Option<Wanted>, EngineError> {
        let catalog = self.catalog();
        let forecast = self.forecast(&catalog, number, run)?;
        // The other strategies need the same whatever is available.
        let known = catalog.stream(&run.pipeline.stream);
        let available = match known.filter(|_| run.state.plan().strategy() == Strategy::Informed) {
            Some(known) => self.available_budget(&catalog, number, run, known, Reach::Reserved)?,
            None => None,
        };
        let offered = available.map_or_else(Vec::new, |available| available.offered);
        let offers = Offers::new(offered.iter().map(|(_, amount)| *amount).collect());
        let (offers, rows) = match known.and_then(|known| RunBlocks::new(&catalog, number, run, known)) {
            Some(blocks) => (offers.of_sealed(blocks.sealed()), blocks.prices(run, &offered)),
            None => (offers, RowsPrices::FRESH),
        };
        let forecast = forecast.as_ref().map(|forecast| forecast as &dyn Forecast);
        // The worker loop ends the run at its deadline; until then it waits.
        Ok(match run.state.next(World { time: run.submitted, offers: &offers, forecast, rows }) {
            Action::Wait(wanted) => Some(wanted),
            // Its reservation is sufficient, but a block or the order of runs does not admit it yet.
            Action::Choose(attempt) => {
                let deadline = run.state.plan().limits().deadline;
                Some(Wanted { blocks: attempt.window, cost: attempt.cost, deadline })
            }
            _ => None,
        })
    }

    /// On how many blocks that admit an attempt cost the schedule lets a run spend it now.
    fn free_for(&self, number: u64, recipe: &Recipe, cost: &AttemptCost) -> Result<usize, EngineError> {
        let pipeline = recipe.pipeline();
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &pipeline.stream)?;
            let (context, _) = paying(gate, id, pipeline)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(0) };
            let ceilings = Ceilings::new(ledgered, context, &cost.costs);
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let mut schedule = lock(&self.schedule);
            let Some(allocation) = schedule.allocation(&pipeline.stream, context.0) else { return Ok(0) };
            let free = |index: u32| {
                let may =
                    |reach: Reach| cost.resources.within(reach.of(allocation, PipelineId(number), BlockId(index)));
                may(Reach::Reserved) || may(Reach::Spare)
            };
            let reads = catalog.history().reads(pipeline);
            let all = (0..).zip(numbers).zip(&known.sealed).filter(|((index, _), key)| reads(*index, key));
            Ok(all.filter(|((index, block), _)| ceilings.admit(*block) && free(*index)).count())
        })
    }

    /// The ε at δ_g of each attempt of a run on its own, on the lane where it costs more; `None` if the pipeline no
    /// longer fits its stream.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn attempt_losses(&self, number: u64) -> Result<Vec<Option<Epsilon>>, EngineError> {
        let run = self.run_of(number)?;
        let losses = run.attempts.iter().map(|one| {
            let priced = self.price_attempt(&run, one.attempt.cost, one.attempt.window, &one.blocks)?;
            Ok(priced.map(|(_, filter, attempt_cost)| submit::alone(&filter, &attempt_cost)))
        });
        losses.collect()
    }

    pub(crate) fn run_of(&self, number: u64) -> Result<Arc<Run>, EngineError> {
        self.catalog().history().run(number).cloned().ok_or(EngineError::NoRun(number))
    }

    /// The cost of an attempt on these blocks, or on the newest ones; `None` if the pipeline no longer fits its stream.
    fn price_attempt(
        &self, run: &Run, cost: u64, window: u32, blocks: &[(u32, u32)],
    ) -> Result<Option<(Recipe, Filter, AttemptCost)>, EngineError> {
        let pipeline = &run.pipeline;
        let filter = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &pipeline.stream)?;
            Ok(paying(gate, id, pipeline)?.1.clone())
        })?;
        let catalog = self.catalog();
        let Some(known) = catalog.stream(&pipeline.stream) else { return Ok(None) };
        let Ok(recipe) = Recipe::new(pipeline.clone(), &known.file, self) else { return Ok(None) };
        let rows = available::rows_of(pipeline, known, blocks).map(|each| each * f64::from(window));
        let cost = AttemptCost::new(&recipe, CostInputs { filter: &filter, terms: run.terms, cost, rows });
        Ok(cost.ok().map(|cost| (recipe, filter, cost)))
    }
}
