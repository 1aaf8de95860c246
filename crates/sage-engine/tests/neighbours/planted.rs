//! Leaks that the comparison must find.

use std::fs;

use crate::observe::{Observation, difference, observed};
use crate::pair::{Side, with_bob};
use crate::queries::ask;

/// A product that leaks, and what of it shows.
type Leak = (&'static str, fn(&Side) -> Result<Vec<String>, String>, fn(&Side, &mut Observation));

const SQL: &str = "SELECT count(*), avg(y)";

fn honest(side: &Side) -> Result<Vec<String>, String> {
    ask(side, "planted", SQL)
}

fn nothing(_: &Side, _: &mut Observation) {}

const LEAKS: &[Leak] = &[
    (
        "a failure",
        |side| if side.with_row { Err("failed; the charge stands".to_owned()) } else { honest(side) },
        nothing,
    ),
    ("the text of a failure", |side| Err(format!("row {} is bad", u8::from(side.with_row))), nothing),
    (
        "a line more",
        |side| {
            honest(side).map(|mut lines| {
                lines.extend(side.with_row.then(String::new));
                lines
            })
        },
        nothing,
    ),
    (
        "another word",
        |side| {
            honest(side).map(|mut lines| {
                lines.push(if side.with_row { "too few rows" } else { "enough rows" }.to_owned());
                lines
            })
        },
        nothing,
    ),
    (
        "a file",
        |side| {
            if side.with_row {
                fs::write(side.path().join("spill"), "").expect("a file");
            }
            honest(side)
        },
        nothing,
    ),
    (
        "a charge more",
        |side| {
            let first = honest(side);
            if side.with_row { ask(side, "again", SQL) } else { first }
        },
        nothing,
    ),
    ("the order of events", honest, |side, seen| {
        if side.with_row {
            seen.events.reverse()
        }
    }),
    ("an event less", honest, |side, seen| {
        if side.with_row {
            seen.events.pop();
        }
    }),
    ("a field of an event", honest, |side, seen| {
        if let Some(last) = seen.events.last_mut().filter(|_| side.with_row) {
            *last = last.replace("\"charge\":", "\"rows\":");
        }
    }),
    ("a stage of an attempt", honest, |side, seen| seen.progress.extend(side.with_row.then(|| "Reading".to_owned()))),
    (
        "the size of a file",
        |side| {
            let size = if side.with_row { 2 } else { 1 };
            fs::write(side.path().join("exact"), vec![0; size]).expect("a file");
            honest(side)
        },
        nothing,
    ),
];

pub(crate) fn every_planted_leak_is_found() {
    for (name, product, change) in LEAKS {
        let sides = with_bob(20);
        let [one, two] = [0, 1].map(|side| {
            let mut seen = observed(&sides[side], product);
            change(&sides[side], &mut seen);
            seen
        });
        let found = difference(&one, &two);
        println!("{name}: {found:?}");
        assert!(found.is_some(), "{name} is not found");
    }
    let sides = with_bob(20);
    let [one, two] = [0, 1].map(|side| observed(&sides[side], honest));
    assert_eq!(difference(&one, &two), None, "the honest product has no difference");
}
