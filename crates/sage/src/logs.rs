//! `sage logs`: what a run did, step by step, and what a program of its author's printed, for its author.

use clap::Args;
use sage_engine::{Engine, EngineError, EventView};
use serde_json::{Value, json};

use crate::explain::{attempt_text, verdict_text};
use crate::failure::Failure;
use crate::output::{print, print_json, tell};
use crate::place::{PlaceArgs, WhoArgs};
use crate::runs::instant;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage logs 3
  sage logs 3 --as mia --json

What a program of its author's printed can hold what it saw, so it is shown to whoever submitted the run and has the role
of an ML engineer, and to nobody else. Only its end is kept.";

#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The run's number
    run: u64,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many events are read at a time.
const AT_ONCE: usize = 10_000;

pub(crate) fn run(asked: &LogsArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let steps = steps(&engine, asked.run)?;
    let printed = match engine.printed(&asked.who.principal()?, asked.run) {
        Ok(printed) => printed,
        Err(EngineError::NotInRole { .. }) => {
            tell("what a program of its author's printed is for the one who submitted it alone");
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    engine.close()?;
    if asked.json {
        let steps = steps.iter().map(|(event, detail)| {
            json!({"number": event.number, "time": instant(event.time), "kind": event.kind, "detail": detail})
        });
        let printed = printed.iter().map(|(attempt, text)| json!({"attempt": attempt, "text": text}));
        let (steps, printed): (Vec<Value>, Vec<Value>) = (steps.collect(), printed.collect());
        return print_json(&json!({"run": asked.run, "steps": steps, "printed": printed}));
    }
    let mut text = String::new();
    for (event, detail) in &steps {
        let line = format!("{}  {:17}  {}", instant(event.time), event.kind, detail.as_deref().unwrap_or_default());
        text += &format!("{}\n", line.trim_end());
    }
    for (attempt, said) in &printed {
        text += &format!("attempt {attempt} printed:\n{said}");
        if !said.ends_with('\n') {
            text.push('\n');
        }
    }
    print(&text)
}

/// The events of a run, each with what is known of it.
fn steps(engine: &Engine, number: u64) -> Result<Vec<(EventView, Option<String>)>, Failure> {
    let run = engine.run(number).ok_or(EngineError::NoRun(number))?;
    let losses = engine.attempt_losses(number)?;
    let mut found = Vec::new();
    let (mut from, mut chosen) = (0, 0usize);
    loop {
        let events = engine.events(from, AT_ONCE)?;
        from += events.len() as u64;
        let ended = events.len() < AT_ONCE;
        for event in events.into_iter().filter(|event| event.run == Some(number)) {
            chosen += usize::from(event.kind == "attempt-chosen");
            let attempt = chosen.checked_sub(1).and_then(|place| Some((run.attempts.get(place)?, losses.get(place)?)));
            let detail = match event.kind {
                "attempt-chosen" => attempt.map(|(attempt, loss)| attempt_text(attempt, *loss)),
                "attempt-lost" | "attempt-judged" | "attempt-refused" | "released" => {
                    attempt.map(|(attempt, _)| verdict_text(attempt))
                }
                "run-ended" => Some(run.status().to_owned()),
                _ => None,
            };
            found.push((event, detail));
        }
        if ended {
            return Ok(found);
        }
    }
}
