//! Streams, their blocks, and rows that go in.

use sage_engine::ingest::{Format, Source};
use sage_engine::stream::Role;
use sage_engine::{IngestOutcome, PolicyOutcome, stream};
use serde_json::{Value, json};

use super::call::{Answer, Call};
use super::problem::Problem;
use crate::blocks::{self, Step};
use crate::{census as command_census, ingest, quarantine as aside, stream as command};

/// The streams that the caller has a role in.
pub(super) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let views = call.engine().snapshot()?.streams();
    let seen = views.iter().filter(|view| call.sees(&view.name));
    Ok(Answer::json(&Value::Array(seen.map(command::object).collect())))
}

pub(super) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    let name = call.part("stream");
    let view = call.engine().snapshot()?.stream(name).ok_or_else(|| no_stream(name))?;
    Ok(Answer::json(&command::object(&view)))
}

fn no_stream(name: &str) -> Problem {
    Problem::missing(format!("there is no stream \"{name}\"; list them with GET /v1/streams"))
}

/// Creates the stream that a file describes. The file must name the caller as its officer, and they must be one
/// already, or have been trusted with the machine: otherwise everybody could make themselves one.
pub(super) fn create(call: &Call<'_>) -> Result<Answer, Problem> {
    let caller = call.caller()?;
    let names = call.engine().stream_names();
    let officer = |name: &String| call.engine().roles(&caller.who, name).contains(&Role::PrivacyOfficer);
    if !caller.admin && !names.iter().any(officer) {
        return Err(Problem::forbidden("streams are created by officers of others, and with admin tokens"));
    }
    call.engine().create_stream(call.who()?, call.text()?)?;
    Ok(Answer::created(&json!({"created": true})))
}

/// Has a stream follow a changed file.
pub(super) fn change(call: &Call<'_>) -> Result<Answer, Problem> {
    call.must_be(Role::PrivacyOfficer, call.part("stream"))?;
    let file = stream::StreamFile::parse(call.text()?).map_err(sage_engine::EngineError::from)?;
    if file.name != call.part("stream") {
        return Err(Problem::unfit("the file describes another stream than the one in the address"));
    }
    let outcome = call.engine().change_stream(call.who()?, call.text()?)?;
    let word = match outcome {
        PolicyOutcome::Same => "the same",
        PolicyOutcome::InForce => "in force",
        PolicyOutcome::Withdrawn => "the same, proposal withdrawn",
        PolicyOutcome::Waits => "waits for another officer",
    };
    Ok(Answer::json(&json!({"policy": word})))
}

/// Approves a file that another officer has proposed, by its digest.
pub(super) fn approve(call: &Call<'_>) -> Result<Answer, Problem> {
    call.must_be(Role::PrivacyOfficer, call.part("stream"))?;
    let asked = call.object()?;
    let digest = asked["digest"].as_str();
    let digest = digest.ok_or_else(|| Problem::unfit("\"digest\" is that of the proposal, as the stream shows it"))?;
    call.engine().approve_policy(call.who()?, call.part("stream"), digest)?;
    Ok(Answer::json(&json!({"policy": "in force"})))
}

/// Suspends a member of the stream, or gives them their roles back.
pub(super) fn suspend(call: &Call<'_>) -> Result<Answer, Problem> {
    let stream = call.part("stream");
    call.must_be(Role::PrivacyOfficer, stream)?;
    let asked = call.object()?;
    let member = asked["member"].as_str().ok_or_else(|| Problem::unfit("\"member\" is a name of the stream's file"))?;
    match (asked["do"].as_str(), asked["reason"].as_str()) {
        (Some("suspend"), Some(reason)) => call.engine().suspend(call.who()?, stream, member, reason)?,
        (Some("suspend"), None) => return Err(Problem::unfit("a suspension needs a \"reason\"")),
        (Some("reinstate"), _) => call.engine().reinstate(call.who()?, stream, member)?,
        _ => return Err(Problem::unfit("\"do\" is one of \"suspend\", \"reinstate\"")),
    }
    call.server.wake();
    let view = call.engine().snapshot()?.stream(stream).ok_or_else(|| no_stream(stream))?;
    Ok(Answer::json(&json!({"suspended": view.suspended.iter().map(|(name, _)| name).collect::<Vec<_>>()})))
}

/// Rows that were set aside.
pub(super) fn quarantine(call: &Call<'_>) -> Result<Answer, Problem> {
    let stream = call.part("stream");
    call.must_be(Role::DataEngineer, stream)?;
    Ok(Answer::json(&aside::list(&call.engine().quarantine(call.who()?, stream)?)))
}

