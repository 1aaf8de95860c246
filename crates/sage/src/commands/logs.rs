//! `sage logs`: the events of a run, and the output of own code for its author.

use clap::Args;
use sage_engine::{Engine, EngineError, EventView};
use sage_server::diagnostics::note;
use sage_server::format::timestamp;
use sage_server::views::directory::{ProgramOutput, RunLog, RunStep};
use sage_server::views::runs::{attempt_text, verdict_text};

use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage logs 3
  sage logs 3 --as mia --json

The output of a user's program can contain rows, so it is shown only to the ML engineer who submitted the run. Only its
end is kept.";

#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The run's number
    run: u64,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many events are read at a time.
const AT_ONCE: usize = 10_000;

pub(crate) fn run(args: &LogsArgs) -> Result<(), Failure> {
    let engine = args.directory.open()?;
    let steps = steps(&engine, args.run)?;
    let printed = match engine.printed(&args.user.principal()?, args.run) {
        Ok(printed) => printed,
        Err(EngineError::NotInRole { .. }) => {
            note("the output of own code is shown only to the user who submitted it");
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    engine.close()?;
    if args.json {
        let step = |(event, detail): &(EventView, Option<String>)| RunStep {
            number: event.number,
            time: timestamp(event.time),
            kind: event.kind.to_owned(),
            detail: detail.clone(),
        };
        let steps = steps.iter().map(step).collect();
        let printed = printed.into_iter().map(|(attempt, text)| ProgramOutput { attempt, text }).collect();
        return print_json(&RunLog { run: args.run, steps, printed });
    }
    let mut text = String::new();
    for (event, detail) in &steps {
        let line = format!("{}  {:17}  {}", timestamp(event.time), event.kind, detail.as_deref().unwrap_or_default());
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

/// The events of a run, each with its details.
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
            let attempt = chosen.checked_sub(1).and_then(|index| Some((run.attempts.get(index)?, losses.get(index)?)));
            let detail = match event.kind {
                "attempt-chosen" => attempt.map(|(attempt, loss)| attempt_text(attempt, *loss)),
                "attempt-lost" | "attempt-judged" | "attempt-refused" | "released" => {
                    attempt.map(|(attempt, _)| verdict_text(attempt))
                }
                "run-ended" | "retest-failed" | "retest-passed" => Some(run.status().to_owned()),
                _ => None,
            };
            found.push((event, detail));
        }
        if ended {
            return Ok(found);
        }
    }
}
