//! A filter of log events by stream, kind, user and time.
//!
//! It selects among events that the caller may see, and never decides which those are.

use sage_engine::{EVENT_KINDS, EventView, stream, suggest};

use crate::format::quoted;

/// A filter of events. An empty filter matches all events.
#[derive(Debug)]
pub struct EventFilter {
    stream: Option<String>,
    kinds: Vec<String>,
    by: Option<String>,
    /// In milliseconds since 1970, the end not included.
    since: u64,
    until: u64,
}

/// The parameters of a filter, as text.
#[derive(Debug, Default)]
pub struct EventQuery<'text> {
    /// The stream.
    pub stream: Option<&'text str>,
    /// Kinds of events; empty: all.
    pub kinds: Vec<&'text str>,
    /// A user behind the event.
    pub by: Option<&'text str>,
    /// The first time.
    pub since: Option<&'text str>,
    /// The time before which the event happened.
    pub until: Option<&'text str>,
}

impl EventFilter {
    /// Parses the parameters.
    ///
    /// # Errors
    /// With a message for the user when a kind or a time cannot be read.
    pub fn new(query: &EventQuery<'_>) -> Result<Self, String> {
        if let Some(kind) = query.kinds.iter().find(|kind| !EVENT_KINDS.contains(*kind)) {
            let meant = suggest::nearest(kind, EVENT_KINDS).map_or_else(
                || format!("there are {}", EVENT_KINDS.join(", ")),
                |meant| format!("did you mean {meant}?"),
            );
            return Err(format!("{} is no kind of event; {meant}", quoted(kind)));
        }
        let time = |text: Option<&str>, open: u64| match text {
            None => Ok(open),
            Some(text) => {
                stream::parse_time(text).map(|microseconds| u64::try_from(microseconds / 1000).unwrap_or(0)).ok_or_else(
                    || format!("{} is no time; write it like 2026-11-01 or 2026-11-01T08:00 (UTC)", quoted(text)),
                )
            }
        };
        Ok(Self {
            stream: query.stream.map(str::to_owned),
            kinds: query.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            by: query.by.map(str::to_owned),
            since: time(query.since, 0)?,
            until: time(query.until, u64::MAX)?,
        })
    }

    /// Whether an event matches.
    #[must_use]
    pub fn matches(&self, event: &EventView) -> bool {
        (self.since..self.until).contains(&event.time)
            && self.stream.as_ref().is_none_or(|name| event.stream.as_ref() == Some(name))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == event.kind))
            && self.by.as_ref().is_none_or(|name| event.by.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_matches_by_stream_kind_user_and_time() {
        let event = EventView {
            number: 7,
            time: 1_793_520_000_000,
            kind: "released",
            stream: Some("taxi".to_owned()),
            run: Some(1),
            release: None,
            by: vec!["mia".to_owned()],
            file: None,
            digest: None,
            member: None,
        };
        let matches = |query: EventQuery<'_>| EventFilter::new(&query).expect("a valid filter").matches(&event);
        let nothing = EventQuery::default;
        for (query, expected) in [
            (nothing(), true),
            (EventQuery { stream: Some("taxi"), ..nothing() }, true),
            (EventQuery { stream: Some("tax"), ..nothing() }, false),
            (EventQuery { kinds: vec!["charged", "released"], ..nothing() }, true),
            (EventQuery { kinds: vec!["charged"], ..nothing() }, false),
            (EventQuery { by: Some("mia"), ..nothing() }, true),
            (EventQuery { by: Some("ada"), ..nothing() }, false),
            (EventQuery { since: Some("2026-11-01T08"), ..nothing() }, true),
            (EventQuery { since: Some("2026-11-01T08:00:01"), ..nothing() }, false),
            (EventQuery { until: Some("2026-11-01T08"), ..nothing() }, false),
            (EventQuery { until: Some("2026-11-02"), since: Some("2026-11-01"), ..nothing() }, true),
            (EventQuery { until: Some("2026-11-01"), since: Some("2026-11-02"), ..nothing() }, false),
        ] {
            let shown = format!("{query:?}");
            assert_eq!(matches(query), expected, "{shown}");
        }
        for (query, said) in [
            (EventQuery { kinds: vec!["relesed"], ..nothing() }, "did you mean released?"),
            (EventQuery { kinds: vec!["x"], ..nothing() }, "there are alias-moved"),
            (EventQuery { since: Some("yesterday"), ..nothing() }, "is no time"),
        ] {
            let wrong = EventFilter::new(&query).expect_err("an invalid filter");
            assert!(wrong.contains(said), "{wrong}");
        }
    }
}
