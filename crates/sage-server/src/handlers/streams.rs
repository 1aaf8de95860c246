//! Streams, their blocks, and batches of rows.

use sage_engine::ingest::{Format, Source};
use sage_engine::stream;
use sage_engine::stream::Role;

use crate::call::{Call, Reply};
use crate::problem::Problem;
use crate::views::census::Census;
use crate::views::ingest::IngestResult;
use crate::views::quarantine::{self, QuarantinedFile};
use crate::views::requests::{
    ApprovalRequest, BlocksAction, BlocksRequest, MemberAction, MemberRequest, QuarantineAction, QuarantineRequest,
};
use crate::views::streams::{
    Block, BlocksPage, BlocksResult, CreatedStream, PolicyState, PolicyWord, Stream, SuspendedMembers, apply,
    ended_before,
};

/// The streams that the caller has a role in.
pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Problem> {
    let views = call.engine().snapshot()?.streams();
    let seen: Vec<Stream> = views.iter().filter(|view| call.sees(&view.name)).map(Stream::from).collect();
    Ok(Reply::json(&seen))
}

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    let name = call.part("stream");
    let view = call.engine().snapshot()?.stream(name).ok_or_else(|| no_stream(name))?;
    Ok(Reply::json(&Stream::from(&view)))
}

fn no_stream(name: &str) -> Problem {
    Problem::missing(format!("there is no stream \"{name}\"; list them with GET /v1/streams"))
}

/// Creates the stream that a file describes. The file must name the caller as its officer, and they must be one
/// already, or have been trusted with the machine: otherwise everybody could make themselves one.
pub(crate) fn create(call: &Call<'_>) -> Result<Reply, Problem> {
    let caller = call.caller()?;
    let names = call.engine().stream_names();
    let officer = |name: &String| call.engine().roles(&caller.who, name).contains(&Role::PrivacyOfficer);
    if !caller.admin && !names.iter().any(officer) {
        return Err(Problem::forbidden("streams are created by officers of others, and with admin tokens"));
    }
    call.engine().create_stream(call.who()?, call.text()?)?;
    Ok(Reply::created(&CreatedStream { created: true }))
}

/// Has a stream follow a changed file.
pub(crate) fn change(call: &Call<'_>) -> Result<Reply, Problem> {
    call.require_role(Role::PrivacyOfficer, call.part("stream"))?;
    let file = stream::StreamFile::parse(call.text()?).map_err(sage_engine::EngineError::from)?;
    if file.name != call.part("stream") {
        return Err(Problem::unfit("the file describes another stream than the one in the address"));
    }
    let outcome = call.engine().change_stream(call.who()?, call.text()?)?;
    Ok(Reply::json(&PolicyState::from(outcome)))
}

/// Approves a file that another officer has proposed, by its digest.
pub(crate) fn approve(call: &Call<'_>) -> Result<Reply, Problem> {
    call.require_role(Role::PrivacyOfficer, call.part("stream"))?;
    let ApprovalRequest { digest } = call.request("{\"digest\": \"...\"}, as the stream shows it")?;
    call.engine().approve_policy(call.who()?, call.part("stream"), &digest)?;
    Ok(Reply::json(&PolicyState { policy: PolicyWord::InForce }))
}

/// Suspends a member of the stream, or gives them their roles back.
pub(crate) fn suspend(call: &Call<'_>) -> Result<Reply, Problem> {
    let stream = call.part("stream");
    call.require_role(Role::PrivacyOfficer, stream)?;
    let MemberRequest { action, member, reason } =
        call.request("{\"do\": \"suspend\" or \"reinstate\", \"member\": \"mia\", \"reason\": \"left the team\"}")?;
    match (action, reason) {
        (MemberAction::Suspend, Some(reason)) => call.engine().suspend(call.who()?, stream, &member, &reason)?,
        (MemberAction::Suspend, None) => return Err(Problem::unfit("a suspension needs a \"reason\"")),
        (MemberAction::Reinstate, _) => call.engine().reinstate(call.who()?, stream, &member)?,
    }
    call.server.wake();
    let view = call.engine().snapshot()?.stream(stream).ok_or_else(|| no_stream(stream))?;
    Ok(Reply::json(&SuspendedMembers { suspended: Stream::from(&view).suspended }))
}

/// Rows that were set aside.
pub(crate) fn quarantine(call: &Call<'_>) -> Result<Reply, Problem> {
    let stream = call.part("stream");
    call.require_role(Role::DataEngineer, stream)?;
    let files = call.engine().quarantine(call.who()?, stream)?;
    Ok(Reply::json(&files.iter().map(QuarantinedFile::from).collect::<Vec<_>>()))
}

