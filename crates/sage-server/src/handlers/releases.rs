//! Releases: every token may read them, and reading costs nothing.

use sage_engine::ReleaseView;
use sage_engine::stream::Role;

use crate::call::{Call, Reply};
use crate::handlers::streams::page;
use crate::problem::Problem;
use crate::views::releases::{Release, ReleaseSummary, ReleasesPage, WithdrawalResult, full_name};
use crate::views::requests::{AliasRequest, WithdrawalRequest};

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Problem> {
    let releases = call.releases();
    let (page, next) = page(call, &releases)?;
    Ok(Reply::json(&ReleasesPage { releases: page.iter().map(ReleaseSummary::from).collect(), next }))
}

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    let release = call.release()?;
    Ok(Reply::json(&Release::read(call.engine(), &release)?))
}

/// A file of a release, checked against its digest.
pub(crate) fn file(call: &Call<'_>) -> Result<Reply, Problem> {
    let (release, path) = (call.release()?, call.part("path"));
    let mut files = call.engine().release_files(&release)?.into_iter();
    let (_, bytes) = files.find(|(name, _)| name == path).ok_or_else(|| {
        let detail = format!("{} has no such file; GET of the release lists them", full_name(&release));
        Problem::missing(detail)
    })?;
    Ok(Reply::new("application/octet-stream", bytes))
}

/// The release of the path, for ML engineers of its stream.
fn engineers_release(call: &Call<'_>) -> Result<ReleaseView, Problem> {
    let release = call.release()?;
    call.require_role(Role::MlEngineer, &release.stream)?;
    Ok(release)
}

pub(crate) fn alias(call: &Call<'_>) -> Result<Reply, Problem> {
    let release = engineers_release(call)?;
    let AliasRequest { alias } = call.request("{\"alias\": \"champion\"}")?;
    call.engine().move_alias(call.who()?, &release, &alias)?;
    call.server.models.clear();
    show(call)
}

pub(crate) fn withdraw(call: &Call<'_>) -> Result<Reply, Problem> {
    let release = engineers_release(call)?;
    let WithdrawalRequest { reason } = call.request("{\"reason\": \"trained on a wrong unit\"}")?;
    if reason.trim().is_empty() || reason.len() > 1000 {
        return Err(Problem::unfit("\"reason\" is a text of 1 to 1000 bytes, for the users of the release"));
    }
    call.engine().withdraw(call.who()?, &release, &reason)?;
    call.server.models.clear();
    Ok(Reply::json(&WithdrawalResult { release: full_name(&release), withdrawn: reason }))
}
