//! Progress events of attempts: sent while they run, in order, and only to users with a role on the stream.

use std::io::BufRead;
use std::time::Instant;

use serde_json::Value;

use crate::PATIENCE;
use crate::http::Serving;
use crate::server::token;
use crate::workdir::Workdir;

/// A network with enough steps to observe its attempt, also where the observer has to wait for a processor.
const LONG: &[(&str, &str)] = &[
    ("kind = \"ridge\"", "kind = \"mlp\"\nlayers = [64]\nbatch = 512\nepochs = 60\nrows = 40000"),
    (
        "  { group_mean = \"3600 * distance / duration\", by = \"extract(hour from pickup)\", name = \"usual_speed\", keys = 24, bounds = [0, 60] },\n",
        "",
    ),
    ("name = \"taxi-duration\"", "name = \"long\""),
    ("[validate]", "[adapt]\nstrategy = \"frugal\"\nattempts = 1\n[validate]"),
];

/// A pipeline that is always accepted.
const COUNT: &str =
    "[pipeline]\nname = \"count\"\nstream = \"taxi\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";

#[test]
fn a_client_hears_how_far_an_attempt_is() {
    let (workdir, stored) = Workdir::with_rides("60_000");
    workdir.variant("examples/duration.toml", "long.toml", LONG);
    let [mia, carl] = ["mia", "carl"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    let (mut heard, mut outside) = (serving.listen(&mia), serving.listen(&carl));
    let text = std::fs::read_to_string(workdir.path("long.toml")).expect("a pipeline");
    let submitted = serving.with_token("POST", "/v1/runs", &mia, &text);
    assert_eq!(submitted.status, 201, "{}", submitted.body);
    let (began, mut events, mut while_running) = (Instant::now(), Vec::<Value>::new(), false);
    while events.last().is_none_or(|one| one["stage"] != "releasing") {
        assert!(began.elapsed() < PATIENCE, "the attempt does not end: {events:?}");
        let mut line = String::new();
        assert!(heard.read_line(&mut line).expect("a line") > 0, "the events ended: {events:?}");
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let one: Value = serde_json::from_str(data).expect("JSON");
        if one["kind"] != "progress" {
            continue;
        }
        if one["percent"].as_u64().is_some_and(|percent| percent < 50) && !while_running {
            while_running = serving.good("GET", "/v1/runs/1", &mia, "")["over"] == false;
        }
        events.push(one);
    }
    assert!(while_running, "progress was reported after the end: {events:?}");
    let mut order: Vec<&str> = events.iter().filter_map(|one| one["stage"].as_str()).collect();
    order.dedup();
    assert_eq!(order, ["charged", "reading", "training", "validating", "releasing"], "{events:?}");
    let percents: Vec<u64> = events.iter().filter_map(|one| one["percent"].as_u64()).collect();
    assert_eq!(percents, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90], "tenths, each once");
    for one in &events {
        assert_eq!((&one["stream"], &one["run"], &one["attempt"]), (&"taxi".into(), &1.into(), &1.into()), "{one}");
        assert!(one["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{one}");
        assert!(!crate::shows(&one.to_string(), &stored.to_string()), "{one}");
    }
    // A user without a role gets releases, but no progress.
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, COUNT).status, 201);
    let mut all = String::new();
    while !all.contains("event: released") {
        assert!(began.elapsed() < 2 * PATIENCE, "the release is not reported: {all}");
        assert!(outside.read_line(&mut all).expect("a line") > 0, "the events ended: {all}");
    }
    assert!(!all.contains("progress") && !all.contains("percent"), "{all}");
}
