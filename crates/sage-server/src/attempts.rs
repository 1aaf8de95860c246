//! Performs attempts and reports them on standard error.

use sage_engine::{Engine, EngineError, Job};

use crate::diagnostics::note;
use crate::views::runs::{attempt_text, verdict_text};

/// Performs one attempt, and reports its start and its end on standard error.
///
/// # Errors
/// When the log or the files of the directory cannot be used.
pub fn perform(engine: &Engine, job: Job) -> Result<(), EngineError> {
    report_start(engine, &job)?;
    let run = job.run();
    engine.perform(job)?;
    report_end(engine, run);
    Ok(())
}

fn report_start(engine: &Engine, job: &Job) -> Result<(), EngineError> {
    let Some(run) = engine.run(job.run()) else { return Ok(()) };
    let losses = engine.attempt_losses(run.number)?;
    if let (Some(attempt), Some(loss)) = (run.attempts.last(), losses.last()) {
        note(&format!("run {} ({}), {}", run.number, run.pipeline, attempt_text(attempt, *loss)));
    }
    Ok(())
}

fn report_end(engine: &Engine, number: u64) {
    let Some(run) = engine.run(number) else { return };
    if let Some(attempt) = run.attempts.last() {
        let index = attempt.attempt.index;
        note(&format!("run {number} ({}), attempt {index}: {}", run.pipeline, verdict_text(attempt)));
    }
}
