//! Pages in a real browser: `tools/pages/walk.mjs` visits all of them; this test prepares the data.
//!
//! It runs only after `cargo xtask pages` has installed a browser, and otherwise prints that it is skipped.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Serving;
use crate::workdir::{Workdir, project};

/// A table with a line for each hour of the day.
const HOURS: &str = r#"
[pipeline]
name = "speed-by-hour"
stream = "taxi"
window = { min = 192 }
filter = "duration > 60"

[train]
kind = "statistic"
statistic = "group_mean"
of = "3600 * distance / duration"
by = "extract(hour from pickup)"
keys = 24
bounds = [0, 60]

[validate]
metric = "precision"
target = 20.0
"#;

/// A target that no linear model of the payment can meet, so that the run is rejected.
const EXACT: &str = r#"
[pipeline]
name = "taxi-exact"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 1] }
window = { min = "14d" }
features = [{ column = "payment", onehot = ["card", "cash"] }]

[train]
kind = "ridge"

[validate]
metric = "mse"
target = 0.0005
bound = 0.25
reject = true

[budget]
epsilon0 = 0.4
split = { train = 0.3, reject = 0.7 }
"#;

/// Four weeks of rides, runs in every state but those that need a server, and releases in both.
fn lived_in() -> Workdir {
    let workdir = Workdir::new();
    workdir.good("generate taxi --rows 500_000 --start 2026-09-01 --end 2026-09-29 --out rides");
    workdir.good("stream create rides/_stream.toml --as ada");
    workdir.good("ingest taxi rides --as dan");
    workdir.good("blocks taxi --do seal --before 2026-09-28 --as dan");
    std::fs::write(workdir.path("hours.toml"), HOURS).expect("a file");
    std::fs::write(workdir.path("exact.toml"), EXACT).expect("a file");
    let duration = "examples/duration.toml";
    let twice = ("bound = 0.25", "bound = 0.25\n\n[adapt]\nstrategy = \"frugal\"\nattempts = 2");
    workdir.variant(duration, "hasty.toml", &[("taxi-duration", "taxi-hasty"), ("0.02", "0.001"), twice]);
    workdir.variant(duration, "season.toml", &[("taxi-duration", "taxi-season"), ("\"12h\"", "\"60d\"")]);
    workdir.variant(duration, "summer.toml", &[("taxi-duration", "taxi-summer"), ("\"12h\"", "\"60d\"")]);
    let network = "kind = \"mlp\"\nlayers = [32, 32]\nepochs = 4000\nbatch = 4096\nrows = 700";
    workdir.variant(duration, "network.toml", &[("taxi-duration", "taxi-network"), ("kind = \"ridge\"", network)]);
    // Accepted, accepted, accepted; rejected; out of attempts; a version that is withdrawn.
    for file in [duration, "examples/speed.toml", "hours.toml"] {
        workdir.good(&format!("submit {file} --wait --as mia"));
    }
    assert_eq!(workdir.run("submit exact.toml --wait --as mia").code, Some(10), "it is rejected");
    workdir.run("submit hasty.toml --wait --as mia");
    workdir.good(&format!("submit {duration} --wait --as mia"));
    workdir.good("models alias taxi-duration@1 champion --as mia");
    let mut withdraw = workdir.command(&["models", "withdraw", "taxi-duration@2", "--reason", "the meter was wrong"]);
    assert!(withdraw.args(["--as", "mia"]).output().expect("it runs").status.success());
    workdir.good("blocks taxi --do retire --before 2026-09-04 --as ada");
    workdir.good("blocks taxi --do delete --before 2026-09-02 --as ada");
    workdir
}

/// A run whose attempt a crash ends, and which tries again after it; behind it one that waits and one that is
/// cancelled.
fn crashed(workdir: &Workdir, mia: &str) -> Serving {
    let text = |name| std::fs::read_to_string(workdir.path(name)).expect("a file");
    let mut serving = Serving::start(workdir);
    serving.good("POST", "/v1/runs", mia, &text("network.toml"));
    // An attempt may be over before the kill comes; then the next one is met.
    let is_lost =
        |run: &Value| run["attempts"].as_array().is_some_and(|all| all.iter().any(|one| one["verdict"] == "lost"));
    for kill in 0.. {
        serving.wait_for("/v1/runs/7", mia, |run| run["status"] == "running");
        serving.kill();
        serving = Serving::start(workdir);
        if is_lost(&serving.wait_for("/v1/runs/7", mia, |run| run["status"] == "running")) {
            break;
        }
        assert!(kill < 20, "no kill met an attempt");
    }
    serving.good("POST", "/v1/runs", mia, &text("season.toml"));
    serving.good("POST", "/v1/runs", mia, &text("summer.toml"));
    serving.good("POST", "/v1/runs/9/cancel", mia, "");
    serving
}

#[test]
fn pages_hold_in_a_browser() {
    let Some(modules) = std::env::var_os("SAGE_BROWSER").map(PathBuf::from) else {
        println!("no browser, so pages were not walked through: cargo xtask pages");
        return;
    };
    let workdir = lived_in();
    let tokens: Value = ["ada", "dan", "mia", "carl"]
        .iter()
        .map(|name| ((*name).to_owned(), json!(workdir.good(&format!("token create --as {name}")).trim())))
        .collect::<serde_json::Map<String, Value>>()
        .into();
    let mia = tokens["mia"].as_str().expect("a token").to_owned();
    let serving = crashed(&workdir, &mia);
    let season = std::fs::read_to_string(workdir.path("season.toml")).expect("a file");
    let folder = modules.parent().expect("a folder");
    let states = json!({
        "1": "accepted", "4": "rejected", "5": "out of attempts", "7": "running", "8": "waiting", "9": "cancelled",
    });
    let walk = json!({
        "address": serving.address(),
        "modules": modules,
        "browser": std::env::var("SAGE_CHROMIUM").expect("where the browser is"),
        "screenshots": folder.join("screenshots"),
        "picture": std::env::var("SAGE_PICTURE").ok(),
        "tokens": tokens,
        "states": states,
        "pages": ["/releases/taxi-duration/1", "/releases/speed-by-hour/1", "/releases/speed-by-vendor/1"],
        "pipeline": season.replace("taxi-season", "taxi-seen-at-once"),
        "name": "taxi-seen-at-once",
        "retire": "hour=2026-09-04T00",
        "retired": "49\u{a0}retired",
    });
    let script = project().join("tools/pages/walk.mjs");
    let walked = Command::new("node").arg(script).env("SAGE_WALK", walk.to_string()).status();
    assert!(walked.expect("node runs").success(), "pages do not hold; what does not is printed above");
}
