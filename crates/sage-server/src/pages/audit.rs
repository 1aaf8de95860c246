//! The audit page: the newest events, the log head, and a button that verifies the hash chain.

use sage_engine::log::hexadecimal;
use sage_engine::{EVENT_KINDS, EngineError, EventView, GateError};

use super::html::{Life, facts, page, table, time};
use crate::call::{Call, Reply};
use crate::format::{escape_html, url_segment};
use crate::handlers::log::{EventSelection, PIECE, filter_value, query};
use crate::problem::Problem;

/// How many events are shown at a time.
const SHOWN: usize = 50;

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    render(call, "")
}

/// Verifies the hash chain of the whole log and shows the result.
pub(crate) fn verify(call: &Call<'_>) -> Result<Reply, Problem> {
    EventSelection::from_query(call)?;
    let notice = |kind: &str, text: &str| format!("<p class=\"notice {kind}\" role=\"status\">{text}</p>");
    let found = match call.engine().verify_log() {
        Ok(_) => {
            let head = call.log_head()?;
            let text = format!(
                "✓ Verified: each of the {} events is unchanged, up to the log head <code>{}</code>.",
                head.length,
                hexadecimal(&head.hash)
            );
            notice("good", &text)
        }
        Err(EngineError::Gate(GateError::Chain(broken))) => {
            notice("bad", &format!("✕ {}", escape_html(&broken.to_string())))
        }
        Err(other) => return Err(other.into()),
    };
    render(call, &found)
}

/// The log head, and the events that the caller may see. `found` is the result of a verification, as HTML.
fn render(call: &Call<'_>, found: &str) -> Result<Reply, Problem> {
    let selection = EventSelection::from_query(call)?;
    let head = call.log_head()?;
    let before = match filter_value(call, "before") {
        None => head.length,
        Some(text) => text.parse::<u64>().map_err(|_| Problem::wrong("before must be the number of an event"))?,
    };
    let before = before.min(head.length);
    let (events, from) = selection.newest(call, before, SHOWN)?;
    let rows: Vec<Vec<String>> = events.iter().map(row).collect();
    let older = match from {
        0 => String::new(),
        _ => format!("<a href=\"/audit{}\">older events</a>", escape_html(&query(call, &format!("before={from}")))),
    };
    let newer = match before < head.length {
        true => format!("<a href=\"/audit{}\">newest events</a>", escape_html(&query(call, ""))),
        false => String::new(),
    };
    let range = match (before, rows.len()) {
        (0, _) => "There are no earlier events.".to_owned(),
        (_, 0) => format!("No event from {from} to {} matches.", before - 1),
        _ => format!("Matching events from {from} to {}.", before - 1),
    };
    let content = format!(
        "<p class=\"lead\">Everything that happens is an event in one log, and each event is chained to the one before. \
         With a copy of the log head, you can show later that no event was removed or changed.</p>{}<form method=\"post\" \
         action=\"/audit\">{}<button>Verify the log</button> <span class=\"hint\">reads every event again, from the \
         first</span></form>{found}<h2>Events</h2>{}<p>{range} {newer} {older}</p>{}<p>Download these events as \
         JSON lines: {}</p>",
        facts(&[
            ("Events", head.length.to_string()),
            ("Log head", format!("<code class=\"long\">{}</code>", hexadecimal(&head.hash))),
        ]),
        call.form_field(),
        form(call, &selection),
        table(&["event", "time (UTC)", "kind", "stream", "run", "release", "by"], &rows),
        exports(call, head.length)
    );
    Ok(page(call, Life::Live, "Audit", &content))
}

/// The form that filters the events.
fn form(call: &Call<'_>, selection: &EventSelection) -> String {
    let given = |name: &str| filter_value(call, name).unwrap_or_default();
    let option = |name: &str, value: &str, label: &str| {
        let here = if given(name) == value { " selected" } else { "" };
        format!("<option value=\"{}\"{here}>{}</option>", escape_html(value), escape_html(label))
    };
    let select = |label: &str, name: &str, options: String| {
        let all = option(name, "", "all");
        format!("<div><label>{label}<br><select name=\"{name}\">{all}{options}</select></label></div>")
    };
    let field = |label: &str, name: &str, hint: &str| {
        let value = escape_html(given(name));
        format!("<div><label>{label}<br><input name=\"{name}\" value=\"{value}\" placeholder=\"{hint}\"></label></div>")
    };
    format!(
        "<form method=\"get\" action=\"/audit\"><div class=\"fields\">{}{}{}{}{}</div><button>Show these</button> <a \
         href=\"/audit\">Show all</a></form>",
        select("Stream", "stream", selection.streams.iter().map(|name| option("stream", name, name)).collect()),
        select("Kind", "kind", EVENT_KINDS.iter().map(|kind| option("kind", kind, &kind.replace('-', " "))).collect()),
        field("By", "by", "everybody"),
        field("Since (UTC)", "since", "2026-11-01"),
        field("Until (UTC)", "until", "2026-11-01T08:00"),
    )
}

/// Download links for the selected events, one per [`PIECE`] events of the log.
fn exports(call: &Call<'_>, length: u64) -> String {
    let pieces = length.div_ceil(PIECE).max(1);
    let link = |piece: u64| {
        let (first, last) = (piece * PIECE, length.min((piece + 1) * PIECE).saturating_sub(1));
        let address = query(call, &format!("from={first}"));
        format!("<a href=\"/v1/log{}\" download>events {first} to {last}</a>", escape_html(&address))
    };
    (0..pieces).map(link).collect::<Vec<String>>().join(", ")
}

fn row(event: &EventView) -> Vec<String> {
    let linked =
        |section: &str, name: &str| format!("<a href=\"/{section}/{}\">{}</a>", url_segment(name), escape_html(name));
    vec![
        event.number.to_string(),
        time(event.time),
        event.kind.replace('-', " "),
        event.stream.as_ref().map_or_else(String::new, |stream| linked("streams", stream)),
        event.run.map_or_else(String::new, |run| linked("runs", &run.to_string())),
        event.release.as_deref().map(escape_html).unwrap_or_default(),
        escape_html(&event.by.join(", ")),
    ]
}
