//! `sage generate`: its files, its output, and that it overwrites nothing.

use std::path::PathBuf;

use crate::{sage, stderr, stdout, words};

/// A path for one test, which does not exist yet.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    folder
}

fn generate(line: &str, out: &PathBuf) -> std::process::Output {
    let mut arguments: Vec<std::ffi::OsString> = words(line).into_iter().map(Into::into).collect();
    arguments.extend(["--out".into(), out.into()]);
    sage(["generate".into(), "taxi".into()].into_iter().chain(arguments))
}

#[test]
fn rides_are_written_once() {
    let out = folder("rides");
    let first = generate("--rows 100_000 --start 2026-01-01", &out);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    assert!(stdout(&first).starts_with("100000 synthetic taxi rides, seed 1, in 2 files"), "{}", stdout(&first));
    let again = generate("--rows 100_000 --start 2026-01-01", &out);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("is not empty, and nothing in it is overwritten"), "{}", stderr(&again));
    std::fs::remove_dir_all(&out).expect("removed");
}

#[test]
fn the_answer_can_be_json() {
    let out = folder("json");
    let output = generate("--rows 10 --start 2026-01-01 --end 2026-01-03 --seed 5 --files 1 --json", &out);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((&answer["rows"], &answer["seed"]), (&10.into(), &5.into()));
    assert_eq!(answer["files"].as_array().map(Vec::len), Some(1));
    std::fs::remove_dir_all(&out).expect("removed");
}

#[test]
fn wrong_flags_are_named() {
    let out = folder("never");
    for (line, said) in [
        ("--rows many --start 2026-01-01", "--rows must be a whole number, got \"many\"\n  help  --rows 1000000"),
        ("--rows 0 --start 2026-01-01", "--rows: the number of rows must be from 1"),
        ("--rows -1 --start 2026-01-01", "--rows must be a whole number, got \"-1\""),
        ("--rows 1 --start yesterday", "--start: a day is written as 2026-11-01"),
        ("--rows 1 --start 2026-02-30", "got \"2026-02-30\"\n  help  --start 2026-01-01"),
        ("--rows 1 --start 2026-01-01 --end 2026-01-01", "--end: the end must be a day after the start"),
        ("--rows 1 --start 2026-01-01 --files 0", "--files: the number of files must be from 1 to 10000"),
        ("--rows 1 --start 2026-01-01 --seed x", "--seed must be a whole number, got \"x\""),
        ("--start 2026-01-01", "--rows <NUMBER>"),
    ] {
        let output = generate(line, &out);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(said), "{line}: {}", stderr(&output));
        assert!(!out.exists(), "{line}");
    }
}
