//! Submission of pipelines: planned, submitted, stopped.

use std::path::Path;

use sage_kernel::{AccessModes, Amounts, Blocks, Cost, Epsilon, Filter, Lane};
use sage_learn::plan::odometer;

use crate::adapt::{End, Outcome, Phase};
use crate::api::plan_warnings::plan_warnings;
use crate::api::policy::{found, in_role, paying, paying_context};
use crate::api::releases::{Shown, ShownTables};
use crate::api::{Engine, EngineError, Principal, note, now};
use crate::catalog::{Catalog, Note, Step};
use crate::pipeline::{Extent, Pipeline, Train};
use crate::plan::{
    AttemptCost, CostInputs, ForecastLine, NamedTables, PlanRefusal, Preview, Recipe, Terms, plan_on_thread,
};
use crate::scheduler::ceilings::Ceilings;
use crate::scheduler::forecast::{FIRST_DIVISOR, ForecastInputs, RunForecast};
use crate::stream::{Role, StreamFile, Width};
use crate::worker::code;

/// What [`Engine::stop_run`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The run.
    Run,
    /// The recurrence of the pipeline; the run had already ended.
    Recurrence,
}

impl Engine {
    /// Submits the pipeline in the text of a file. Attempts follow until it is accepted, rejected or at its limits.
    /// Returns the number of its run.
    ///
    /// # Errors
    /// When the file is invalid, does not fit its stream, or the principal is not an ML engineer of the stream or may
    /// not spend in the context.
    pub fn submit(&self, by: &Principal, text: &str) -> Result<u64, EngineError> {
        self.submit_at(by, text, now())
    }

