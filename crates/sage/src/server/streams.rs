//! Streams, their blocks, and rows that go in.

use sage_engine::ingest::{Format, Source};
use sage_engine::stream::Role;
use sage_engine::{Fed, PolicyOutcome, stream};
use serde_json::{Value, json};

use super::call::{Answer, Call};
use super::problem::Problem;
use crate::blocks::{self, Step};
use crate::{ingest, stream as command};

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
        PolicyOutcome::Waits => "waits for another officer",
    };
    Ok(Answer::json(&json!({"policy": word})))
}

/// Agrees to a policy that another officer has proposed.
pub(super) fn approve(call: &Call<'_>) -> Result<Answer, Problem> {
    call.must_be(Role::PrivacyOfficer, call.part("stream"))?;
    call.engine().approve_policy(call.who()?, call.part("stream"))?;
    Ok(Answer::json(&json!({"policy": "in force"})))
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
        let instant = stream::time_of(text)
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
        Fed::Before => Answer::json(&json!({"batch": batch, "taken": false})),
        Fed::Taken(report) => Answer::created(&ingest::object(batch, &report)),
    })
}
