//! Leaks that the comparison must find: one change at a time in what was really observed.

use std::collections::BTreeSet;

use super::{Reply, Seen, difference};

type Leak = (&'static str, fn(&mut Seen));

/// The first reply to a command that begins so.
fn reply<'seen>(seen: &'seen mut Seen, what: &str) -> &'seen mut Reply {
    seen.replies.iter_mut().find(|reply| reply.what.starts_with(what)).unwrap_or_else(|| panic!("no reply to {what}"))
}

/// The first reply in JSON to a command that begins so.
fn object<'seen>(seen: &'seen mut Seen, what: &str) -> &'seen mut Reply {
    let json = |reply: &&mut Reply| reply.what.starts_with(what) && reply.out.starts_with(['{', '[']);
    seen.replies.iter_mut().find(json).unwrap_or_else(|| panic!("no JSON of {what}"))
}

fn replace(text: &mut String, from: &str, to: &str) {
    assert!(text.contains(from), "{from:?} is not in {text}");
    *text = text.replacen(from, to, 1);
}

const LEAKS: &[Leak] = &[
    ("an exit code", |seen| reply(seen, "query people").code = 15),
    ("a word of a message", |seen| replace(&mut reply(seen, "query people 'SELECT max").err, "one row", "a row")),
    ("a word of a result", |seen| replace(&mut reply(seen, "submit count").err, "accepted", "released")),
    ("a line on standard error", |seen| reply(seen, "query people").err.push_str("slow\n")),
    ("a line of output", |seen| reply(seen, "runs").out.push('\n')),
    ("an empty cell", |seen| {
        let out = &mut seen.replies.iter_mut().find(|reply| reply.out.contains("+-")).expect("cells").out;
        let cell = out.split_whitespace().rev().nth(2).expect("a number").to_owned();
        replace(out, &cell, "too few rows show");
    }),
    ("an extra group of digits in a cell", |seen| {
        let out = &mut seen.replies.iter_mut().find(|reply| reply.out.contains("+-")).expect("cells").out;
        replace(out, " +- ", " 7 +- ");
    }),
    ("an extra number in a sentence", |seen| replace(&mut reply(seen, "submit count").err, "accept: ", "accept: 600 ")),
    ("a number outside the released ones", |seen| {
        replace(&mut reply(seen, "explain 3").out, "epsilon 1 ", "epsilon 2 ")
    }),
    ("a JSON key", |seen| replace(&mut object(seen, "query people").out, "{", "{\"rows\": 1,")),
    ("a JSON key of a cell", |seen| {
        let cells = seen
            .replies
            .iter_mut()
            .find(|reply| reply.out.contains("\"half_width\"") && reply.out.contains("\"lines\""));
        replace(&mut cells.expect("cells").out, "\"half_width\"", "\"exact\": 1, \"half_width\"");
    }),
    ("a JSON value", |seen| replace(&mut object(seen, "explain 3").out, "\"accept\"", "\"retry\"")),
    ("the type of a JSON value", |seen| {
        let found = object(seen, "features get count");
        let mut value: serde_json::Value = serde_json::from_str(&found.out).expect("JSON");
        value["lines"][0]["value"] = "7".into();
        found.out = value.to_string();
    }),
    ("one more event", |seen| seen.events.push(seen.events[0].clone())),
    ("one event less", |seen| drop(seen.events.pop())),
    ("another order of events", |seen| {
        let last = seen.events.len() - 1;
        seen.events.swap(last, last - 1);
    }),
    ("another kind of event", |seen| {
        let event = seen.events.iter_mut().find(|event| event.contains("query-answered")).expect("an answer");
        replace(event, "query-answered", "burnt");
    }),
    ("one more file", |seen| seen.files.push(("spill".to_owned(), 0))),
    ("one file less", |seen| drop(seen.files.pop())),
    ("another name of a file", |seen| seen.files[0].0.push('x')),
    ("the size of a file", |seen| {
        let file = seen.files.iter_mut().find(|(name, _)| super::slack(name, 0) == 0).expect("a file without noise");
        file.1 += 1;
    }),
    ("one more reply", |seen| seen.replies.push(seen.replies[0].clone())),
];

/// Changes in pages.
const PAGE_LEAKS: &[Leak] = &[
    ("a word of a page", |seen| replace(&mut reply(seen, "GET /runs/1").out, "accept", "retry")),
    ("an extra number on a page of a run", |seen| replace(&mut reply(seen, "GET /runs/1").out, "</h1>", " 7</h1>")),
    ("a number on the page of a stream", |seen| replace(&mut reply(seen, "GET /streams/people").out, "100", "99")),
    ("one more row of a table", |seen| replace(&mut reply(seen, "GET /runs").out, "</tbody>", "<tr></tr></tbody>")),
    ("a plot that is missing", |seen| {
        let out = &mut seen.replies.iter_mut().find(|reply| reply.out.contains("<figure class=\"plot\">"));
        let out = &mut out.as_mut().expect("a plot").out;
        let (before, after) = out.split_once("<figure class=\"plot\">").expect("a plot");
        let (_, after) = after.split_once("</figure>").expect("an end");
        *out = format!("{before}{after}");
    }),
    ("a header of a page", |seen| reply(seen, "GET /releases").err.push_str("\nx-rows: 3000")),
];

pub(super) fn every_planted_leak_is_found(honest: &Seen) {
    every_leak_is_found(LEAKS, honest);
}

pub(super) fn every_planted_leak_in_a_page_is_found(honest: &Seen) {
    every_leak_is_found(PAGE_LEAKS, honest);
}

fn every_leak_is_found(leaks: &[Leak], honest: &Seen) {
    assert_eq!(difference(honest, honest, &mut BTreeSet::new()), None);
    for (name, leak) in leaks {
        let mut leaking = honest.clone();
        leak(&mut leaking);
        let found = difference(honest, &leaking, &mut BTreeSet::new());
        assert!(found.is_some(), "{name} is not found");
    }
}
