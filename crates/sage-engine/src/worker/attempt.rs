//! Performs an attempt: reads rows, trains and tests, and releases what was accepted.
//!
//! The order matters for recovery: the files of a release and the report are durable before the kernel's release, and
//! the note in the log comes last. After a stop in between, the next start finds the report by the digest that the
//! kernel released, or finds the grant burnt.

use sage_kernel::{GrantId, GrantState, Lane};
use sage_learn::encode::Encoded;
use sage_learn::validate::Decision;

use crate::adapt::{End, Phase};
use crate::api::policy::{found, paying};
use crate::api::{Engine, EngineError, lock, submit};
use crate::catalog::{Run, Step};
use crate::pipeline::Train;
use crate::quiet;
use crate::read::{self, Batch, ReadError};
use crate::release::{self, Artefact, Receipt};
use crate::run::{
    AttemptFailure, AttemptObserver, AttemptResult, Interval, Product, Report, Stage, block_sums, compute, summarise,
    train_and_test,
};
use crate::threads;
use crate::worker::Granted;
use crate::worker::crash::{Work, Working};
use crate::worker::progress::Watcher;
use crate::worker::run_loop::Job;

impl Engine {
    /// Performs an attempt and records how it ended. A failed attempt is recorded as lost and its charge stands; this
    /// is not an error.
    ///
    /// # Errors
    /// When the log or the artifact store fails.
    pub fn perform(&self, job: Job) -> Result<(), EngineError> {
        let (run, grants) = (job.run, [Some(job.granted.id()), job.tested.as_ref().map(|tested| tested.id())]);
        let watcher = Watcher::new(self, &job);
        let working = self.crash_guard.enter(run, Work::Attempt);
        let ours = !matches!(job.recipe.pipeline().train, Train::Command { .. } | Train::Released { .. });
        let outcome = watcher.enter(Stage::Charged).and_then(|()| self.attempt(job, &watcher, &working));
        drop(working);
        // A reason that a learner or a statistic returns follows from public and released values. Another attempt would
        // be charged for the same reason.
        let repeats = ours && watcher.is_computing() && outcome != Err(AttemptFailure::without_result());
        let settled = self.settle(run, grants, outcome, if repeats { AfterLoss::End } else { AfterLoss::Retry });
        lock(&self.busy).remove(&run);
        if !self.goes_on(run) {
            lock(&self.recipes).remove(&run);
        }
        settled
    }