    /// As [`Engine::submit`], at `time` in milliseconds since 1970.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn submit_at(&self, by: &Principal, text: &str, at: u64) -> Result<u64, EngineError> {
        self.submit_with(by, text, None, at)
    }

    /// As [`Engine::submit_at`], with the folder that contains the code of the pipeline's program. It is copied, so
    /// that the submitted code is what runs later.
    ///
    /// # Errors
    /// As [`Engine::submit`], and when the folder cannot be copied.
    pub fn submit_with(&self, by: &Principal, text: &str, code: Option<&Path>, at: u64) -> Result<u64, EngineError> {
        self.submit_shown(by, text, code, at, &|_| true)
    }

    /// As [`Engine::submit_with`], for a caller who may see only some releases.
    ///
    /// # Errors
    /// As [`Engine::submit_with`]; a hidden release does not exist.
    pub fn submit_shown(
        &self, by: &Principal, text: &str, code: Option<&Path>, at: u64, shown: &Shown<'_>,
    ) -> Result<u64, EngineError> {
        let pipeline = parsed(text)?;
        let (recipe, terms, _) = self.check_pipeline(by, pipeline, shown)?;
        let (stream, text) = (recipe.pipeline().stream.clone(), recipe.pipeline().to_text());
        let code = code.map(|folder| code::keep(self.path(), folder)).transpose()?;
        let submitted = Note::RunSubmitted { stream, text, by: by.name().to_owned(), at, terms, code };
        let name = &recipe.pipeline().name;
        self.with(|gate, catalog| {
            owns_name(catalog, name, &recipe.pipeline().stream)?;
            note(gate, catalog, &submitted)?;
            Ok(catalog.history().runs().count() as u64 + 1)
        })
    }

    /// The plan of a pipeline if it were submitted now. Planning costs nothing.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn preview(&self, by: &Principal, text: &str) -> Result<Preview, EngineError> {
        self.preview_shown(by, text, &|_| true)
    }

    /// As [`Engine::preview`], for a caller who may see only some releases.
    ///
    /// # Errors
    /// As [`Engine::preview`]; a hidden release does not exist.
    pub fn preview_shown(&self, by: &Principal, text: &str, shown: &Shown<'_>) -> Result<Preview, EngineError> {
        let pipeline = parsed(text)?;
        let (recipe, terms, filter) = self.check_pipeline(by, pipeline, shown)?;
        let catalog = self.catalog();
        let name = &recipe.pipeline().stream;
        let known = catalog.stream(name).ok_or_else(|| EngineError::NoStream(name.clone()))?;
        let rows = crate::scheduler::available::rows_of(recipe.pipeline(), known, &[]);
        let attempt_cost = |cost: u64, window: u32| {
            let rows = rows.map(|each| each * f64::from(window));
            AttemptCost::new(&recipe, CostInputs { filter: &filter, terms, cost, rows }).map_err(EngineError::Plan)
        };
        let first = attempt_cost(terms.first_cost, terms.first_window)?;
        // The most expensive attempt may be one for which no window ever has enough rows.
        let most = attempt_cost(terms.most_cost, terms.first_window)?;
        let lefts = self.left_for(&recipe, &first)?;
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
            forecast: forecast_lines(&catalog, &recipe, &filter, &terms, &attempt_cost),
            warnings: plan_warnings(&catalog, &recipe),
        })
    }

    /// Stops a run. An attempt in progress finishes without effect. If the run has ended and its pipeline recurs, the
    /// recurrence is stopped instead.
    ///
    /// # Errors
    /// When there is no such run, it has ended and does not recur, or the principal is neither an ML engineer nor a
    /// privacy officer of its stream.
    pub fn stop_run(&self, by: &Principal, run: u64) -> Result<Stopped, EngineError> {
        self.with(|gate, catalog| {
            let own = catalog.history().run(run).ok_or(EngineError::NoRun(run))?;
            let (_, known) = found(gate, catalog, &own.pipeline.stream)?;
            if !known.has_role(by.name(), Role::PrivacyOfficer) {
                in_role(known, by, Role::MlEngineer)?;
            }
            let by = by.name().to_owned();
            let history = catalog.history();
            let (note_of, stopped) = match own.state.phase() {
                Phase::Over(Outcome::Stopped(End::Cancelled | End::NotMember | End::NameTaken)) => {
                    return Err(EngineError::RunOver(run));
                }
                Phase::Over(_) if history.recurs(run) && history.newest_run(&own.pipeline.name) == Some(run) => {
                    let (stream, pipeline) = (own.pipeline.stream.clone(), own.pipeline.name.clone());
                    (Note::RecurrenceStopped { stream, pipeline, by }, Stopped::Recurrence)
                }
                Phase::Over(_) => return Err(EngineError::RunOver(run)),
                _ => {
                    let step = Step::Ended { end: End::Cancelled, by: Some(by) };
                    (Note::RunStepped { run, step }, Stopped::Run)
                }
            };
            note(gate, catalog, &note_of)?;
            Ok(stopped)
        })
    }

    /// A pipeline checked against its stream, with its terms and the filter that counts its cost. The paying context is
    /// written into the pipeline, so that it does not change with memberships.
    fn check_pipeline(
        &self, by: &Principal, mut pipeline: Pipeline, shown: &Shown<'_>,
    ) -> Result<(Recipe, Terms, Filter), EngineError> {
        let (file, filter) = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &pipeline.stream)?;
            pipeline.context = paying_context(known, by, pipeline.context.as_deref())?;
            owns_name(catalog, &pipeline.name, &pipeline.stream)?;
            let modes = gate.ledger().stream(id).map(|stream| stream.policy().access_modes());
            if matches!(pipeline.train, Train::Command { .. }) && modes == Some(AccessModes::EnforcedOnly) {
                return Err(EngineError::AttestedNotAllowed(pipeline.stream.clone()));
            }
            let (_, filter) = paying(gate, id, &pipeline)?;
            Ok((known.file.clone(), filter.clone()))
        })?;
        // It becomes part of the submitted text, so earlier runs without a deadline keep none.
        pipeline.adaptation.timeout.get_or_insert_with(|| default_timeout(&pipeline.window.min, &file));
        self.check_baseline(&pipeline, shown)?;
        let terms = Terms::new(&pipeline, &file, &filter).map_err(EngineError::Plan)?;
        let recipe = self.planned_recipe(pipeline, &file, shown)?;
        let catalog = self.catalog();
        let known = catalog.stream(&recipe.pipeline().stream);
        let rows = known.and_then(|known| crate::scheduler::available::rows_of(recipe.pipeline(), known, &[]));
        let rows = rows.map(|each| each * f64::from(terms.first_window));
        let within = recipe.check_limits(&file, rows, self.attempt_limits(recipe.pipeline()));
        within.map_err(|over| EngineError::Plan(over.refusal))?;
        recipe.check_machine(&file).map_err(EngineError::Plan)?;
        check_reach(&catalog, &recipe, &filter, &terms)?;
        self.rehearse(&recipe, &file, &filter, terms)?;
        Ok((recipe, terms, filter))
    }

    /// Plans a pipeline on its stream.
    fn planned_recipe(&self, pipeline: Pipeline, file: &StreamFile, shown: &Shown<'_>) -> Result<Recipe, EngineError> {
        let tables = NamedTables::new(&pipeline, &ShownTables { engine: self, shown });
        let file = file.clone();
        let planned = plan_on_thread(move || Recipe::new(pipeline, &file, &tables)).map_err(EngineError::Plan)?;
        planned.map_err(EngineError::Plan)
    }

    /// How many times each sealed block that the pipeline reads, oldest first, still admits an attempt cost.
    pub(crate) fn left_for(&self, recipe: &Recipe, attempt_cost: &AttemptCost) -> Result<Vec<u64>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &recipe.pipeline().stream)?;
            let ledgered = gate.ledger().stream(id);
            let Some(ledgered) = ledgered else { return Ok(Vec::new()) };
            let (context, _) = paying(gate, id, recipe.pipeline())?;
            let ceilings = Ceilings::new(ledgered, context, &attempt_cost.costs);
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let reads = catalog.history().reads(recipe.pipeline());
            let own = (0..).zip(numbers).zip(&known.sealed).filter(|((index, _), key)| reads(*index, key));
            Ok(own.map(|((_, block), _)| ceilings.times(block)).collect())
        })
    }
}

