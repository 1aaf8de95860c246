//! Why a run waits, and what its attempts lose: looked up, not remembered.
//!
//! What an attempt loses follows from its pipeline, its terms and public counts, so it is worked out when somebody
//! asks. Nothing here charges, chooses or reads a row.

use std::sync::Arc;

use sage_kernel::{BlockId, Epsilon, Filter};

use super::ceilings::Ceilings;
use super::offers::Reach;
use super::policy::{found, paying};
use super::{Engine, EngineError, lock, offers, submit};
use crate::adapt::{Action, Offers, World};
use crate::allocate::PipelineId;
use crate::catalog::{Run, Stage};
use crate::plan::{AttemptCost, CostInputs, Recipe};

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// So many blocks,
    pub blocks: u32,
    /// on each of which an attempt that loses this is admitted.
    pub epsilon: Epsilon,
    /// How many sealed blocks that it reads admit it by themselves, under every ceiling.
    pub admit: u32,
    /// On how many of those it may spend that much now; the rest is promised to runs that came earlier, or locked.
    pub free: u32,
    /// How many blocks are sealed and not retired.
    pub sealed: u32,
    /// When it gives up, in milliseconds since 1970.
    pub deadline: Option<u64>,
}

impl Engine {
    /// What a run waits for; nothing if an attempt is under way or the run is over.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn waiting(&self, number: u64) -> Result<Option<Waiting>, EngineError> {
        let run = self.run_of(number)?;
        let nothing = Offers::new(Vec::new());
        // Its deadline ends it when the loop comes to it; until then it waits.
        let world = World { time: run.submitted, offers: &nothing };
        let Action::Wait(wanted) = run.state.next(world) else { return Ok(None) };
        let Some((recipe, filter, attempt_cost)) = self.priced(&run, wanted.cost, wanted.blocks, &[])? else {
            return Ok(None);
        };
        let lefts = self.left_for(&recipe, &attempt_cost)?;
        let free = self.free_for(number, &recipe, &attempt_cost)?;
        let sealed = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &run.pipeline.stream)?;
            let numbers = super::blocks::numbers(gate, id, &known.sealed)?;
            let retired = |block| gate.ledger().stream(id).is_none_or(|stream| stream.is_retired(block));
            let kept = numbers.into_iter().zip(&known.sealed);
            Ok(kept.filter(|(block, key)| !retired(*block) && known.stage(key) == Stage::Sealed).count())
        })?;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Some(Waiting {
            blocks: wanted.blocks,
            epsilon: submit::alone(&filter, &attempt_cost),
            admit: count(lefts.iter().filter(|left| **left > 0).count()),
            free: count(free),
            sealed: count(sealed),
            deadline: wanted.deadline,
        }))
    }

    /// On how many blocks that admit an attempt cost the schedule lets a run spend it now.
    fn free_for(&self, number: u64, recipe: &Recipe, attempt_cost: &AttemptCost) -> Result<usize, EngineError> {
        let pipeline = recipe.pipeline();
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &pipeline.stream)?;
            let (context, _) = paying(gate, id, pipeline)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(0) };
            let ceilings = Ceilings::new(ledgered, context, &attempt_cost.costs);
            let numbers = super::blocks::numbers(gate, id, &known.sealed)?;
            let mut schedule = lock(&self.schedule);
            let Some(room) = schedule.room(&pipeline.stream, context.0) else { return Ok(0) };
            let free = |place: u32| {
                let may =
                    |reach: Reach| attempt_cost.resources.within(reach.of(room, PipelineId(number), BlockId(place)));
                may(Reach::Reserved) || may(Reach::Spare)
            };
            let read = |key: &String| pipeline.blocks.as_ref().is_none_or(|named| named.contains(key));
            let all = (0..).zip(numbers).zip(&known.sealed).filter(|(_, key)| read(key));
            Ok(all.filter(|((place, block), _)| ceilings.admit(*block) && free(*place)).count())
        })
    }

    /// The ε that each attempt of a run by itself comes to at δ_g, on the lane where it costs more; nothing where
    /// the pipeline no longer fits its stream.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn attempt_losses(&self, number: u64) -> Result<Vec<Option<Epsilon>>, EngineError> {
        let run = self.run_of(number)?;
        let losses = run.attempts.iter().map(|one| {
            let priced = self.priced(&run, one.attempt.cost, one.attempt.window, &one.blocks)?;
            Ok(priced.map(|(_, filter, attempt_cost)| submit::alone(&filter, &attempt_cost)))
        });
        losses.collect()
    }

    pub(super) fn run_of(&self, number: u64) -> Result<Arc<Run>, EngineError> {
        self.catalog().history().run(number).cloned().ok_or(EngineError::NoRun(number))
    }

    /// the attempt cost of an attempt of a run, on these blocks or else the newest; nothing where the pipeline no longer
    /// fits its stream.
    fn priced(
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
        let rows = offers::rows_of(pipeline, known, blocks).map(|each| each * f64::from(window));
        let attempt_cost = AttemptCost::new(&recipe, CostInputs { filter: &filter, terms: run.terms, cost, rows });
        Ok(attempt_cost.ok().map(|attempt_cost| (recipe, filter, attempt_cost)))
    }
}
