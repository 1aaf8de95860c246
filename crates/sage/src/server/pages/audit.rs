//! The log: what happened last, where it ends, and whether it is what was written.

use sage_engine::log::hexadecimal;
use sage_engine::{EngineError, EventView, GateError};

use super::html::{Life, escaped, facts, page, part, table, time};
use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;

/// How many events are shown at a time.
const SHOWN: u64 = 50;

pub(in crate::server) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    told(call, "")
}

/// Reads the whole log and says whether every event follows the one before.
pub(in crate::server) fn verify(call: &Call<'_>) -> Result<Answer, Problem> {
    entitled(call)?;
    let notice = |kind: &str, text: &str| format!("<p class=\"notice {kind}\" role=\"status\">{text}</p>");
    let found = match call.engine().verify_log() {
        Ok(head) => notice(
            "good",
            &format!(
                "✓ Verified: each of the {} events is the one that was written, up to the head <code>{}</code>.",
                head.length,
                hexadecimal(&head.hash)
            ),
        ),
        Err(EngineError::Gate(GateError::Chain(broken))) => {
            notice("bad", &format!("✕ {}", escaped(&broken.to_string())))
        }
        Err(other) => return Err(other.into()),
    };
    told(call, &found)
}

fn entitled(call: &Call<'_>) -> Result<(), Problem> {
    match call.has_a_role() {
        true => Ok(()),
        false => Err(Problem::forbidden("the log is for those who have a role in a stream")),
    }
}

/// The head of the log, and what happened in streams that the caller may see.
fn told(call: &Call<'_>, found: &str) -> Result<Answer, Problem> {
    entitled(call)?;
    let head = call.engine().snapshot()?.head();
    let before = match call.asked("before") {
        None => head.length,
        Some(text) => text.parse::<u64>().map_err(|_| Problem::wrong("before is the number of an event"))?,
    };
    let before = before.min(head.length);
    let from = before.saturating_sub(SHOWN);
    let mut events = call.engine().events(from, usize::try_from(before - from).unwrap_or(0))?;
    events.retain(|event| event.stream.as_ref().is_none_or(|stream| call.sees(stream)));
    let rows: Vec<Vec<String>> = events.iter().rev().map(row).collect();
    let older = match from {
        0 => String::new(),
        _ => format!("<a href=\"/audit?before={from}\">older events</a>"),
    };
    let newer = match before < head.length {
        true => "<a href=\"/audit\">newest events</a>",
        false => "",
    };
    let content = format!(
        "<p class=\"lead\">Everything that happened is an event of one log, each chained to the one before. Whoever \
         keeps its head can show later that nothing was taken out or changed.</p>{}<form method=\"post\" \
         action=\"/audit\"><button>Verify the log</button> <span class=\"hint\">reads every event again, from the \
         first on</span></form>{found}<h2>Events</h2><p>{newer} {older}</p>{}",
        facts(&[
            ("Events", head.length.to_string()),
            ("Head", format!("<code class=\"long\">{}</code>", hexadecimal(&head.hash))),
        ]),
        table(&["event", "time (UTC)", "what", "stream", "run", "release"], &rows)
    );
    Ok(page(call, Life::Live, "Audit", &content))
}

fn row(event: &EventView) -> Vec<String> {
    let linked = |place: &str, name: &str| format!("<a href=\"/{place}/{}\">{}</a>", part(name), escaped(name));
    vec![
        event.number.to_string(),
        time(event.time),
        event.kind.replace('-', " "),
        event.stream.as_ref().map_or_else(String::new, |stream| linked("streams", stream)),
        event.run.map_or_else(String::new, |run| linked("runs", &run.to_string())),
        event.release.as_deref().map(escaped).unwrap_or_default(),
    ]
}
