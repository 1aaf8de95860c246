//! Pipelines go in: looked at, submitted, stopped.

use std::path::Path;

use sage_kernel::{Amounts, Blocks, Cost, Doors, Epsilon, Filter, Lane};
use sage_learn::plan::{fits, odometer};

use super::policy::{found, in_role, paid_by, paying};
use super::{Engine, EngineError, Principal, code, note, now};
use crate::adapt::{End, Phase};
use crate::catalog::{Note, Step};
use crate::pipeline::{Pipeline, Train};
use crate::plan::{Bill, Known, Preview, Recipe, Terms};
use crate::stream::Role;

impl Engine {
    /// Submits a pipeline from the text of its file. From now on it is tried until it is accepted, rejected or out
    /// of means. Gives the number of its run.
    ///
    /// # Errors
    /// When the file cannot be meant, does not fit its stream, or the principal is no ML engineer of the stream or may
    /// not spend in the context.
    pub fn submit(&self, by: &Principal, text: &str) -> Result<u64, EngineError> {
        self.submit_at(by, text, now())
    }

    /// As [`Engine::submit`], at this time in milliseconds since 1970.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn submit_at(&self, by: &Principal, text: &str, at: u64) -> Result<u64, EngineError> {
        self.submit_with(by, text, None, at)
    }

    /// As [`Engine::submit_at`], with the folder of the code that the pipeline's program is in. It is copied, so that
    /// what is run later is what was submitted.
    ///
    /// # Errors
    /// As [`Engine::submit`], and when the folder cannot be copied.
    pub fn submit_with(&self, by: &Principal, text: &str, code: Option<&Path>, at: u64) -> Result<u64, EngineError> {
        let pipeline = Pipeline::parse(text).map_err(EngineError::PipelineFile)?;
        let (recipe, terms, _) = self.held_against(by, pipeline)?;
        let (stream, text) = (recipe.pipeline().stream.clone(), recipe.pipeline().to_text());
        let code = code.map(|folder| code::keep(self.path(), folder)).transpose()?;
        let submitted = Note::RunSubmitted { stream, text, by: by.name().to_owned(), at, terms, code };
        self.with(|gate, catalog| {
            note(gate, catalog, &submitted)?;
            Ok(catalog.works().runs().count() as u64 + 1)
        })
    }

    /// What would happen to a pipeline if it were submitted now. It costs nothing.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn preview(&self, by: &Principal, text: &str) -> Result<Preview, EngineError> {
        let pipeline = Pipeline::parse(text).map_err(EngineError::PipelineFile)?;
        let (recipe, terms, filter) = self.held_against(by, pipeline)?;
        let catalog = self.catalog();
        let name = &recipe.pipeline().stream;
        let known = catalog.stream(name).ok_or_else(|| EngineError::NoStream(name.clone()))?;
        let rows = super::offers::rows_of(recipe.pipeline(), known, &[]);
        let bill = |cost: u64, window: u32| {
            let rows = rows.map(|each| each * f64::from(window));
            Bill::new(&recipe, Known { filter: &filter, terms, cost, rows }).map_err(EngineError::Plan)
        };
        let first = bill(terms.first_cost, terms.first_window)?;
        // The costliest attempt may be one that no window ever has the rows for.
        let most = bill(terms.most_cost, terms.first_window)?;
        let lefts = self.left_for(&recipe, &filter, &first)?;
        let window = terms.first_window as usize;
        let mut newest: Vec<u64> = lefts.iter().rev().copied().filter(|left| *left > 0).take(window).collect();
        newest.sort_unstable();
        Ok(Preview {
            pipeline: recipe.pipeline().name.clone(),
            stream: name.clone(),
            window: terms.first_window,
            eligible: u32::try_from(lefts.iter().filter(|left| **left > 0).count()).unwrap_or(u32::MAX),
            first: alone(&filter, &first),
            most: alone(&filter, &most),
            runs_left: if newest.len() < window { 0 } else { newest.first().copied().unwrap_or(0) },
        })
    }

    /// Stops a run. An attempt that is under way is brought to its end without effect.
    ///
    /// # Errors
    /// When there is no such run, it is over, or the principal is no ML engineer of its stream.
    pub fn stop_run(&self, by: &Principal, run: u64) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let own = catalog.works().run(run).ok_or(EngineError::NoRun(run))?;
            let (_, known) = found(gate, catalog, &own.pipeline.stream)?;
            in_role(&known.file, by, Role::MlEngineer)?;
            if matches!(own.state.phase(), Phase::Over(_)) {
                return Err(EngineError::RunOver(run));
            }
            Ok(note(gate, catalog, &Note::RunStepped { run, step: Step::Ended { end: End::Cancelled } })?)
        })
    }

    /// A pipeline held against its stream, its terms, and the filter that counts what it costs. The context that pays
    /// is written into it, so that it stays the same whoever becomes a member of what.
    fn held_against(&self, by: &Principal, mut pipeline: Pipeline) -> Result<(Recipe, Terms, Filter), EngineError> {
        let (file, filter) = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &pipeline.stream)?;
            pipeline.context = paid_by(&known.file, by, pipeline.context.as_deref())?;
            let doors = gate.ledger().stream(id).map(|stream| stream.policy().doors());
            if matches!(pipeline.train, Train::Command { .. }) && doors == Some(Doors::EnforcedOnly) {
                return Err(EngineError::Door(pipeline.stream.clone()));
            }
            let (_, filter) = paying(gate, id, &pipeline)?;
            Ok((known.file.clone(), filter.clone()))
        })?;
        self.check_rival(&pipeline)?;
        let terms = Terms::new(&pipeline, &file, &filter).map_err(EngineError::Plan)?;
        let recipe = Recipe::new(pipeline, &file, self).map_err(EngineError::Plan)?;
        let catalog = self.catalog();
        let known = catalog.stream(&recipe.pipeline().stream);
        let rows = known.and_then(|known| super::offers::rows_of(recipe.pipeline(), known, &[]));
        let rows = rows.map(|each| each * f64::from(terms.first_window));
        let most = self.memory_limit(recipe.pipeline());
        recipe.within_memory(&file, rows, most).map_err(EngineError::Plan)?;
        Ok((recipe, terms, filter))
    }

    /// How often each sealed block, oldest first, still admits a bill.
    pub(super) fn left_for(&self, recipe: &Recipe, filter: &Filter, bill: &Bill) -> Result<Vec<u64>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &recipe.pipeline().stream)?;
            let ledgered = gate.ledger().stream(id);
            let Some(ledgered) = ledgered else { return Ok(Vec::new()) };
            let (context, _) = paying(gate, id, recipe.pipeline())?;
            let amounts = priced(filter, &bill.costs);
            let numbers = super::blocks::numbers(gate, id, &known.sealed)?;
            let left = |block| {
                if ledgered.is_retired(block) {
                    return 0;
                }
                let lanes = Lane::BOTH.into_iter().zip(&amounts).filter_map(|(lane, amounts)| {
                    let spent = ledgered.spent(context, block, lane).unwrap_or_default();
                    amounts.as_ref().map(|amounts| fits(filter, spent, amounts))
                });
                lanes.min().unwrap_or(0)
            };
            Ok(numbers.into_iter().map(left).collect())
        })
    }
}

/// The ε that a bill by itself comes to at δ_g, on the lane where it costs more.
pub(super) fn alone(filter: &Filter, bill: &Bill) -> Epsilon {
    let lanes = lane_losses(filter, &bill.costs);
    lanes[0].max(lanes[1])
}

/// The ε that costs by themselves come to at δ_g on each lane.
pub(super) fn lane_losses(filter: &Filter, costs: &[Option<Cost>; 2]) -> [Epsilon; 2] {
    priced(filter, costs).map(|amounts| match amounts {
        Some(amounts) => {
            let spent: Vec<u128> = amounts.units().iter().map(|&units| u128::from(units)).collect();
            odometer(filter, &spent)
        }
        None => Epsilon::ZERO,
    })
}

/// What costs come to on each lane, wherever they are charged; nothing where a lane is not, or has no price.
pub(super) fn priced(filter: &Filter, costs: &[Option<Cost>; 2]) -> [Option<Amounts>; 2] {
    let anywhere = Blocks::range(0, 0);
    let price = |cost: &Option<Cost>, lane| filter.price(cost.as_ref()?, lane, anywhere.as_ref().ok()?).ok();
    let [train, test] = costs;
    [price(train, Lane::Train), price(test, Lane::Test)]
}
