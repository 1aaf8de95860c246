//! Submitting pipelines, and listing, showing and stopping runs.

use sage_engine::pipeline::Pipeline;
use sage_engine::stream::Role;

use crate::call::{Call, Reply};
use crate::handlers::streams::page;
use crate::problem::Problem;
use crate::submissions::Submission;
use crate::views::plan::Plan;
use crate::views::runs::{Run, RunSummary, RunsPage};

/// The runs on streams that the caller has a role on, the oldest first.
pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Problem> {
    let stream = call.query_value("stream");
    let mut seen = call.engine().runs();
    seen.retain(|run| call.sees(&run.stream) && stream.is_none_or(|stream| stream == run.stream));
    let (page, next) = page(call, &seen)?;
    let runs = page.iter().map(|run| RunSummary::new(call.engine(), run)).collect();
    Ok(Reply::json(&RunsPage { runs, next }))
}

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    Ok(Reply::json(&Run::read(call.engine(), call.run()?.number)?))
}

/// The pipeline in the body, from a caller who may run one on its stream.
fn pipeline<'call>(call: &'call Call<'_>) -> Result<&'call str, Problem> {
    let text = call.text()?;
    let pipeline = Pipeline::parse(text).map_err(sage_engine::EngineError::PipelineFile)?;
    call.require_role(Role::MlEngineer, &pipeline.stream)?;
    Ok(text)
}

pub(crate) fn submit(call: &Call<'_>) -> Result<Reply, Problem> {
    let text = pipeline(call)?;
    submit_pipeline(call, &Submission { text, code: None, sent: &call.body })
}

/// Submits a pipeline that the caller may submit, and returns its run.
pub(crate) fn submit_pipeline(call: &Call<'_>, submission: &Submission<'_>) -> Result<Reply, Problem> {
    let key = call.header("idempotency-key");
    let shown = call.shown();
    let (run, new) = call.server.submissions.submit(call.engine(), call.who()?, key, submission, &shown)?;
    call.server.wake();
    let view = Run::read(call.engine(), run)?;
    let mut reply = if new { Reply::created(&view) } else { Reply::json(&view) };
    reply.headers.push(("location", format!("/v1/runs/{run}")));
    Ok(reply)
}

pub(crate) fn cancel(call: &Call<'_>) -> Result<Reply, Problem> {
    let run = call.run()?;
    if call.require_role(Role::PrivacyOfficer, &run.stream).is_err() {
        call.require_role(Role::MlEngineer, &run.stream)?;
    }
    call.engine().stop_run(call.who()?, run.number)?;
    Ok(Reply::json(&Run::read(call.engine(), run.number)?))
}

pub(crate) fn plan(call: &Call<'_>) -> Result<Reply, Problem> {
    let preview = call.engine().preview_shown(call.who()?, pipeline(call)?, &call.shown())?;
    Ok(Reply::json(&Plan::from(&preview)))
}
