//! `sage submit` and `sage cancel`: submits a pipeline, and stops a run.

use std::path::PathBuf;

use clap::Args;
use sage_engine::adapt::{End, Outcome};
use sage_engine::{Engine, RunView};
use sage_server::StopSignal;
use sage_server::diagnostics::note;
use sage_server::format::{blocks, loss};

use crate::client::{self, Cancelled, Client, LocalClient, Target};
use crate::commands::plan::pipeline_request;
use crate::commands::work::{advance, listen_for_stop};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::operator::{OperatorArgs, ThreadArgs};
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage submit duration.toml --as mia
  sage submit duration.toml --wait --as mia
  sage submit own-model.toml --code ./training --as mia

The run's number is printed to standard output. Without --wait, its attempts are performed by: sage work
With --wait, this process performs attempts until the run has ended or has to wait for blocks. The exit code is the
result: 0 accepted, 10 rejected, 11 gave up or timed out, 12 not enough blocks with budget left (the run stays queued).";

#[derive(Args, Debug)]
pub(crate) struct SubmitArgs {
    /// The pipeline's file; `-` for standard input
    file: PathBuf,

    /// Perform attempts until the run has ended or has to wait for blocks
    #[arg(long)]
    wait: bool,

    /// The folder of the program that the pipeline's `command` names; it is copied
    #[arg(long, value_name = "FOLDER")]
    code: Option<PathBuf>,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// The run's number
    run: u64,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
}

pub(crate) fn run(args: &SubmitArgs, target: Option<&Target>) -> Result<(), Failure> {
    if let Some(target) = target {
        return submit_to_server(args, target);
    }
    let request = pipeline_request(&args.file)?;
    args.threads.apply();
    let stop = listen_for_stop()?;
    let client = LocalClient::open(&args.directory.under(&args.operator), Some(&args.user))?;
    let run = client.submit_with(&request, args.code.as_deref())?;
    if !args.json {
        print(&format!("{run}\n"))?;
    }
    let engine = client.engine();
    if args.wait {
        note(&format!("submitted as run {run}"));
        advance(engine, &stop, || engine.run(run).is_none_or(|view| view.outcome().is_some()))?;
    } else {
        note(&format!("submitted as run {run}; next: sage work, then: sage explain {run}"));
    }
    if args.json {
        print_json(&client.run(run)?)?;
    }
    let ended = if args.wait { ended(engine, run, &stop) } else { Ok(()) };
    Box::new(client).close()?;
    ended
}

fn submit_to_server(args: &SubmitArgs, target: &Target) -> Result<(), Failure> {
    if args.wait || args.code.is_some() {
        return Err(Failure::usage(
            "--wait and --code need a directory: a server performs attempts by itself, and takes no code from this command",
            "sage submit FILE --server ADDRESS, then: sage explain RUN --server ADDRESS",
        ));
    }
    let request = pipeline_request(&args.file)?;
    let run = client::open(Some(target), &args.directory, None)?.submit(&request)?;
    if args.json { print_json(&run) } else { print(&format!("{}\n", run.run)) }
}

/// The end of a run that was waited for.
fn ended(engine: &Engine, number: u64, stop: &StopSignal) -> Result<(), Failure> {
    let Some(run) = engine.run(number) else { return Ok(()) };
    let (code, what) = match run.outcome() {
        Some(Outcome::Accepted) => {
            note(&format!("run {number} is accepted; see: sage models show {}", run.pipeline));
            return Ok(());
        }
        Some(Outcome::Rejected) => (10, "is rejected: no model of its kind reaches the target".to_owned()),
        Some(Outcome::Stopped(end)) => (stopped_code(end), format!("ended without a verdict: {}", run.status())),
        None if stop.is_requested() => {
            (130, "has not ended: this process was stopped; continue with: sage work".to_owned())
        }
        None => (12, waits(engine, &run)?),
    };
    Err(Failure::ended(format!("run {number} {what}\n  help  sage explain {number}"), code))
}

const fn stopped_code(end: End) -> u8 {
    match end {
        End::TimedOut | End::Limit(_) | End::OutOfReach => 11,
        End::Cancelled | End::Failing | End::Crashed => 1,
        End::NotMember | End::NameTaken => 13,
    }
}

fn waits(engine: &Engine, run: &RunView) -> Result<String, Failure> {
    Ok(match engine.waiting(run.number)? {
        Some(waiting) => format!(
            "waits: it needs {} with epsilon {} left on each, and {} such; it stays in the queue; continue with: \
             sage work",
            blocks(waiting.blocks),
            loss(waiting.epsilon),
            if waiting.admit == 1 { "there is 1".to_owned() } else { format!("there are {}", waiting.admit) },
        ),
        None => "is queued; continue with: sage work".to_owned(),
    })
}

pub(crate) fn cancel(args: &CancelArgs, target: Option<&Target>) -> Result<(), Failure> {
    let client = client::open(target, &args.directory, Some(&args.user))?;
    let cancelled = client.cancel(args.run)?;
    client.close()?;
    print(&match cancelled {
        Cancelled::Run => format!("run {} is cancelled; what it was charged stays charged\n", args.run),
        Cancelled::Recurrence => format!("run {} has ended; its pipeline is not submitted again\n", args.run),
    })
}
