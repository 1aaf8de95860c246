//! Which events of the log somebody wants: of a stream, of some kinds, by somebody, within a time.
//!
//! It chooses among events that may be seen, and never decides which those are.

use sage_engine::{EVENT_KINDS, EventView, stream, suggest};
use serde_json::{Value, json};

use crate::failure::quoted;
use crate::runs::instant;

/// What an event must be to be wanted. Nothing wants everything.
#[derive(Debug)]
pub(crate) struct Wanted {
    stream: Option<String>,
    kinds: Vec<String>,
    by: Option<String>,
    /// In milliseconds since 1970, the end not included.
    since: u64,
    until: u64,
}

/// The same as it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked<'text> {
    pub(crate) stream: Option<&'text str>,
    pub(crate) kinds: Vec<&'text str>,
    pub(crate) by: Option<&'text str>,
    pub(crate) since: Option<&'text str>,
    pub(crate) until: Option<&'text str>,
}

impl Wanted {
    /// Reads what is asked for, or says what is wrong with it.
    pub(crate) fn new(asked: &Asked<'_>) -> Result<Self, String> {
        if let Some(kind) = asked.kinds.iter().find(|kind| !EVENT_KINDS.contains(*kind)) {
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
            stream: asked.stream.map(str::to_owned),
            kinds: asked.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            by: asked.by.map(str::to_owned),
            since: time(asked.since, 0)?,
            until: time(asked.until, u64::MAX)?,
        })
    }

    /// Whether an event is wanted.
    pub(crate) fn takes(&self, event: &EventView) -> bool {
        (self.since..self.until).contains(&event.time)
            && self.stream.as_ref().is_none_or(|name| event.stream.as_ref() == Some(name))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == event.kind))
            && self.by.as_ref().is_none_or(|name| event.by.contains(name))
    }
}

/// An event as one line of JSON.
pub(crate) fn line(event: &EventView) -> String {
    format!("{}\n", object(event))
}

fn object(event: &EventView) -> Value {
    let EventView { number, time, kind, stream, run, release, by, file, digest, member } = event;
    json!({
        "number": number, "time": instant(*time), "kind": kind, "stream": stream, "run": run, "release": release,
        "by": by, "file": file, "digest": digest, "member": member,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_wanted_by_what_it_is_and_by_nothing_else() {
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
        let takes = |asked: Asked<'_>| Wanted::new(&asked).expect("it can be meant").takes(&event);
        let nothing = Asked::default;
        for (asked, expected) in [
            (nothing(), true),
            (Asked { stream: Some("taxi"), ..nothing() }, true),
            (Asked { stream: Some("tax"), ..nothing() }, false),
            (Asked { kinds: vec!["charged", "released"], ..nothing() }, true),
            (Asked { kinds: vec!["charged"], ..nothing() }, false),
            (Asked { by: Some("mia"), ..nothing() }, true),
            (Asked { by: Some("ada"), ..nothing() }, false),
            (Asked { since: Some("2026-11-01T08"), ..nothing() }, true),
            (Asked { since: Some("2026-11-01T08:00:01"), ..nothing() }, false),
            (Asked { until: Some("2026-11-01T08"), ..nothing() }, false),
            (Asked { until: Some("2026-11-02"), since: Some("2026-11-01"), ..nothing() }, true),
            (Asked { until: Some("2026-11-01"), since: Some("2026-11-02"), ..nothing() }, false),
        ] {
            let shown = format!("{asked:?}");
            assert_eq!(takes(asked), expected, "{shown}");
        }
        for (asked, said) in [
            (Asked { kinds: vec!["relesed"], ..nothing() }, "did you mean released?"),
            (Asked { kinds: vec!["x"], ..nothing() }, "there are alias-moved"),
            (Asked { since: Some("yesterday"), ..nothing() }, "is no time"),
        ] {
            let wrong = Wanted::new(&asked).expect_err("it cannot be meant");
            assert!(wrong.contains(said), "{wrong}");
        }
    }
}
