//! Pipelines go in, and their runs are looked at and stopped.

use sage_engine::pipeline::Pipeline;
use sage_engine::stream::Role;
use serde_json::{Value, json};

use super::call::{Answer, Call};
use super::problem::Problem;
use super::requests::Submission;
use super::streams::page;
use crate::{explain, plan, runs};

/// The runs on streams that the caller has a role in, the oldest first.
pub(super) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let mut seen = call.engine().runs();
    seen.retain(|run| call.sees(&run.stream) && call.asked("stream").is_none_or(|stream| stream == run.stream));
    let (page, next) = page(call, &seen)?;
    let list: Vec<Value> = page.iter().map(|run| runs::summary(call.engine(), run)).collect();
    Ok(Answer::json(&json!({"runs": list, "next": next})))
}

pub(super) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    Ok(Answer::json(&explain::object(call.engine(), call.run()?.number)?))
}

/// The pipeline that was sent, from somebody who may run one on its stream.
fn pipeline<'call>(call: &'call Call<'_>) -> Result<&'call str, Problem> {
    let text = call.text()?;
    let pipeline = Pipeline::parse(text).map_err(sage_engine::EngineError::PipelineFile)?;
    call.must_be(Role::MlEngineer, &pipeline.stream)?;
    Ok(text)
}

pub(super) fn submit(call: &Call<'_>) -> Result<Answer, Problem> {
    let text = pipeline(call)?;
    submitted(call, &Submission { text, code: None, sent: &call.body })
}

/// Submits what may be submitted, and tells of its run.
pub(super) fn submitted(call: &Call<'_>, submission: &Submission<'_>) -> Result<Answer, Problem> {
    let key = call.header("idempotency-key");
    let shown = call.shown();
    let (run, new) = call.server.requests.submit(call.engine(), call.who()?, key, submission, &shown)?;
    call.server.wake();
    let object = explain::object(call.engine(), run)?;
    let mut answer = if new { Answer::created(&object) } else { Answer::json(&object) };
    answer.headers.push(("location", format!("/v1/runs/{run}")));
    Ok(answer)
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Answer, Problem> {
    let run = call.run()?;
    if call.must_be(Role::PrivacyOfficer, &run.stream).is_err() {
        call.must_be(Role::MlEngineer, &run.stream)?;
    }
    call.engine().stop_run(call.who()?, run.number)?;
    Ok(Answer::json(&explain::object(call.engine(), run.number)?))
}

pub(super) fn plan(call: &Call<'_>) -> Result<Answer, Problem> {
    let preview = call.engine().preview_shown(call.who()?, pipeline(call)?, &call.shown())?;
    Ok(Answer::json(&plan::object(&preview)))
}
