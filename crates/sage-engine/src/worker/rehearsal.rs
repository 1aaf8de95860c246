//! Rehearsals: a whole attempt on synthetic rows before the first charge of a pipeline file.
//!
//! A rehearsal runs the code of an attempt: expressions, encoding, training, test, bundle and a prediction. Its rows
//! are generated from the stream file, and its charge goes to a ledger in memory that no block belongs to: no stored row
//! is read and no budget is used. A mistake that does not depend on rows fails here, and the pipeline is refused.

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, ChargeOutcome, ContextId, Filter, Gate, Lane, MemoryLog, Permit, Policy, Request,
    RequestKey,
};

use super::attempt::artefact;
use crate::adapt::Attempt;
use crate::api::{Engine, EngineError, lock};
use crate::pipeline::{Pipeline, Train};
use crate::plan::time::estimate_seconds;
use crate::plan::{AttemptCost, CostInputs, PlanRefusal, Recipe, Terms};
use crate::quiet;
use crate::read::{self, Batch, Query, synthetic_batch};
use crate::release::Receipt;
use crate::run::{AttemptFailure, AttemptObserver, AttemptResult, Stage, compute, train_and_test};
use crate::stream::StreamFile;
use crate::worker::baseline::Baseline;

/// The synthetic rows of each lane.
const ROWS: usize = 200;
/// Public numbers of rows that training is planned for, smallest first: the number of steps grows with it. A batch may
/// be too large for the smaller ones.
const PLANNED_ROWS: [f64; 4] = [4096.0, 65_536.0, 1_048_576.0, 16_777_216.0];
/// The longest rehearsal, by its estimate. A larger model is not rehearsed.
const MOST_SECONDS: f64 = 30.0;
/// The largest number of remembered pipelines.
const REMEMBERED: usize = 4096;

impl Engine {
    /// Runs an attempt of a pipeline on synthetic rows, once per pipeline and stream file. Programs of users and
    /// released models that are tested again are not rehearsed.
    ///
    /// # Errors
    /// With the reason for which every attempt would be lost.
    pub(crate) fn rehearse(
        &self, recipe: &Recipe, file: &StreamFile, filter: &Filter, terms: Terms,
    ) -> Result<(), EngineError> {
        if matches!(recipe.pipeline().train, Train::Command { .. } | Train::Released { .. }) {
            return Ok(());
        }
        let key = *blake3::hash(format!("{}{file:?}{filter:?}", recipe.pipeline().to_text()).as_bytes()).as_bytes();
        if lock(&self.rehearsed).contains(&key) {
            return Ok(());
        }
        let (cost, attempt_cost) = planned_cost(recipe, filter, terms).map_err(EngineError::Plan)?;
        // The cost is that of the smallest plan, so only a very large model takes longer.
        if estimate_seconds(recipe, file, Some(PLANNED_ROWS[0])) > MOST_SECONDS {
            return Ok(());
        }
        let (query, baseline) = self.baseline(recipe)?;
        let attempt =
            Attempt { index: 1, serial: 1, cost, window: terms.first_window, risk_divisor: 2, rows_divisor: None };
        let stage = Rehearsal { recipe, file, filter, cost: &attempt_cost, attempt, baseline: baseline.as_ref() };
        let done = quiet::run_on_reader(|| stage.run(&query));
        let failed = match done {
            Some(Ok(())) => None,
            Some(Err(AttemptFailure(reason))) => Some(reason),
            None => Some("it stops the program; please report this as a bug".to_owned()),
        };
        if let Some(reason) = failed {
            let why = format!("an attempt fails on synthetic rows of the stream, and would on real ones: {reason}");
            return Err(EngineError::Plan(PlanRefusal::part("rehearsal", why)));
        }
        let mut rehearsed = lock(&self.rehearsed);
        if rehearsed.len() >= REMEMBERED {
            rehearsed.clear();
        }
        rehearsed.insert(key);
        Ok(())
    }
}

/// The cost of a rehearsal, for the least number of rows that it can be planned for.
///
/// # Errors
/// If an attempt has no price for any number of rows, neither at the first nor at the largest cost.
fn planned_cost(recipe: &Recipe, filter: &Filter, terms: Terms) -> Result<(u64, AttemptCost), PlanRefusal> {
    let mut refusal = PlanRefusal::part("budget", "an attempt has no price");
    for rows in PLANNED_ROWS {
        for cost in [terms.first_cost, terms.most_cost] {
            match AttemptCost::new(recipe, CostInputs { filter, terms, cost, rows: Some(rows) }) {
                Ok(attempt_cost) => return Ok((cost, attempt_cost)),
                Err(refused) => refusal = refused,
            }
        }
    }
    Err(refusal)
}

