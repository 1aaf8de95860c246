//! A new user creates a directory from their own file, fills in the bounds, and follows a run to its end.

use std::process::Stdio;

use serde_json::Value;

use crate::http::Serving;
use crate::manual::{run_script, script_of};
use crate::workdir::Workdir;

/// Rides of four weeks, a thousand a day, by a fixed rule.
fn write_rides(workdir: &Workdir) {
    let mut text = String::from("at,distance,minutes,payment\n");
    let mut state = 7_u64;
    let mut roll = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..28_000 {
        let (day, hour, minute, distance) = (1 + roll(28), roll(24), roll(60), 50 + roll(950));
        let minutes = 40 + distance * 3 / 10 + roll(60);
        let payment = if roll(10) < 7 { "card" } else { "cash" };
        text += &format!("2026-03-{day:02}T{hour:02}:{minute:02}:00,{}.{:02},", distance / 100, distance % 100);
        text += &format!("{}.{},{payment}\n", minutes / 10, minutes % 10);
    }
    std::fs::write(workdir.path("rides.csv"), text).expect("a file");
}

/// The values that the user fills in.
fn state_bounds(workdir: &Workdir) {
    let file = workdir.path("sage-data/stream.toml");
    let mut text = std::fs::read_to_string(&file).expect("the file");
    for (column, stated) in [
        ("distance", "\"number\"\nmin = 0.0\nmax = 20.0"),
        ("minutes", "\"number\"\nmin = 0.0\nmax = 60.0"),
        ("payment", "\"category\"\ncategories = [\"card\", \"cash\"]"),
    ] {
        let open = format!("name = \"{column}\"\ntype = \"?\"");
        assert!(text.contains(&open), "{column}: {text}");
        text = text.replace(&open, &format!("name = \"{column}\"\ntype = {stated}"));
    }
    std::fs::write(file, text).expect("written");
}

