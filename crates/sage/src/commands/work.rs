//! `sage work`: performs attempts until every run waits or has ended.
//!
//! One process owns a directory at a time. With `--follow` the worker releases it between rounds, so that rows can be
//! ingested and pipelines submitted meanwhile. On a signal it completes the attempt in progress, which is already
//! charged. A second signal ends the process at once.

use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use sage_engine::Engine;
use sage_server::clock::now;
use sage_server::views::directory::WorkResult;
use sage_server::{StopSignal, perform};

use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::operator::{OperatorArgs, ThreadArgs};
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage work
  sage work --follow

After Ctrl-C the attempt in progress is completed, because it is already charged. A second Ctrl-C ends the process.";

#[derive(Args, Debug)]
pub(crate) struct WorkArgs {
    /// Keep running: check every second for runs that can continue
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &WorkArgs) -> Result<(), Failure> {
    args.threads.apply();
    let stop = listen_for_stop()?;
    let directory = args.directory.under(&args.operator);
    let mut performed = 0;
    let mut waiting = 0;
    loop {
        let engine = if args.follow { directory.open_if_free()? } else { Some(directory.open()?) };
        if let Some(engine) = engine {
            performed += advance(&engine, &stop, || false)?;
            waiting = engine.runs().iter().filter(|run| run.outcome().is_none()).count();
            engine.close()?;
        }
        if !args.follow || stop.is_requested() {
            break;
        }
        sleep(Duration::from_secs(1));
    }
    if args.json {
        return print_json(&WorkResult { attempts_performed: performed as u64, runs_waiting: waiting as u64 });
    }
    let attempts = if performed == 1 { "1 attempt".to_owned() } else { format!("{performed} attempts") };
    let runs = if waiting == 1 { "1 run waits".to_owned() } else { format!("{waiting} runs wait") };
    print(&format!("{attempts} performed; {runs} (sage runs)\n"))
}

/// Performs attempts until no run can proceed, a stop is requested, or `reached` returns true. Returns their number.
pub(crate) fn advance(engine: &Engine, stop: &StopSignal, reached: impl Fn() -> bool) -> Result<usize, Failure> {
    let mut performed = 0;
    while !stop.is_requested() && !reached() {
        let Some(job) = engine.next_job(now())? else { break };
        perform(engine, job)?;
        performed += 1;
    }
    Ok(performed)
}

/// Handles SIGINT and SIGTERM from now on.
pub(crate) fn listen_for_stop() -> Result<StopSignal, Failure> {
    StopSignal::listen().map_err(|error| {
        Failure::no_answer(
            format!("no signal handler can be installed: {error}"),
            "allow signal handlers and try again",
        )
    })
}
