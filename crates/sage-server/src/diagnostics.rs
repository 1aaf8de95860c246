//! Messages on standard error: text for people, or one JSON object on each line for programs.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::clock::now;
use crate::format::timestamp;

/// How messages are written to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Sentences for people.
    Text,
    /// One JSON object on each line.
    Json,
}

/// Whether messages are JSON. One for the process, as its standard error is.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the format of all further messages.
pub fn set_format(format: LogFormat) {
    AS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Whether messages are JSON.
#[must_use]
pub fn is_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// Writes a message to standard error.
pub fn note(text: &str) {
    if is_json() {
        return record("talk", &Message { message: text });
    }
    // Nothing can be reported if standard error is closed.
    drop(writeln!(io::stderr(), "{text}"));
}

/// A line of the JSON log: the kind of the event, its own fields and the time.
#[derive(Serialize)]
struct LogLine<'event, Fields> {
    event: &'event str,
    #[serde(flatten)]
    fields: &'event Fields,
    time: String,
}

/// The fields of a message for people.
#[derive(Serialize)]
struct Message<'text> {
    message: &'text str,
}

/// Writes one JSON object to standard error: the fields, with the time and the kind of the event.
pub fn record(event: &str, fields: &impl Serialize) {
    // A line that cannot be written is dropped, as everywhere in this module.
    if let Ok(line) = serde_json::to_string(&LogLine { event, fields, time: timestamp(now()) }) {
        drop(writeln!(io::stderr(), "{line}"));
    }
}