#[test]
fn a_newcomer_gets_from_a_csv_to_a_released_number() {
    let workdir = Workdir::new();
    write_rides(&workdir);
    let printed = workdir.good("init --from rides.csv --as ada");
    assert!(printed.contains("3 values in sage-data/stream.toml are marked \"?\""), "{printed}");
    let next: Vec<&str> = printed.lines().filter_map(|line| line.trim().strip_prefix("sage ")).collect();
    assert_eq!(next.len(), 3, "{printed}");
    let stream = std::fs::read_to_string(workdir.path("sage-data/stream.toml")).expect("the file");
    assert!(stream.contains("type = \"time\"") && stream.contains("time = \"at\""), "{stream}");
    assert!(!stream.contains("card") && !stream.contains("2026"), "something of a row is in the file: {stream}");
    workdir.fails("init --from rides.csv --as ada", 1, "nothing is overwritten");
    workdir.fails("init", 1, "nothing is overwritten");
    assert!(workdir.good("runs").contains("no run yet"));
    assert!(workdir.good("watch").contains("no run yet"));
    // Unedited, it is refused with the line.
    workdir.fails(next[0], 1, "columns");
    state_bounds(&workdir);
    workdir.good(next[0]);
    workdir.good(next[1]);
    workdir.good(&next[2].replace("TIME", "2026-04-01"));
    let then = printed.lines().last().and_then(|line| line.split("sage ").nth(1)).expect("a last command");
    let submit = then.replace(" --wait", "");
    workdir.good(&submit);
    // One process watches while another works.
    let mut watching = workdir.command(&["watch", "1", "--json", "--timeout", "300"]);
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    workdir.good("work");
    let output = watching.wait_with_output().expect("an end");
    let (out, err) = (crate::stdout(&output), crate::stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    events.iter().for_each(crate::story::documented);
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert!(kinds.ends_with(&["attempt", "verdict", "end"]), "{out}");
    assert_eq!(events.last().expect("an end")["release"], "rides-count@1", "{out}");
    let seen = workdir.good("watch");
    assert!(
        seen.contains("run 1 (rides-count): attempt 1: epsilon ") && seen.contains("accepted, released as"),
        "{seen}"
    );
    assert_eq!(workdir.json("features get rides-count")["lines"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_directory_without_a_file_is_a_sample_that_works_and_parquet_has_types() {
    let workdir = Workdir::new();
    let printed = workdir.good("init city --name trips --as ada");
    assert!(printed.contains("is a sample") && printed.contains("--dir city --as ada"), "{printed}");
    workdir.good("stream create city/stream.toml --dir city --as ada");
    assert!(workdir.good("stream show trips --dir city").contains("trips"));
    workdir.good("plan city/pipeline.toml --dir city --as ada");
    workdir.good("generate taxi --rows 2_000 --start 2026-01-01 --out rides");
    let file = workdir.path("rides").read_dir().expect("files").flatten().map(|entry| entry.path());
    let file = file.filter(|path| path.extension().is_some_and(|kind| kind == "parquet")).min().expect("a file");
    let printed = workdir.good(&format!("init taxi --from {} --name taxi --as ada", file.display()));
    let stream = std::fs::read_to_string(workdir.path("taxi/stream.toml")).expect("the file");
    for part in ["name = \"airport\"\ntype = \"boolean\"", "name = \"vendor\"\ntype = \"integer\"", "time = \"pickup\""]
    {
        assert!(stream.contains(part), "{part}: {stream}");
    }
    assert!(printed.contains("are marked") && !stream.contains("type = \"?\""), "{printed}{stream}");
    std::fs::write(workdir.path("no.ndjson"), "{\"a\": 1}\n").expect("written");
    workdir.fails("init other --from no.ndjson --as ada", 1, "it has no header");
    workdir.fails("init other --from nowhere.csv --as ada", 1, "cannot be read");
    workdir.fails("init other --name Other --as ada", 2, "a stream cannot be called");
    assert!(!workdir.path("other").exists(), "a refusal leaves nothing");
}

#[test]
fn watching_ends_with_the_runs_own_code() {
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.variant(
        "examples/speed.toml",
        "never.toml",
        &[
            ("target = 4.0", "target = 0.000001"),
            ("[validate]", "[adapt]\nstrategy = \"frugal\"\nattempts = 1\n[validate]"),
        ],
    );
    workdir.good("submit never.toml --as mia");
    let early = workdir.run("watch 1 --timeout 1");
    assert_eq!(early.code, Some(11), "{}", early.err);
    assert!(
        early.out.contains("run 1 (speed-by-vendor): waiting") && early.err.contains("sage work does"),
        "{}",
        early.err
    );
    workdir.good("work");
    let printed = workdir.fails("watch 1", 11, "run 1 is out of attempts");
    assert!(printed.contains("sage explain 1"), "{printed}");
    workdir.good("submit examples/speed.toml --as mia");
    workdir.good("cancel 2 --as mia");
    workdir.fails("watch 2", 1, "run 2 is cancelled");
    workdir.fails("watch 9", 14, "run 9");
    // With several runs, the exit code is of the first that was not accepted.
    workdir.fails("watch", 11, "run 1");
}

#[test]
fn a_server_is_followed_by_its_events() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let mia = workdir.good("token create --as mia").trim().to_owned();
    let carl = workdir.good("token create --as carl").trim().to_owned();
    // An address of its own: after the server has stopped, no other test answers there.
    let serving = Serving::from(workdir.command(&["serve", "--listen", "127.20.0.2:0", "--disclosure-interval", "1"]));
    let address = serving.address();
    let watch = |token: &str, more: &[&str]| {
        let mut command = workdir.command(&["watch"]);
        command.args(more).args(["--server", &address, "--timeout", "300"]).env("SAGE_TOKEN", token);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs")
            .wait_with_output()
            .expect("an end")
    };
    assert!(crate::stdout(&watch(&mia, &[])).contains("no run yet"));
    let text = std::fs::read_to_string(workdir.path("examples/duration.toml")).expect("an example");
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, &text).status, 201);
    let output = watch(&mia, &["1"]);
    let out = crate::stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{}", crate::stderr(&output));
    assert!(out.contains(": accept: ") && out.contains("released as taxi-duration@1"), "{out}");
    for (token, more, code) in [(&carl, &["1"][..], 13), (&"wrong".to_owned(), &[], 13), (&mia, &["7"], 14)] {
        let output = watch(token, more);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", crate::stderr(&output));
    }
    drop(serving);
    let gone = watch(&mia, &["1"]);
    assert_eq!(gone.status.code(), Some(69), "{}", crate::stderr(&gone));
    let mut without = workdir.command(&["watch", "--server", &address]);
    let without = without.env_remove("SAGE_TOKEN").output().expect("it runs");
    assert_eq!(without.status.code(), Some(2), "{}", crate::stderr(&without));
}

#[test]
fn the_tutorial_works_as_it_stands() {
    let script = script_of("docs/guide/tutorial.md");
    for wanted in
        ["sage init", "sage ingest", "sage submit", "sage watch", "sage explain", "sage predict", "sage budget"]
    {
        assert!(script.contains(wanted), "the tutorial does not show {wanted}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let said = run_script(folder.path(), &script, &[]);
    for part in ["released as rides-minutes@1", "more runs like rides-minutes", "nothing is wrong"] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
}