/// Refuses a statistic whose target is below the noise of the most expensive attempt, which is known exactly.
fn check_reach(catalog: &Catalog, recipe: &Recipe, filter: &Filter, terms: &Terms) -> Result<(), EngineError> {
    let inputs = ForecastInputs { catalog, recipe, filter, terms, divisor: FIRST_DIVISOR };
    match RunForecast::new(&inputs).and_then(|forecast| forecast.least_half_width(terms.most_cost)) {
        Some((least, target)) if least > target => {
            let why = format!(
                "{target} cannot be reached: at the largest cost the noise alone is about {least:.3}, whatever the number \
                 of rows; raise the target, or epsilon_max in [budget] if the stream's ceiling allows it"
            );
            Err(EngineError::Plan(PlanRefusal::part("validate.target", why)))
        }
        _ => Ok(()),
    }
}

/// Parses the text of a pipeline file.
fn parsed(text: &str) -> Result<Pipeline, EngineError> {
    let text = text.to_owned();
    let pipeline = plan_on_thread(move || Pipeline::parse(&text)).map_err(EngineError::Plan)?;
    pipeline.map_err(EngineError::PipelineFile)
}

/// The default deadline of a run: four weeks, or twice its first window if that is longer.
fn default_timeout(window: &Extent, file: &StreamFile) -> Width {
    let window = match (window, file.blocks.time.filter(|_| file.blocks.levels() == 1)) {
        (Extent::Time(length), _) => *length,
        (Extent::Blocks(blocks), Some(width)) => width.times(*blocks),
        (Extent::Blocks(_), None) => return Width::FOUR_WEEKS,
    };
    window.times(2).max(Width::FOUR_WEEKS)
}

/// Refuses a pipeline name that belongs to another stream, since its releases and aliases are that stream's.
fn owns_name(catalog: &Catalog, name: &str, stream: &str) -> Result<(), EngineError> {
    match catalog.history().owner(name) {
        Some(owner) if owner != stream => Err(EngineError::NameTaken(name.to_owned())),
        _ => Ok(()),
    }
}

/// The ε of an attempt cost on its own at δ_g, on the lane where it costs more.
pub(crate) fn alone(filter: &Filter, attempt_cost: &AttemptCost) -> Epsilon {
    let lanes = lane_losses(filter, &attempt_cost.costs);
    lanes[0].max(lanes[1])
}

/// The ε of costs on their own at δ_g, on each lane.
pub(crate) fn lane_losses(filter: &Filter, costs: &[Option<Cost>; 2]) -> [Epsilon; 2] {
    priced(filter, costs).map(|amounts| match amounts {
        Some(amounts) => {
            let spent: Vec<u128> = amounts.units().iter().map(|&units| u128::from(units)).collect();
            odometer(filter, &spent)
        }
        None => Epsilon::ZERO,
    })
}

/// The price of costs on each lane; `None` for a lane without a charge, or without a price.
pub(crate) fn priced(filter: &Filter, costs: &[Option<Cost>; 2]) -> [Option<Amounts>; 2] {
    let anywhere = Blocks::range(0, 0);
    let price = |cost: &Option<Cost>, lane| filter.price(cost.as_ref()?, lane, anywhere.as_ref().ok()?).ok();
    let [train, test] = costs;
    [price(train, Lane::Train), price(test, Lane::Test)]
}

/// How many blocks are likely to be enough for a pipeline, at costs from the first to the largest.
fn forecast_lines(
    catalog: &Catalog, recipe: &Recipe, filter: &Filter, terms: &Terms,
    attempt_cost: &dyn Fn(u64, u32) -> Result<AttemptCost, EngineError>,
) -> Vec<ForecastLine> {
    /// Costs of neighbouring lines differ by this factor.
    const FACTOR: u64 = 8;
    /// More blocks than this are no forecast.
    const MOST: u32 = 100_000;
    let inputs = ForecastInputs { catalog, recipe, filter, terms, divisor: FIRST_DIVISOR };
    let Some(forecast) = RunForecast::new(&inputs) else { return Vec::new() };
    let costs = std::iter::successors(Some(terms.first_cost), |cost| cost.checked_mul(FACTOR));
    let line = |cost: u64| {
        let blocks = forecast.likely_window(cost, terms.most_window.min(MOST)).map(|few| few.max(terms.first_window));
        let priced = attempt_cost(cost, blocks.unwrap_or(terms.first_window)).ok()?;
        Some(ForecastLine { epsilon: alone(filter, &priced), blocks })
    };
    costs.take_while(|cost| *cost <= terms.most_cost).filter_map(line).collect()
}
