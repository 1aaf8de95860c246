//! `sage watch`: follows a run, or all of them, to the end: states, attempts and verdicts.
//!
//! A free directory is polled, and closed in between, so that other processes can use it. With a server, its events
//! trigger a read. Both read what `sage explain` shows and print the same lines.

mod local;
mod remote;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use sage_server::StopSignal;
use sage_server::format::{blocks, rounded_up};
use sage_server::views::Decimal;
use sage_server::views::runs::Run;
use sage_server::views::watch::{RunChange, WatchEvent};

use crate::client::{RemoteClient, TOKEN, Target};
use crate::commands::work::listen_for_stop;
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json_line};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage watch 3
  sage watch
  sage watch 3 --json
  SAGE_TOKEN=sage_pat_... sage watch 3 --server http://127.0.0.1:7878

It only looks: attempts are performed by sage work, or by a server. Its exit code is the end of the run: 0 accepted,
10 rejected, 11 gave up or timed out, 1 cancelled or failing; of several runs that of the first that was not accepted.";

#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// The run's number [default: all runs]
    run: Option<u64>,
    /// Stop after this many seconds, with exit code 11 [default: never]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print a JSON object on each line
    #[arg(long)]
    json: bool,
}

/// The address of a server on this machine.
const SERVER: &str = "http://127.0.0.1:7878";

pub(crate) fn run(args: &WatchArgs, target: Option<&Target>) -> Result<(), Failure> {
    let Some(target) = target else { return local::follow(&mut Watch::new(args)?, &args.directory) };
    if target.token.is_none() {
        return Err(Failure::usage(
            format!("a server needs a token, and {TOKEN} is not set"),
            format!("make one with: sage token create --as NAME, then: {TOKEN}=TOKEN sage watch"),
        ));
    }
    remote::follow(&mut Watch::new(args)?, &RemoteClient::new(&target.address, target.token.clone())?)
}

/// The watched runs, and what was reported about them.
struct Watch {
    run: Option<u64>,
    json: bool,
    deadline: Option<Instant>,
    stop: StopSignal,
    /// Runs as they were last seen.
    seen: BTreeMap<u64, Run>,
}

impl Watch {
    fn new(args: &WatchArgs) -> Result<Self, Failure> {
        let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        Ok(Self { run: args.run, json: args.json, deadline, stop: listen_for_stop()?, seen: BTreeMap::new() })
    }

    /// Whether a run has to be read again.
    fn wants(&self, number: u64) -> bool {
        self.run.is_none_or(|run| run == number) && self.seen.get(&number).is_none_or(|run| !run.over)
    }

    /// Prints what is new of a run.
    fn look(&mut self, run: &Run) -> Result<(), Failure> {
        for event in news(self.seen.get(&run.run), run) {
            if self.json {
                print_json_line(&event)?;
            } else {
                print(&format!("{}\n", text(&event)))?;
            }
        }
        self.seen.insert(run.run, run.clone());
        Ok(())
    }

    /// The end, once there is one.
    fn ended(&self) -> Option<Result<(), Failure>> {
        if self.stop.is_requested() {
            return Some(Err(Failure::ended("stopped watching; the runs continue".to_owned(), 130)));
        }
        if !self.seen.is_empty() && self.seen.values().all(|run| run.over) {
            return Some(self.seen.values().try_for_each(outcome));
        }
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        late.then(|| Err(Failure::ended("not finished yet; continue with: sage watch".to_owned(), 11)))
    }
}

/// The exit of a run that is over: `sage help exit-codes`.
fn outcome(run: &Run) -> Result<(), Failure> {
    let code = match run.status.as_str() {
        "accepted" => return Ok(()),
        "rejected" => 10,
        "timed out" | "out of attempts" | "at its limits" | "over its time" | "over its memory" | "out of reach" => 11,
        "no member" => 13,
        _ => 1,
    };
    Err(Failure::ended(format!("run {} is {}\n  help  sage explain {0}", run.run, run.status), code))
}

