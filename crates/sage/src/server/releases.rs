//! What was released: everybody with a token may see it, and it costs nothing.

use sage_engine::ReleaseView;
use sage_engine::stream::Role;
use serde_json::{Value, json};

use super::call::{Answer, Call};
use super::problem::Problem;
use super::streams::page;
use crate::models;

pub(super) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let releases = call.releases();
    let (page, next) = page(call, &releases)?;
    let list: Vec<Value> = page.iter().map(models::summary).collect();
    Ok(Answer::json(&json!({"releases": list, "next": next})))
}

pub(super) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    let release = call.release()?;
    Ok(Answer::json(&models::object(call.engine(), &release)?))
}

/// A file of a release, held against its digest.
pub(super) fn file(call: &Call<'_>) -> Result<Answer, Problem> {
    let (release, wanted) = (call.release()?, call.part("path"));
    let mut files = call.engine().release_files(&release)?.into_iter();
    let (_, bytes) = files.find(|(name, _)| name == wanted).ok_or_else(|| {
        let detail = format!("{} has no such file; its answer lists them", models::full(&release));
        Problem::missing(detail)
    })?;
    Ok(Answer::of("application/octet-stream", bytes))
}

/// Names a version, or takes it from offer.
fn engineers(call: &Call<'_>) -> Result<ReleaseView, Problem> {
    let release = call.release()?;
    call.must_be(Role::MlEngineer, &release.stream)?;
    Ok(release)
}

pub(super) fn alias(call: &Call<'_>) -> Result<Answer, Problem> {
    let (release, asked) = (engineers(call)?, call.object()?);
    let alias = asked["alias"].as_str().ok_or_else(|| Problem::unfit("\"alias\" is the new name, a text"))?;
    call.engine().move_alias(call.who()?, &release, alias)?;
    call.server.models.forget();
    show(call)
}

pub(super) fn withdraw(call: &Call<'_>) -> Result<Answer, Problem> {
    let (release, asked) = (engineers(call)?, call.object()?);
    let reason = asked["reason"].as_str().filter(|reason| !reason.trim().is_empty() && reason.len() <= 1000);
    let reason =
        reason.ok_or_else(|| Problem::unfit("\"reason\" says why, for those who use it, in at most 1000 signs"))?;
    call.engine().withdraw(call.who()?, &release, reason)?;
    call.server.models.forget();
    Ok(Answer::json(&json!({"release": models::full(&release), "withdrawn": reason})))
}