    /// Records how an attempt ended.
    fn settle(
        &self, run: u64, grants: [Option<GrantId>; 2], outcome: Result<Option<Report>, AttemptFailure>,
        after_loss: AfterLoss,
    ) -> Result<(), EngineError> {
        let reason = match outcome {
            Ok(Some(report)) => return self.step(run, Step::Judged { report }),
            Ok(None) => None,
            Err(AttemptFailure(reason)) => Some(reason),
        };
        for grant in grants.into_iter().flatten() {
            let state = self.with(|gate, _| Ok(gate.ledger().grant_state(grant)))?;
            if state == Some(GrantState::Started) {
                self.burn(grant)?;
            }
        }
        match reason.filter(|_| self.is_running(run)) {
            Some(reason) => {
                self.step(run, Step::Lost { reason })?;
                match after_loss {
                    AfterLoss::End => self.step(run, Step::Ended { end: End::Failing, by: None }),
                    AfterLoss::Retry => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    fn goes_on(&self, run: u64) -> bool {
        let catalog = self.catalog();
        catalog.history().run(run).is_some_and(|own| !matches!(own.state.phase(), Phase::Over(_)))
    }

    pub(crate) fn is_running(&self, run: u64) -> bool {
        let catalog = self.catalog();
        catalog.history().run(run).is_some_and(|own| matches!(own.state.phase(), Phase::Running(_)))
    }

    /// Why a charged attempt must not start: its run was stopped, or the principal who submitted it may no longer
    /// spend.
    fn must_not_begin(&self, run: u64) -> Option<AttemptFailure> {
        let catalog = self.catalog();
        let own = catalog.history().run(run)?;
        if !matches!(own.state.phase(), Phase::Running(_)) {
            return Some(AttemptFailure("the run was stopped before the attempt began".to_owned()));
        }
        let allowed = catalog.stream(&own.pipeline.stream).is_some_and(|known| known.may_spend(own));
        (!allowed).then(|| AttemptFailure("the person who submitted it may no longer spend on the stream".to_owned()))
    }

    /// Everything from the first row to the kernel's release; `None` if the run was stopped meanwhile.
    fn attempt(
        &self, job: Job, watcher: &Watcher<'_>, working: &Working<'_>,
    ) -> Result<Option<Report>, AttemptFailure> {
        let (run, serial) = (job.run, job.attempt.serial);
        let (attempt_cost, grant) = (job.attempt_cost.clone(), job.granted.id());
        let stream = job.recipe.pipeline().stream.clone();
        if let Some(reason) = self.must_not_begin(run) {
            return Err(self.unread([job.granted].into_iter().chain(job.tested), reason));
        }
        let done = quiet::run_on_reader(|| match &job.recipe.pipeline().train {
            Train::Command { .. } => self.own_code(job, watcher),
            Train::Released { .. } => self.again(job, watcher),
            _ => self.ours(job, watcher),
        });
        // A panic message may contain a value of a row, and whether a panic occurred depends on rows.
        let done = done.unwrap_or_else(|| Err(AttemptFailure::without_result()));
        // If the process stops during this wait, the run did not crash it.
        working.pause(|| self.wait_for_disclosure(&stream));
        let AttemptResult { finished, verdict, best_constant, product } = done?;
        if !self.is_running(run) {
            return Ok(None);
        }
        watcher.enter(Stage::Releasing)?;
        let best_constant = best_constant.as_ref().map(Interval::from);
        let mut digest = None;
        let new = !matches!(product, Product::Nothing);
        if verdict.decision == Decision::Accept && new {
            let mut receipt = self.receipt(run, &attempt_cost, grant).map_err(AttemptFailure::from)?;
            if best_constant.is_some() {
                receipt.estimate = verdict.estimates.first().map(Interval::from);
                receipt.best_constant = best_constant;
            }
            let artefact = artefact(product, &receipt)?;
            self.artifacts.put(&artefact).map_err(|error| AttemptFailure(error.to_string()))?;
            digest = Some(artefact.digest);
        }
        let report = Report::new((run, serial), &verdict, best_constant, digest);
        self.artifacts.put_report(&report).map_err(|error| AttemptFailure(error.to_string()))?;
        self.release(finished, report.digest()).map_err(AttemptFailure::from)?;
        Ok(Some(report))
    }

    /// Cancels charges under which no byte was read. The attempt still counts as lost, since it would fail again.
    pub(crate) fn unread(&self, charges: impl IntoIterator<Item = Granted>, reason: AttemptFailure) -> AttemptFailure {
        let cancelled = charges.into_iter().try_for_each(|granted| self.cancel(granted));
        cancelled.map_or_else(AttemptFailure::from, |()| reason)
    }

    /// Tests a released model again.
    fn again(&self, job: Job, observer: &dyn AttemptObserver) -> Result<AttemptResult, AttemptFailure> {
        let Job { attempt, recipe, attempt_cost, granted, .. } = job;
        let (Train::Released { release }, Some(label)) = (&recipe.pipeline().train, recipe.tested()) else {
            return Err(AttemptFailure("this pipeline names no release".to_owned()));
        };
        let predictor = match self.release_named(release).and_then(|release| self.predictor(&release)) {
            Ok(predictor) => predictor,
            Err(error) => return Err(self.unread([granted], AttemptFailure::from(error))),
        };
        observer.enter(Stage::Reading)?;
        let (session, (verdict, best_constant)) =
            self.tested(label, &recipe, &attempt_cost, granted, &predictor, &attempt)?;
        Ok(AttemptResult { finished: session.finish(), verdict, best_constant, product: Product::Nothing })
    }

    /// Performs an attempt with the built-in learners.
    fn ours(&self, job: Job, observer: &dyn AttemptObserver) -> Result<AttemptResult, AttemptFailure> {
        let Job { attempt, recipe, attempt_cost, granted, .. } = job;
        let (query, baseline) = match self.baseline(&recipe) {
            Ok(found) => found,
            Err(error) => return Err(self.unread([granted], AttemptFailure::from(error))),
        };
        observer.enter(Stage::Reading)?;
        match &recipe.pipeline().train {
            Train::Statistic(statistic) => {
                let sum = |permit: &_, part, rows: &[Batch]| summarise(&recipe, statistic, permit, part, rows);
                let what = format!("{statistic:?}");
                let sums = (&Lane::BOTH[..], &sum as &read::SummaryFunction<'_, Batch>);
                let session =
                    self.open_summed(granted, &query, &what, &|batch| batch, sums).map_err(AttemptFailure::from)?;
                compute(session, &recipe, statistic, &attempt_cost, &attempt, observer)
            }
            _ => {
                let Some(inputs) = recipe.inputs() else {
                    return Err(AttemptFailure("a model needs features".to_owned()));
                };
                let encode = |batch: Batch| match &baseline {
                    Some(baseline) => baseline.beside(&batch, inputs),
                    None => read::encode_batch(&batch, inputs.encoding()),
                };
                let session = match block_sums(&recipe, &attempt_cost) {
                    Some(sums) => {
                        let sum = |permit: &_, part, rows: &[Encoded]| sums.sum(permit, part, rows);
                        let summing = (&[Lane::Train][..], &sum as &read::SummaryFunction<'_, Encoded>);
                        self.open_summed(granted, &query, &sums.key(), &encode, summing)
                    }
                    None => self.open_by(granted, &query, &encode),
                };
                let session = session.map_err(AttemptFailure::from)?;
                train_and_test(session, &recipe, &attempt_cost, &attempt, threads(), observer)
            }
        }
    }

    fn receipt(
        &self, run: u64, attempt_cost: &crate::plan::AttemptCost, grant: GrantId,
    ) -> Result<Receipt, EngineError> {
        self.with(|gate, catalog| {
            let own = catalog.history().run(run).ok_or(EngineError::NoRun(run))?;
            let pipeline = &own.pipeline;
            let (id, known) = found(gate, catalog, &pipeline.stream)?;
            let (_, filter) = paying(gate, id, pipeline)?;
            let last = own.last().ok_or(EngineError::NoRun(run))?;
            let key = |index: u32| known.sealed.get(index as usize).cloned().unwrap_or_default();
            let blocks = last.blocks.iter().map(|&(first, last)| match first == last {
                true => key(first),
                false => format!("{} to {}", key(first), key(last)),
            });
            let validate = pipeline.validate.as_ref();
            Ok(Receipt {
                pipeline: pipeline.name.clone(),
                run,
                attempt: last.attempt.serial,
                attempts: own.state.attempts(),
                by: own.by.clone(),
                stream: pipeline.stream.clone(),
                context: pipeline.context.clone(),
                blocks: blocks.collect(),
                filter: filter.rule().to_string(),
                epsilon: submit::lane_losses(filter, &attempt_cost.costs).map(|epsilon| epsilon.to_string()),
                delta: filter.ceiling().delta.to_string(),
                unit: known.file.unit_text().to_owned(),
                access_mode: if matches!(pipeline.train, Train::Command { .. }) { "attested" } else { "enforced" }
                    .to_owned(),
                charge: grant.0,
                validator: validate.map(|validate| validate.metric.kind().title.to_owned()),
                target: validate.map(|_| target(own)),
                confidence: validate.map(|validate| validate.confidence.to_string()),
                estimate: None,
                best_constant: None,
            })
        })
    }
}

/// What follows a lost attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterLoss {
    /// Another attempt, up to a few in a row.
    Retry,
    /// The end of the run.
    End,
}

/// A read error that could depend on rows gets the same reason as every attempt without a result.
impl From<EngineError> for AttemptFailure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Read(ReadError::Failed) => Self::without_result(),
            other => Self(other.to_string()),
        }
    }
}

pub(super) fn artefact(product: Product, receipt: &Receipt) -> Result<Artefact, AttemptFailure> {
    let made = match product {
        Product::Model(graph) => release::model(*graph, receipt),
        Product::Statistic(published) => release::statistic(&published, receipt),
        Product::Nothing => Err("there is nothing new to release".to_owned()),
    };
    made.map_err(AttemptFailure)
}

/// The goal of the first metric, and the further metrics with theirs.
fn target(run: &Run) -> String {
    let Some(validate) = &run.pipeline.validate else { return String::new() };
    let further = validate.also.iter().map(|one| format!("; {} {}", one.metric.kind().title, one.goal_text()));
    validate.goal_text() + &further.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a failed read once had its own message, which distinguished it from an attempt that exceeded its
    /// time.
    #[test]
    fn causes_that_could_depend_on_rows_have_one_reason() {
        let failed = AttemptFailure::from(EngineError::Read(ReadError::Failed));
        assert_eq!(failed, AttemptFailure::without_result());
        assert!(!failed.0.contains("charge"), "{failed:?}");
        let missing = ReadError::Missing { block: "b".to_owned(), file: "f".to_owned() };
        assert_ne!(
            AttemptFailure::from(EngineError::Read(missing)),
            AttemptFailure::without_result(),
            "a missing file is public"
        );
    }
}
