//! `sage demo` with a small year: everything is released, and the dashboard is a server.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::http::Serving;
use crate::story::documented;
use crate::workdir::Workdir;
use crate::{sage, stderr};

/// Checks of the final report that do not depend on noise.
fn is_a_good_end(end: &Value) {
    documented(end);
    let runs = end["runs"].as_array().expect("runs");
    let names: Vec<&str> = runs.iter().filter_map(|run| run["pipeline"].as_str()).collect();
    assert_eq!(
        names,
        ["duration-line", "duration-network", "speed-by-hour", "speed-by-weekday", "speed-by-week-of-month"]
    );
    for run in runs {
        assert_eq!(run["status"], "accepted", "{run:#}");
        let name = run["pipeline"].as_str().expect("a name");
        assert_eq!(run["release"], format!("{name}@1"), "{run:#}");
        let attempts = run["attempts"].as_array().expect("attempts");
        assert_eq!(attempts.last().expect("an attempt")["verdict"], "accept", "{run:#}");
    }
    assert_eq!((&end["accepted"], end["releases"].as_array().map(Vec::len)), (&5.into(), Some(5)));
    let budget = &end["budget"];
    let lost: f64 = budget["epsilon_lost"].as_str().and_then(|lost| lost.parse().ok()).expect("a number");
    assert!(lost > 0.0 && lost <= 1.0, "{budget}");
    assert_eq!(budget["blocks"]["sealed"], 365, "{budget}");
    assert!(budget["blocks_read"].as_u64().is_some_and(|read| (1..=365).contains(&read)), "{budget}");
    let answers = end["prediction"]["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 2, "{end:#}");
    for answer in answers {
        let minutes = answer["minutes"].as_f64().expect("a number");
        assert!((2.0..40.0).contains(&minutes), "a ride of 2.5 miles takes {minutes} minutes: {answer}");
    }
    assert!(end["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn a_year_passes_and_leaves_a_directory_like_any_other() {
    let workdir = Workdir::new();
    let output = workdir.run("demo --once --json --rows 1_500_000 --dir year");
    assert_eq!(output.code, Some(0), "{}", output.err);
    let end: Value = serde_json::from_str(&output.out).expect("one JSON object");
    is_a_good_end(&end);
    assert_eq!(end["dashboard"], Value::Null);
    // Without a terminal, progress is plain lines: one per month, attempt and verdict.
    for part in ["2026-02-0", "2026-12-0", "speed-by-hour: attempt 1: epsilon ", "duration-line: ✓ attempt "] {
        assert!(output.err.contains(part), "{part:?} is missing in\n{}", output.err);
    }
    assert!(!output.err.contains('\u{1b}'), "colour without a terminal");
    // The directory is a real one: the log verifies, budgets agree, models predict.
    assert!(workdir.good("doctor --dir year").contains("nothing is wrong"));
    assert_eq!(workdir.json("runs --dir year").as_array().map(Vec::len), Some(5));
    assert_eq!(workdir.json("budget taxi --dir year")["epsilon_lost"], end["budget"]["epsilon_lost"]);
    assert_eq!(workdir.json("features get speed-by-hour --dir year")["lines"].as_array().map(Vec::len), Some(24));
    assert!(!workdir.path("year/rides").exists(), "the ingested ride files are gone");
    workdir.fails("demo --once --dir year", 1, "is not empty, and nothing in it is overwritten");
    workdir.fails("demo --once --rows 5", 2, "--rows must be a whole number of at least");
}

#[test]
fn the_dashboard_is_a_server_and_a_temporary_directory_goes_with_it() {
    let workdir = Workdir::new();
    let mut command = crate::program();
    // A directory in the environment is not touched.
    command
        .args(["demo", "--rows", "1_500_000"])
        .env("SAGE_DIR", workdir.path("other"))
        .env("SAGE_BLOCKS", workdir.path("b"));
    let mut child =
        command.env("TMPDIR", workdir.path("")).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let mut text = String::new();
    let mut token = None;
    let address = loop {
        let line = lines.next().unwrap_or_else(|| panic!("it ended before its address:\n{text}"));
        text += &format!("{line}\n");
        token = line.trim().strip_prefix("token  ").map(str::to_owned).or(token);
        // The server prints its address last, once it is ready.
        if let Some(address) = line.strip_prefix("http://") {
            break address.to_owned();
        }
    };
    for part in ["✓ duration-line@1", "✓ speed-by-weekday@1", "Lost so far: epsilon ", " minutes by duration-network@1"]
    {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(text.contains(&format!("http://{address}/login")), "{text}");
    let serving = Serving::at(child, &address);
    let token = token.expect("a token");
    for (path, part) in [("/", "taxi"), ("/runs", "speed-by-week-of-month"), ("/releases/duration-line/1", "Try it")] {
        let page = serving.get(path, &token);
        assert!(page.status == 200 && page.body.contains(part), "{path}: {} {}", page.status, page.body);
    }
    let demos = || {
        let names = workdir.path("").read_dir().expect("a folder").flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with("sage-demo-")).count()
    };
    assert_eq!(demos(), 1);
    assert_eq!(serving.stop(), Some(0));
    assert_eq!(demos(), 0, "a temporary directory stays");
    assert!(!workdir.path("other").exists() && !workdir.path("b").exists());
}

#[test]
fn a_closed_standard_output_is_not_a_failure() {
    for arguments in [
        &["simulate", "--blocks", "20"][..],
        &["simulate", "--blocks", "20", "--json"],
        &["help"],
        &["help", "account"],
    ] {
        let mut child = crate::program()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let mut output = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut output).expect("text");
        let status = child.wait().expect("it ends");
        assert!(output.is_empty() && status.code() == Some(0), "{arguments:?}: {status:?} {output}");
    }
    let output = sage(["help", "demo"]);
    assert!(crate::stdout(&output).contains("--once") && stderr(&output).is_empty());
}
