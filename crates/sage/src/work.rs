//! `sage work`: attempts are performed until every run waits or is over.
//!
//! One process owns a directory at a time. A worker that follows gives it back between rounds, so that rows can go
//! in and pipelines be submitted meanwhile. Asked to stop, it brings the attempt under way to its end: that one is
//! paid for. A second signal ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use sage_engine::{Engine, Job};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::explain::{attempt_text, verdict_text};
use crate::failure::Failure;
use crate::operator::OperatorArgs;
use crate::output::{print, print_json, tell};
use crate::place::PlaceArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage work
  sage work --follow

What is under way when the process is asked to stop (Ctrl-C) is brought to its end, because it is paid for.";

#[derive(Args, Debug)]
pub(crate) struct WorkArgs {
    /// Keep going: look again every second for runs that can go on
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Whether this process was asked to stop.
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on the first signal to end is only noted.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let listening = flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)));
            listening.map_err(|error| {
                Failure::no_answer(format!("signals cannot be listened to: {error}"), "try again on another system")
            })?;
        }
        Ok(Self(asked))
    }

    /// As if a signal had come.
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) fn run(asked: &WorkArgs) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let place = asked.place.under(&asked.operator);
    let mut performed = 0;
    let mut waiting = 0;
    loop {
        let engine = if asked.follow { place.open_if_free()? } else { Some(place.open()?) };
        if let Some(engine) = engine {
            performed += advance(&engine, &stop, || false)?;
            waiting = engine.runs().iter().filter(|run| run.outcome().is_none()).count();
            engine.close()?;
        }
        if !asked.follow || stop.asked() {
            break;
        }
        sleep(Duration::from_secs(1));
    }
    if asked.json {
        return print_json(&json!({"attempts_performed": performed, "runs_waiting": waiting}));
    }
    let attempts = if performed == 1 { "1 attempt".to_owned() } else { format!("{performed} attempts") };
    let runs = if waiting == 1 { "1 run waits".to_owned() } else { format!("{waiting} runs wait") };
    print(&format!("{attempts} performed; {runs} (sage runs)\n"))
}

/// Performs attempts until nothing can be done now, somebody asked to stop, or what was wanted is reached; gives
/// how many there were. Each is told on standard error.
pub(crate) fn advance(engine: &Engine, stop: &Stop, reached: impl Fn() -> bool) -> Result<usize, Failure> {
    let mut performed = 0;
    while !stop.asked() && !reached() {
        let Some(job) = engine.next_job(now())? else { break };
        perform(engine, job)?;
        performed += 1;
    }
    Ok(performed)
}

/// Performs an attempt, and tells of it on standard error.
pub(crate) fn perform(engine: &Engine, job: Job) -> Result<(), Failure> {
    tell_begun(engine, &job)?;
    let run = job.run();
    engine.perform(job)?;
    tell_ended(engine, run);
    Ok(())
}

fn tell_begun(engine: &Engine, job: &Job) -> Result<(), Failure> {
    let Some(run) = engine.run(job.run()) else { return Ok(()) };
    let losses = engine.attempt_losses(run.number)?;
    if let (Some(attempt), Some(loss)) = (run.attempts.last(), losses.last()) {
        tell(&format!("run {} ({}), {}", run.number, run.pipeline, attempt_text(attempt, *loss)));
    }
    Ok(())
}

fn tell_ended(engine: &Engine, number: u64) {
    let Some(run) = engine.run(number) else { return };
    if let Some(attempt) = run.attempts.last() {
        let index = attempt.attempt.index;
        tell(&format!("run {number} ({}), attempt {index}: {}", run.pipeline, verdict_text(attempt)));
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
