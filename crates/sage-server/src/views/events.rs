//! Events of the log.

use sage_engine::{EventView, ProgressView};
use serde::{Deserialize, Serialize};

use crate::format::timestamp;

/// An event with everything that the log has about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEvent {
    /// Its number in the log.
    pub number: u64,
    /// When it happened.
    pub time: String,
    /// What kind of event it is.
    pub kind: String,
    /// The stream.
    pub stream: Option<String>,
    /// The run.
    pub run: Option<u64>,
    /// The release.
    pub release: Option<String>,
    /// The people behind it, as far as the event names them.
    pub by: Vec<String>,
    /// The file that it names.
    pub file: Option<String>,
    /// The digest that it names.
    pub digest: Option<String>,
    /// The member that it names.
    pub member: Option<String>,
}

impl From<&EventView> for LogEvent {
    fn from(event: &EventView) -> Self {
        let EventView { number, time, kind, stream, run, release, by, file, digest, member } = event.clone();
        Self { number, time: timestamp(time), kind: kind.to_owned(), stream, run, release, by, file, digest, member }
    }
}

/// An event as one line of JSON.
#[must_use]
pub fn json_line(event: &EventView) -> String {
    let text = serde_json::to_string(&LogEvent::from(event)).unwrap_or_default();
    format!("{text}\n")
}

/// An event as it is streamed to members of its stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamedEvent<'event> {
    number: u64,
    time: String,
    kind: &'event str,
    stream: Option<&'event str>,
    run: Option<u64>,
    release: Option<&'event str>,
}

impl<'event> From<&'event EventView> for StreamedEvent<'event> {
    fn from(event: &'event EventView) -> Self {
        Self {
            number: event.number,
            time: timestamp(event.time),
            kind: event.kind,
            stream: event.stream.as_deref(),
            run: event.run,
            release: event.release.as_deref(),
        }
    }
}

/// A change of a release as it is streamed to users without a role on its stream: without a time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PublicEvent<'event> {
    pub(crate) number: u64,
    pub(crate) kind: &'event str,
    pub(crate) release: &'event str,
}

/// How far an attempt is, streamed to members of its stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Progress<'event> {
    time: String,
    kind: &'static str,
    stream: &'event str,
    run: u64,
    attempt: u32,
    stage: &'static str,
    percent: Option<u8>,
}

impl<'event> From<&'event ProgressView> for Progress<'event> {
    fn from(progress: &'event ProgressView) -> Self {
        let ProgressView { time, stream, run, attempt, stage, percent, .. } = progress;
        Self {
            time: timestamp(*time),
            kind: "progress",
            stream,
            run: *run,
            attempt: *attempt,
            stage: stage.word(),
            percent: *percent,
        }
    }
}