/// One rehearsal.
struct Rehearsal<'run> {
    recipe: &'run Recipe,
    file: &'run StreamFile,
    filter: &'run Filter,
    cost: &'run AttemptCost,
    attempt: Attempt,
    baseline: Option<&'run Baseline>,
}

impl Rehearsal<'_> {
    fn run(&self, query: &Query) -> Result<(), AttemptFailure> {
        let failed = |what: &str| AttemptFailure(what.to_owned());
        let prepared = read::prepare(&self.file.row_schema(), query).map_err(AttemptFailure::because)?;
        let rows = || synthetic_batch(self.file, &prepared, ROWS).ok_or_else(|| failed("its rows cannot be evaluated"));
        let lanes: [Batch; 2] = [rows()?, rows()?];
        let permit = self.permit()?;
        let result = match &self.recipe.pipeline().train {
            Train::Statistic(statistic) => {
                let session = permit.open(SecureNoise::new().map_err(AttemptFailure::because)?, |_| {
                    Ok::<_, AttemptFailure>(lanes.map(|batch| vec![batch]))
                })?;
                compute(session, self.recipe, statistic, self.cost, &self.attempt, &Unobserved)?
            }
            _ => {
                let inputs = self.recipe.inputs().ok_or_else(|| failed("a model needs features"))?;
                let encode = |batch: Batch| match self.baseline {
                    Some(baseline) => baseline.beside(&batch, inputs),
                    None => read::encode_batch(&batch, inputs.encoding()),
                };
                let session = permit.open(SecureNoise::new().map_err(AttemptFailure::because)?, |_| {
                    Ok::<_, AttemptFailure>(lanes.map(|batch| vec![encode(batch)]))
                })?;
                train_and_test(session, self.recipe, self.cost, &self.attempt, 1, &Unobserved)?
            }
        };
        // The files of a release include a prediction by its graph.
        let AttemptResult { product, .. } = result;
        artefact(product, &self.receipt()).map(|_| ())
    }

    /// A permit for a block of a ledger in memory, charged what an attempt is charged.
    fn permit(&self) -> Result<Permit, AttemptFailure> {
        let mut gate = Gate::open(MemoryLog::default()).map_err(AttemptFailure::because)?;
        let policy = Policy::single(self.filter.clone(), AccessModes::EnforcedOnly);
        let stream = gate.create_stream(0, "rehearsal", policy).map_err(AttemptFailure::because)?;
        gate.add_blocks(0, stream, vec!["synthetic".to_owned()]).map_err(AttemptFailure::because)?;
        let request = Request {
            key: RequestKey::from_text("rehearsal"),
            stream,
            context: ContextId(0),
            blocks: Blocks::range(0, 0).map_err(AttemptFailure::because)?,
            costs: self.cost.costs.clone(),
            access: AccessMode::Enforced,
            purpose: "rehearsal".to_owned(),
        };
        let outcome = gate.charge(0, vec![request]).map_err(AttemptFailure::because)?.pop();
        let Some(ChargeOutcome::Granted(grant)) = outcome else {
            return Err(AttemptFailure("its cost exceeds the ceiling of a new block".to_owned()));
        };
        gate.start(0, grant).map_err(AttemptFailure::because)
    }

    fn receipt(&self) -> Receipt {
        let Pipeline { name, stream, context, .. } = self.recipe.pipeline();
        Receipt {
            pipeline: name.clone(),
            run: 0,
            attempt: 1,
            attempts: 1,
            by: "rehearsal".to_owned(),
            stream: stream.clone(),
            context: context.clone(),
            blocks: Vec::new(),
            filter: self.filter.rule().to_string(),
            epsilon: Lane::BOTH.map(|_| "0".to_owned()),
            delta: self.filter.ceiling().delta.to_string(),
            unit: self.file.unit_text().to_owned(),
            access_mode: "enforced".to_owned(),
            charge: 0,
            validator: None,
            target: None,
            confidence: None,
            estimate: None,
            best_constant: None,
        }
    }
}

/// Lets an attempt run to its end.
struct Unobserved;

impl AttemptObserver for Unobserved {
    fn enter(&self, _: Stage) -> Result<(), AttemptFailure> {
        Ok(())
    }

    fn step(&self, _: u32, _: u32) -> Result<(), AttemptFailure> {
        Ok(())
    }
}
