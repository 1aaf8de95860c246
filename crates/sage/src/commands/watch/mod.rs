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
use sage_server::views::runs::Run;
use serde_json::{Value, json};

use crate::client::{RemoteClient, TOKEN, Target};
use crate::commands::work::listen_for_stop;
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::print;

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
    seen: BTreeMap<u64, Value>,
}

impl Watch {
    fn new(args: &WatchArgs) -> Result<Self, Failure> {
        let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        Ok(Self { run: args.run, json: args.json, deadline, stop: listen_for_stop()?, seen: BTreeMap::new() })
    }

    /// Whether a run has to be read again.
    fn wants(&self, number: u64) -> bool {
        self.run.is_none_or(|run| run == number) && self.seen.get(&number).is_none_or(|run| run["over"] != true)
    }

    /// Prints what is new of a run.
    fn look(&mut self, run: &Run) -> Result<(), Failure> {
        let (number, run) = (run.run, json!(run));
        for event in news(self.seen.get(&number), &run) {
            let line = if self.json { event.to_string() } else { text(&event) };
            print(&format!("{line}\n"))?;
        }
        self.seen.insert(number, run);
        Ok(())
    }

    /// The end, once there is one.
    fn ended(&self) -> Option<Result<(), Failure>> {
        if self.stop.is_requested() {
            return Some(Err(Failure::ended("stopped watching; the runs continue".to_owned(), 130)));
        }
        if !self.seen.is_empty() && self.seen.values().all(|run| run["over"] == true) {
            return Some(self.seen.values().try_for_each(outcome));
        }
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        late.then(|| Err(Failure::ended("not finished yet; continue with: sage watch".to_owned(), 11)))
    }
}

/// The exit of a run that is over: `sage help exit-codes`.
fn outcome(run: &Value) -> Result<(), Failure> {
    let status = run["status"].as_str().unwrap_or_default();
    let code = match status {
        "accepted" => return Ok(()),
        "rejected" => 10,
        "timed out" | "out of attempts" | "at its limits" | "over its time" | "over its memory" | "out of reach" => 11,
        "no member" => 13,
        _ => 1,
    };
    Err(Failure::ended(format!("run {} is {status}\n  help  sage explain {0}", run["run"]), code))
}

/// What happened to a run since it was last seen.
fn news(before: Option<&Value>, now: &Value) -> Vec<Value> {
    let event = |kind: &str, more: Value| {
        let mut event = json!({"run": now["run"], "pipeline": now["pipeline"], "event": kind});
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        event
    };
    let status = |run: &Value| run["status"].clone();
    let mut events = Vec::new();
    if before.is_none_or(|before| status(before) != status(now)) && now["over"] != true {
        events.push(event("status", json!({"status": status(now)})));
    }
    let none = Vec::new();
    let known = before.and_then(|before| before["attempts"].as_array()).unwrap_or(&none);
    for (index, attempt) in now["attempts"].as_array().unwrap_or(&none).iter().enumerate() {
        let earlier = known.get(index);
        let part = |names: &[&str]| -> Value {
            names
                .iter()
                .map(|name| ((*name).to_owned(), attempt[*name].clone()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        if earlier.is_none() {
            events.push(event("attempt", part(&["attempt", "epsilon", "blocks", "block_ranges"])));
        }
        if !attempt["verdict"].is_null() && earlier.is_none_or(|earlier| earlier["verdict"].is_null()) {
            events.push(event("verdict", part(&["attempt", "verdict", "reason", "estimates", "confidence"])));
        }
    }
    if now["over"] == true && before.is_none_or(|before| before["over"] != true) {
        let more = json!({"status": status(now), "release": now["release"], "why": now["why"], "help": now["help"]});
        events.push(event("end", more));
    }
    events
}

/// An event as a line of text.
fn text(event: &Value) -> String {
    let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let what = match event["event"].as_str() {
        Some("attempt") => {
            let epsilon = event["epsilon"].as_str().and_then(|epsilon| epsilon.parse::<f64>().ok());
            let cost = epsilon.map_or_else(String::new, |epsilon| format!("epsilon {} on ", rounded_up(epsilon)));
            let window = event["blocks"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
            format!("attempt {}: {cost}{}", event["attempt"], blocks(window))
        }
        Some("verdict") => format!("attempt {}: {}: {}", event["attempt"], word("verdict"), word("reason")),
        Some("end") => {
            let release = event["release"].as_str().map_or_else(String::new, |name| format!(", released as {name}"));
            format!("{}{release}. {}", word("status"), word("why"))
        }
        _ => word("status"),
    };
    format!("run {} ({}): {what}", event["run"], word("pipeline"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: &str, over: bool, attempts: &Value) -> Value {
        json!({"run": 7, "pipeline": "line", "status": status, "over": over, "attempts": attempts, "release": "line@1"})
    }

    #[test]
    fn every_change_is_reported_once_and_in_order() {
        let begun = json!([{"attempt": 1, "epsilon": "0.05", "blocks": 2, "verdict": null}]);
        let judged = json!([{"attempt": 1, "epsilon": "0.05", "blocks": 2, "verdict": "accept", "reason": "good"}]);
        let stages = [
            run("waiting", false, &json!([])),
            run("running", false, &begun),
            run("running", false, &begun),
            run("accepted", true, &judged),
        ];
        let mut before: Option<&Value> = None;
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
        assert_eq!(news(None, &stages[3]).len(), 3);
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