/// Releases or erases rows that were set aside.
pub(super) fn step_quarantine(call: &Call<'_>) -> Result<Answer, Problem> {
    let stream = call.part("stream");
    if call.must_be(Role::PrivacyOfficer, stream).is_err() {
        call.must_be(Role::DataEngineer, stream)?;
    }
    let asked = call.object()?;
    let step = match asked["do"].as_str() {
        Some("release") => aside::Step::Release,
        Some("erase") => aside::Step::Erase,
        _ => return Err(Problem::unfit("\"do\" is one of \"release\", \"erase\"")),
    };
    if matches!(step, aside::Step::Release) {
        call.must_be(Role::DataEngineer, stream)?;
    }
    let named = asked["files"].as_array().map_or(&[][..], Vec::as_slice);
    let files: Vec<String> = named.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if files.len() != named.len() || files.is_empty() {
        return Err(Problem::unfit("\"files\" is a list of names, as GET lists them"));
    }
    let done = aside::act(call.engine(), call.who()?, stream, step, &files)?;
    call.server.wake();
    Ok(Answer::json(&done))
}

/// The private counts of a stream's units.
pub(super) fn census(call: &Call<'_>) -> Result<Answer, Problem> {
    let name = call.part("stream");
    let snapshot = call.engine().snapshot()?;
    snapshot.stream(name).ok_or_else(|| no_stream(name))?;
    Ok(Answer::json(&command_census::object(name, snapshot.census(name).as_ref())))
}

/// The blocks of a stream, a page at a time.
pub(super) fn list_blocks(call: &Call<'_>) -> Result<Answer, Problem> {
    let name = call.part("stream");
    let all = call.engine().snapshot()?.blocks(name).ok_or_else(|| no_stream(name))?;
    let (page, next) = page(call, &all)?;
    let list: Vec<Value> = page.iter().map(blocks::object).collect();
    Ok(Answer::json(&json!({"blocks": list, "next": next})))
}

/// The part of a list that `after` and `limit` ask for, and where the next one begins.
pub(super) fn page<'list, T>(call: &Call<'_>, all: &'list [T]) -> Result<(&'list [T], Option<usize>), Problem> {
    const MOST: usize = 1000;
    let number = |name: &str, otherwise: usize| match call.asked(name) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| Problem::wrong(format!("{name} is a whole number"))),
    };
    let (after, limit) = (number("after", 0)?.min(all.len()), number("limit", MOST)?.clamp(1, MOST));
    let end = after.saturating_add(limit).min(all.len());
    Ok((&all[after..end], (end < all.len()).then_some(end)))
}

/// Seals, retires or deletes blocks.
pub(super) fn step_blocks(call: &Call<'_>) -> Result<Answer, Problem> {
    let (name, asked) = (call.part("stream"), call.object()?);
    let (role, step) = match asked["do"].as_str() {
        Some("seal") => (Role::DataEngineer, Step::Seal),
        Some("retire") => (Role::PrivacyOfficer, Step::Retire),
        Some("delete") => (Role::PrivacyOfficer, Step::Delete),
        _ => return Err(Problem::unfit("\"do\" is one of \"seal\", \"retire\", \"delete\"")),
    };
    call.must_be(role, name)?;
    let named = asked["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    let mut keys: Vec<String> = named.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if keys.len() != named.len() {
        return Err(Problem::unfit("\"blocks\" is a list of keys, which are texts"));
    }
    if let Some(text) = asked["before"].as_str() {
        let instant = stream::parse_time(text)
            .ok_or_else(|| Problem::unfit("\"before\" is a time such as 2026-11-01 or 2026-11-01T08:00 (UTC)"))?;
        keys.extend(match step {
            Step::Seal => call.engine().open_before(name, instant)?,
            Step::Retire | Step::Delete => call.engine().over_before(name, instant)?,
        });
    }
    if !keys.is_empty() {
        blocks::act(call.engine(), call.who()?, name, step, &keys)?;
        call.server.wake();
    }
    Ok(Answer::json(&json!({"blocks": keys})))
}

/// Takes in a batch of rows. What became of them is told to the data engineer who sent them, and to nobody else.
pub(super) fn rows(call: &Call<'_>) -> Result<Answer, Problem> {
    let name = call.part("stream");
    call.must_be(Role::DataEngineer, name)?;
    let batch = call.asked("batch").filter(|batch| !batch.is_empty());
    let batch = batch.ok_or_else(|| Problem::wrong("name the batch: ?batch=ID; the same one again has no effect"))?;
    let format = match call.header("content-type").map(|kind| kind.split(';').next().unwrap_or(kind).trim()) {
        Some("text/csv") => Some(Format::Csv),
        Some("application/x-ndjson" | "application/jsonl") => Some(Format::Ndjson),
        Some("application/vnd.apache.arrow.stream") => Some(Format::Arrow),
        _ => None,
    };
    let bytes = std::io::Cursor::new(call.body.clone());
    let source = Source::Pipe { name: "the body".to_owned(), bytes: Box::new(bytes), format };
    let fed = call.engine().ingest(call.who()?, name, batch, source)?;
    call.server.wake();
    Ok(match fed {
        IngestOutcome::Duplicate => Answer::json(&json!({"batch": batch, "taken": false})),
        IngestOutcome::Ingested(report) => Answer::created(&ingest::object(batch, &report)),
    })
}
