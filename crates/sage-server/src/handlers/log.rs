//! Filtering and exporting the events of the log that a caller may see.
//!
//! Events of streams that the caller has no role on are never included. The number of events that one response scans
//! is bounded, so that a long log is exported in pieces and delays no other request.

use std::collections::BTreeSet;

use sage_engine::{Engine, EngineError, EventView};

use crate::call::{Call, Reply};
use crate::event_filter::{EventFilter, EventQuery};
use crate::format::url_segment;
use crate::problem::Problem;
use crate::views::events::json_line;

/// The events that one export scans.
pub(crate) const PIECE: u64 = 100_000;
/// The events that one page scans.
const SCANNED: u64 = 20_000;
/// Events read together.
const AT_A_TIME: u64 = 256;

/// The query parameters of the filter, on pages and in exports.
const FILTERS: [&str; 5] = ["stream", "kind", "by", "since", "until"];

/// A parameter of the filter. Empty fields, as a form sends them, are `None`.
pub(crate) fn filter_value<'call>(call: &'call Call<'_>, name: &str) -> Option<&'call str> {
    call.query_value(name).map(str::trim).filter(|text| !text.is_empty())
}

/// A filter of events, restricted to what the caller may see.
pub(crate) struct EventSelection {
    filter: EventFilter,
    /// The streams that the caller has a role on.
    pub(crate) streams: BTreeSet<String>,
}

impl EventSelection {
    /// Reads the filter from the query. Refuses callers without a role on any stream.
    pub(crate) fn from_query(call: &Call<'_>) -> Result<Self, Problem> {
        let streams: BTreeSet<String> =
            call.engine().stream_names().into_iter().filter(|stream| call.sees(stream)).collect();
        if streams.is_empty() {
            return Err(Problem::forbidden("reading the log needs a role on a stream"));
        }
        let query = EventQuery {
            stream: filter_value(call, "stream"),
            kinds: filter_value(call, "kind").into_iter().collect(),
            by: filter_value(call, "by"),
            since: filter_value(call, "since"),
            until: filter_value(call, "until"),
        };
        Ok(Self { filter: EventFilter::new(&query).map_err(Problem::wrong)?, streams })
    }

    fn matches(&self, event: &EventView) -> bool {
        event.stream.as_ref().is_none_or(|stream| self.streams.contains(stream)) && self.filter.matches(event)
    }

    /// The newest matching events before a number, newest first, and the number down to which the log was scanned.
    pub(crate) fn newest(&self, call: &Call<'_>, before: u64, most: usize) -> Result<(Vec<EventView>, u64), Problem> {
        let end = before.saturating_sub(SCANNED);
        let mut found = Vec::new();
        for event in newest_first(call.engine(), before) {
            let event = event?;
            let number = event.number;
            if number < end {
                break;
            }
            if self.matches(&event) {
                found.push(event);
            }
            if found.len() == most {
                return Ok((found, number));
            }
        }
        Ok((found, end))
    }
}

/// The events before a number, newest first, read lazily in batches.
pub(crate) fn newest_first(engine: &Engine, before: u64) -> impl Iterator<Item = Result<EventView, EngineError>> {
    let mut from = before;
    let read = move || {
        let start = from.saturating_sub(AT_A_TIME);
        let events = (from > start).then(|| engine.events(start, (from - start) as usize));
        from = start;
        events
    };
    std::iter::from_fn(read).flat_map(|events| match events {
        Ok(events) => events.into_iter().rev().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    })
}

/// The filter as the query of an address, after the parameter `first`.
pub(crate) fn query(call: &Call<'_>, first: &str) -> String {
    let fields = FILTERS.iter().filter_map(|name| Some(format!("{name}={}", url_segment(filter_value(call, name)?))));
    let all: Vec<String> = std::iter::once(first.to_owned()).filter(|text| !text.is_empty()).chain(fields).collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
}

/// The events from a number on, as JSON lines. If the log has more events than one response scans, the header `Link`
/// has the address of the next piece.
pub(crate) fn export(call: &Call<'_>) -> Result<Reply, Problem> {
    let selection = EventSelection::from_query(call)?;
    let wrong = |_| Problem::wrong("from must be the number of an event");
    let first = filter_value(call, "from").map_or(Ok(0), str::parse::<u64>).map_err(wrong)?;
    let length = call.engine().log_length()?;
    let end = length.min(first.saturating_add(PIECE));
    let (mut from, mut text) = (first, String::new());
    while from < end {
        let events = call.engine().events(from, usize::try_from((end - from).min(AT_A_TIME)).unwrap_or(0))?;
        let Some(last) = events.last() else { break };
        from = last.number + 1;
        text.extend(events.iter().filter(|event| selection.matches(event)).map(json_line));
    }
    let mut answer = Reply::new("application/x-ndjson", text);
    answer.headers.push(("content-disposition", "attachment; filename=\"sage-log.jsonl\"".to_owned()));
    if end < length {
        answer.headers.push(("link", format!("</v1/log{}>; rel=\"next\"", query(call, &format!("from={end}")))));
    }
    Ok(answer)
}
