//! Ingest through the program, also when it is killed in the middle; `sage doctor` checks the result.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const STREAM: &str = r#"
[stream]
name = "rides"
unit = "event"
time = "pickup"
blocks = { time = "1h" }

[policy]
epsilon = "1"
delta = "1e-6"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]

[[columns]]
name = "pickup"
type = "time"

[[columns]]
name = "distance"
type = "number"
min = 0.0
max = 100.0
"#;

const ROWS: usize = 60_000;

fn sage(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = crate::program();
    command.args(arguments).current_dir(folder);
    command
}

/// The output of a command and its exit code.
fn run(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = sage(folder, arguments).stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn good(folder: &Path, arguments: &[&str]) -> String {
    let (out, err, code) = run(folder, arguments);
    assert_eq!(code, Some(0), "sage {}: {err}", arguments.join(" "));
    out
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&good(folder, arguments)).expect("JSON")
}

fn world() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("rides.toml"), STREAM).expect("a file");
    let mut rows = std::fs::File::create(folder.path().join("rides.csv")).expect("a file");
    let mut text = "pickup,distance\n".to_owned();
    for row in 0..ROWS {
        let (day, hour) = (1 + row % 28, row % 24);
        text += &format!("2026-02-{day:02}T{hour:02}:00:00Z,{}\n", row % 120);
    }
    rows.write_all(text.as_bytes()).expect("rows");
    good(folder.path(), &["stream", "create", "rides.toml", "--as", "ada"]);
    folder
}

#[test]
fn rows_are_ingested_sealed_shown_and_examined() {
    let world = world();
    let folder = world.path();
    let ingested = json(folder, &["ingest", "rides", "rides.csv", "--as", "dan", "--json"]);
    assert_eq!((ingested["stored"].as_u64(), ingested["taken"].as_bool()), (Some(ROWS as u64), Some(true)));
    let again = json(folder, &["ingest", "rides", "rides.csv", "--as", "dan", "--json"]);
    assert_eq!(again["taken"].as_bool(), Some(false));
    good(folder, &["blocks", "rides", "--do", "seal", "--before", "2026-02-02", "--as", "dan"]);
    let shown = json(folder, &["stream", "show", "rides", "--json"]);
    let states = &shown["blocks"];
    assert!(states["sealed"].as_u64() > Some(0) && states["open"].as_u64() > states["sealed"].as_u64(), "{states}");
    assert!(good(folder, &["stream", "show"]).contains("more or less changes the probability"));
    assert!(good(folder, &["blocks", "rides"]).contains("hour=2026-02-01T00"));
    let health = json(folder, &["doctor", "--json"]);
    assert_eq!(health["findings"].as_array().map(Vec::len), Some(0));

    for (arguments, code, said) in [
        (&["ingest", "rides", "rides.csv", "--as", "eve"][..], 13, "is no data-engineer"),
        (&["ingest", "walks", "rides.csv", "--as", "dan"], 14, "there is no stream \"walks\""),
        (&["ingest", "rides", "none.csv", "--as", "dan"], 2, "there is no file"),
        (&["ingest", "rides", "-", "--as", "dan"], 2, "--batch-id"),
        (&["blocks", "rides", "--dir", "elsewhere"], 14, "is no directory of sage"),
        (&["doctor", "--dir", "elsewhere"], 1, "there is no log here"),
        (&["stream", "create", "rides.csv", "--as", "ada"], 1, "line"),
    ] {
        let (_, err, found) = run(folder, arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
    assert!(!folder.join("elsewhere").exists());
}

/// Kills an ingest at many moments. Either the whole batch is stored or nothing.
#[test]
fn a_batch_that_is_killed_is_in_whole_or_not_at_all() {
    let world = world();
    let folder = world.path();
    let mut taken = 0;
    for attempt in 0..12u64 {
        let batch = format!("batch {attempt}");
        let arguments = ["ingest", "rides", "rides.csv", "--as", "dan", "--batch-id", &batch];
        let mut child = sage(folder, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        std::thread::sleep(Duration::from_millis(15 * attempt));
        child.kill().expect("killed");
        child.wait().expect("gone");
        // A crash leaves at most files that no event names; repair removes them.
        let (out, err, _) = run(folder, &["doctor"]);
        assert!(!out.contains("is named in the log") && !out.contains("differs from the file"), "{out}{err}");
        good(folder, &["doctor", "--repair"]);
        let again = json(folder, &[&arguments[..], &["--json"]].concat());
        match again["taken"].as_bool() {
            Some(true) => assert_eq!(again["stored"].as_u64(), Some(ROWS as u64), "attempt {attempt}"),
            _ => taken += 1,
        }
        assert!(good(folder, &["doctor"]).contains("nothing is wrong"));
    }
    println!("{taken} of 12 were in before they were killed");
}
