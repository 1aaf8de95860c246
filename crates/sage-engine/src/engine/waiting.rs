//! Why a run waits, and what its attempts lose: looked up, not remembered.
//!
//! What an attempt loses follows from its pipeline, its terms and public counts, so it is worked out when somebody
//! asks. Nothing here charges, chooses or reads a row.

use std::sync::Arc;

use sage_kernel::{Epsilon, Filter};

use super::policy::{found, paying};
use super::{Engine, EngineError, now, offers, submit};
use crate::adapt::{Action, Offers, World};
use crate::catalog::{Run, Stage};
use crate::plan::{Bill, Known, Recipe};

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// So many blocks,
    pub blocks: u32,
    /// on each of which an attempt that loses this is admitted.
    pub epsilon: Epsilon,
    /// How many sealed blocks admit it by themselves.
    pub admit: u32,
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
        let Action::Wait(wanted) = run.state.next(World { time: now(), offers: &nothing }) else { return Ok(None) };
        let Some((recipe, filter, bill)) = self.billed(&run, wanted.cost, wanted.blocks, &[])? else {
            return Ok(None);
        };
        let lefts = self.left_for(&recipe, &filter, &bill)?;
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
            epsilon: submit::alone(&filter, &bill),
            admit: count(lefts.iter().filter(|left| **left > 0).count()),
            sealed: count(sealed),
            deadline: wanted.deadline,
        }))
    }

    /// The ε that each attempt of a run by itself comes to at δ_g, on the lane where it costs more; nothing where
    /// the pipeline no longer fits its stream.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn attempt_losses(&self, number: u64) -> Result<Vec<Option<Epsilon>>, EngineError> {
        let run = self.run_of(number)?;
        let losses = run.tries.iter().map(|one| {
            let billed = self.billed(&run, one.attempt.cost, one.attempt.window, &one.blocks)?;
            Ok(billed.map(|(_, filter, bill)| submit::alone(&filter, &bill)))
        });
        losses.collect()
    }

    pub(super) fn run_of(&self, number: u64) -> Result<Arc<Run>, EngineError> {
        self.catalog().works().run(number).cloned().ok_or(EngineError::NoRun(number))
    }

    /// The bill of an attempt of a run, on these blocks or else the newest; nothing where the pipeline no longer
    /// fits its stream.
    fn billed(
        &self, run: &Run, cost: u64, window: u32, blocks: &[(u32, u32)],
    ) -> Result<Option<(Recipe, Filter, Bill)>, EngineError> {
        let pipeline = &run.pipeline;
        let filter = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &pipeline.stream)?;
            Ok(paying(gate, id, pipeline)?.1.clone())
        })?;
        let catalog = self.catalog();
        let Some(known) = catalog.stream(&pipeline.stream) else { return Ok(None) };
        let Ok(recipe) = Recipe::new(pipeline.clone(), &known.file, self) else { return Ok(None) };
        let rows = offers::rows_of(pipeline, known, blocks).map(|each| each * f64::from(window));
        let bill = Bill::new(&recipe, Known { filter: &filter, terms: run.terms, cost, rows });
        Ok(bill.ok().map(|bill| (recipe, filter, bill)))
    }
}
