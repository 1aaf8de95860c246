//! `sage submit` and `sage cancel`: a pipeline goes in, and can be stopped.

use std::path::PathBuf;

use clap::Args;
use sage_engine::adapt::{End, Outcome};
use sage_engine::{Engine, RunView, Stopped};

use crate::explain;
use crate::failure::Failure;
use crate::operator::OperatorArgs;
use crate::output::{blocks, loss, print, print_json, tell};
use crate::place::{PlaceArgs, WhoArgs};
use crate::plan::{of_file, text_of};
use crate::work::{Stop, advance, now};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage submit duration.toml --as mia
  sage submit duration.toml --wait --as mia
  sage submit own-model.toml --code ./training --as mia

The run's number goes to standard output. Without --wait the run is worked on by: sage work
With --wait this process works until the run is over or has to wait for blocks, and its end is the exit code:
0 accepted, 10 rejected, 11 gave up or timed out, 12 no blocks with enough budget left (it goes on waiting).";

#[derive(Args, Debug)]
pub(crate) struct SubmitArgs {
    /// The pipeline's file; `-` for standard input
    file: PathBuf,

    /// Work until the run is over or has to wait for blocks
    #[arg(long)]
    wait: bool,

    /// The folder of the program that the pipeline's `command` names; it is copied
    #[arg(long, value_name = "FOLDER")]
    code: Option<PathBuf>,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// The run's number
    run: u64,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(crate) fn run(asked: &SubmitArgs) -> Result<(), Failure> {
    let text = text_of(&asked.file)?;
    let who = asked.who.principal()?;
    let stop = Stop::listen()?;
    let engine = asked.place.under(&asked.operator).open()?;
    let submitted = engine.submit_with(&who, &text, asked.code.as_deref(), now());
    let run = submitted.map_err(|error| of_file(&engine, &asked.file, error))?;
    if !asked.json {
        print(&format!("{run}\n"))?;
    }
    if asked.wait {
        tell(&format!("submitted as run {run}"));
        advance(&engine, &stop, || engine.run(run).is_none_or(|view| view.outcome().is_some()))?;
    } else {
        tell(&format!("submitted as run {run}; next: sage work, then: sage explain {run}"));
    }
    if asked.json {
        print_json(&explain::object(&engine, run)?)?;
    }
    let ended = if asked.wait { ended(&engine, run, &stop) } else { Ok(()) };
    engine.close()?;
    ended
}

/// The end of a run that was waited for.
fn ended(engine: &Engine, number: u64, stop: &Stop) -> Result<(), Failure> {
    let Some(run) = engine.run(number) else { return Ok(()) };
    let (code, what) = match run.outcome() {
        Some(Outcome::Accepted) => {
            tell(&format!("run {number} is accepted; see: sage models show {}", run.pipeline));
            return Ok(());
        }
        Some(Outcome::Rejected) => (10, "is rejected: no model of its kind reaches the target".to_owned()),
        Some(Outcome::Stopped(end)) => (stopped_code(end), format!("ended without a verdict: {}", run.status())),
        None if stop.asked() => (130, "is not over: this process was stopped; it goes on with: sage work".to_owned()),
        None => (12, waits(engine, &run)?),
    };
    Err(Failure::ended(format!("run {number} {what}\n  help  sage explain {number}"), code))
}

const fn stopped_code(end: End) -> u8 {
    match end {
        End::TimedOut | End::Limit(_) => 11,
        End::Cancelled | End::Failing | End::Crashed => 1,
        End::NotMember | End::NameTaken => 13,
    }
}

fn waits(engine: &Engine, run: &RunView) -> Result<String, Failure> {
    Ok(match engine.waiting(run.number)? {
        Some(waiting) => format!(
            "waits: it needs {} with epsilon {} left on each, and {} such; it stays in the queue and goes on with: sage \
             work",
            blocks(waiting.blocks),
            loss(waiting.epsilon),
            if waiting.admit == 1 { "there is 1".to_owned() } else { format!("there are {}", waiting.admit) },
        ),
        None => "waits for its turn; it goes on with: sage work".to_owned(),
    })
}

pub(crate) fn cancel(asked: &CancelArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let stopped = engine.stop_run(&asked.who.principal()?, asked.run)?;
    engine.close()?;
    print(&match stopped {
        Stopped::Run => format!("run {} is cancelled; what it was charged stays charged\n", asked.run),
        Stopped::Recurrence => format!("run {} is over; its pipeline is not submitted again\n", asked.run),
    })
}