/// Releases or erases rows that were set aside.
pub(crate) fn step_quarantine(call: &Call<'_>) -> Result<Reply, Problem> {
    let stream = call.part("stream");
    if call.require_role(Role::PrivacyOfficer, stream).is_err() {
        call.require_role(Role::DataEngineer, stream)?;
    }
    let QuarantineRequest { action, files } =
        call.request("{\"do\": \"release\" or \"erase\", \"files\": [names, as GET lists them]}")?;
    if action == QuarantineAction::Release {
        call.require_role(Role::DataEngineer, stream)?;
    }
    if files.is_empty() {
        return Err(Problem::unfit("\"files\" is empty; name files as GET lists them"));
    }
    let done = quarantine::apply(call.engine(), call.who()?, stream, action, &files)?;
    call.server.wake();
    Ok(Reply::json(&done))
}

/// The private counts of a stream's units.
pub(crate) fn census(call: &Call<'_>) -> Result<Reply, Problem> {
    let name = call.part("stream");
    let snapshot = call.engine().snapshot()?;
    snapshot.stream(name).ok_or_else(|| no_stream(name))?;
    Ok(Reply::json(&Census::new(name, snapshot.census(name).as_ref())))
}

/// The blocks of a stream, a page at a time.
pub(crate) fn list_blocks(call: &Call<'_>) -> Result<Reply, Problem> {
    let name = call.part("stream");
    let all = call.engine().snapshot()?.blocks(name).ok_or_else(|| no_stream(name))?;
    let (page, next) = page(call, &all)?;
    Ok(Reply::json(&BlocksPage { blocks: page.iter().map(Block::from).collect(), next }))
}

/// The part of a list that `after` and `limit` ask for, and where the next one begins.
pub(crate) fn page<'list, T>(call: &Call<'_>, all: &'list [T]) -> Result<(&'list [T], Option<u64>), Problem> {
    const MOST: usize = 1000;
    let number = |name: &str, otherwise: usize| match call.query_value(name) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| Problem::wrong(format!("{name} is a whole number"))),
    };
    let (after, limit) = (number("after", 0)?.min(all.len()), number("limit", MOST)?.clamp(1, MOST));
    let end = after.saturating_add(limit).min(all.len());
    Ok((&all[after..end], (end < all.len()).then_some(end as u64)))
}

/// Seals, retires or deletes blocks.
pub(crate) fn step_blocks(call: &Call<'_>) -> Result<Reply, Problem> {
    let name = call.part("stream");
    let BlocksRequest { action, blocks: mut keys, before } =
        call.request("{\"do\": \"seal\", \"retire\" or \"delete\", \"blocks\": [keys], \"before\": \"2026-11-01\"}")?;
    let role = match action {
        BlocksAction::Seal => Role::DataEngineer,
        BlocksAction::Retire | BlocksAction::Delete => Role::PrivacyOfficer,
    };
    call.require_role(role, name)?;
    if let Some(text) = before {
        let time = stream::parse_time(&text)
            .ok_or_else(|| Problem::unfit("\"before\" is a time such as 2026-11-01 or 2026-11-01T08:00 (UTC)"))?;
        keys.extend(ended_before(call.engine(), name, action, time)?);
    }
    if !keys.is_empty() {
        apply(call.engine(), call.who()?, name, action, &keys)?;
        call.server.wake();
    }
    Ok(Reply::json(&BlocksResult { blocks: keys }))
}

/// Ingests a batch of rows. What became of them is reported to the data engineer who sent them, and to nobody else.
pub(crate) fn rows(call: &Call<'_>) -> Result<Reply, Problem> {
    let name = call.part("stream");
    call.require_role(Role::DataEngineer, name)?;
    let batch = call.query_value("batch").filter(|batch| !batch.is_empty());
    let batch = batch.ok_or_else(|| Problem::wrong("name the batch: ?batch=ID; the same one again has no effect"))?;
    let format = match call.header("content-type").map(|kind| kind.split(';').next().unwrap_or(kind).trim()) {
        Some("text/csv") => Some(Format::Csv),
        Some("application/x-ndjson" | "application/jsonl") => Some(Format::Ndjson),
        Some("application/vnd.apache.arrow.stream") => Some(Format::Arrow),
        _ => None,
    };
    let bytes = std::io::Cursor::new(call.body.clone());
    let source = Source::Pipe { name: "the body".to_owned(), bytes: Box::new(bytes), format };
    let outcome = call.engine().ingest(call.who()?, name, batch, source)?;
    call.server.wake();
    let result = IngestResult::new(batch, &outcome);
    Ok(if result.taken { Reply::created(&result) } else { Reply::json(&result) })
}