/// What happened to a run since it was last seen.
fn news(before: Option<&Run>, now: &Run) -> Vec<WatchEvent> {
    let mut changes = Vec::new();
    if before.is_none_or(|before| before.status != now.status) && !now.over {
        changes.push(RunChange::Status { status: now.status.clone() });
    }
    let known = before.map_or(&[][..], |before| before.attempts.as_slice());
    for (index, attempt) in now.attempts.iter().enumerate() {
        let earlier = known.get(index);
        if earlier.is_none() {
            changes.push(RunChange::begun(attempt));
        }
        if attempt.verdict.is_some() && earlier.is_none_or(|earlier| earlier.verdict.is_none()) {
            changes.push(RunChange::judged(attempt));
        }
    }
    if now.over && before.is_none_or(|before| !before.over) {
        changes.push(RunChange::ended(now));
    }
    let event = |change| WatchEvent { run: now.run, pipeline: now.pipeline.clone(), change };
    changes.into_iter().map(event).collect()
}

/// An event as a line of text.
fn text(event: &WatchEvent) -> String {
    let what = match &event.change {
        RunChange::Attempt { attempt, epsilon, blocks: count, .. } => {
            let cost = |epsilon: &Decimal| format!("epsilon {} on ", rounded_up(epsilon.to_f64()));
            format!("attempt {attempt}: {}{}", epsilon.as_ref().map_or_else(String::new, cost), blocks(*count))
        }
        RunChange::Verdict { attempt, verdict, reason, .. } => {
            let word = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("attempt {attempt}: {}: {}", word(verdict), word(reason))
        }
        RunChange::End { status, release, why, .. } => {
            let release = release.as_ref().map_or_else(String::new, |name| format!(", released as {name}"));
            format!("{status}{release}. {why}")
        }
        RunChange::Status { status } => status.clone(),
    };
    format!("run {} ({}): {what}", event.run, event.pipeline)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(status: &str, over: bool, attempts: &Value) -> Run {
        let run = json!({
            "run": 7, "pipeline": "line", "stream": "numbers", "by": "mia", "submitted": "2026-11-01T00:00:00Z",
            "status": status, "over": over, "attempts": attempts, "release": "line@1", "options": [], "why": "",
            "help": "",
        });
        serde_json::from_value(run).expect("a run")
    }

    #[test]
    fn every_change_is_reported_once_and_in_order() {
        let begun = json!([{"attempt": 1, "epsilon": "0.05", "blocks": 2, "block_ranges": []}]);
        let judged = json!([
            {"attempt": 1, "epsilon": "0.05", "blocks": 2, "block_ranges": [], "verdict": "accept", "reason": "good"}
        ]);
        let stages = [
            run("waiting", false, &json!([])),
            run("running", false, &begun),
            run("running", false, &begun),
            run("accepted", true, &judged),
        ];
        let mut before: Option<&Run> = None;
        let mut reported = Vec::new();
        for stage in &stages {
            reported.extend(news(before, stage).iter().map(text));
            before = Some(stage);
        }
        assert_eq!(
            reported,
            [
                "run 7 (line): waiting",
                "run 7 (line): running",
                "run 7 (line): attempt 1: epsilon 0.05 on 2 blocks",
                "run 7 (line): attempt 1: accept: good",
                "run 7 (line): accepted, released as line@1. ",
            ]
        );
        // A late observer gets all of it.
        let late = news(None, &stages[3]);
        assert_eq!(late.len(), 3);
        let objects: Vec<Value> = late.iter().map(|event| serde_json::to_value(event).expect("JSON")).collect();
        let whose = |event: &str, fields: Value| {
            let mut object = json!({"run": 7, "pipeline": "line", "event": event});
            let own = fields.as_object().expect("an object").clone();
            object.as_object_mut().expect("an object").extend(own);
            object
        };
        let attempt = json!({"attempt": 1, "epsilon": "0.05", "blocks": 2, "block_ranges": []});
        let verdict =
            json!({"attempt": 1, "verdict": "accept", "reason": "good", "estimates": null, "confidence": null});
        let end = json!({"status": "accepted", "release": "line@1", "why": "", "help": ""});
        assert_eq!(objects, [whose("attempt", attempt), whose("verdict", verdict), whose("end", end)]);
    }

    #[test]
    fn the_end_is_the_exit_code() {
        for (status, code) in [
            ("accepted", 0),
            ("rejected", 10),
            ("timed out", 11),
            ("out of attempts", 11),
            ("at its limits", 11),
            ("over its time", 11),
            ("over its memory", 11),
            ("no member", 13),
            ("cancelled", 1),
            ("failing", 1),
        ] {
            let found = outcome(&run(status, true, &json!([]))).map_or_else(|failure| failure.exit_code(), |()| 0);
            assert_eq!(found, code, "{status}");
        }
    }
}
