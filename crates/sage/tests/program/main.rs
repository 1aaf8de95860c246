//! Tests of the program: its output, exit codes and help. One test binary for all of it.

mod account;
mod audit;
mod authority;
mod browser;
mod charged;
mod clients;
mod crash;
mod demo;
mod disclosure;
mod document;
mod explained;
mod generate;
mod hostile;
mod hostile_requests;
mod http;
mod keeping;
mod load;
mod log;
mod manual;
mod matrix;
mod members;
mod neighbours;
mod newcomer;
mod observed;
mod operator;
mod packaging;
mod pages;
mod place;
mod progress;
mod query;
mod refusals;
mod rest;
mod rows;
mod schemathesis;
mod server;
mod serving;
mod shape;
mod simulate;
mod standing;
mod story;
mod ticks;
mod usage;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Runs the program with these arguments, without a terminal.
fn sage<Argument: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = Argument>) -> Output {
    program().args(arguments).output().expect("the program runs")
}

/// The program, independent of the settings of the user who runs the tests.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sage"));
    without_settings(&mut command);
    command
}

/// Removes the settings of the user who runs the tests: variables, and the file in the home directory.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SAGE_") || name.to_string_lossy().starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    command.env_remove("USER").env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-settings"));
}

/// How long a test waits for what must happen on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until a condition holds; fails with this text if it never does.
fn wait_until(never: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{never}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a text shows this whole number by itself. The digits of times, of noisy numbers and of digests do not count:
/// they contain any short number now and then.
fn shows(text: &str, number: &str) -> bool {
    let is_part = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_alphanumeric() || sign == '.');
    text.match_indices(number)
        .any(|(at, _)| !is_part(text[..at].chars().next_back()) && !is_part(text[at + number.len()..].chars().next()))
}

#[test]
fn a_number_is_shown_by_itself_only() {
    for text in ["stored 14987 rows", "14987", "{\"rows\":14987}", "n=14987,"] {
        assert!(shows(text, "14987"), "{text}");
    }
    for text in ["0.314987", "1149870", "ab14987cd", "14987.25", "2026-11-19T10:00:00.14987Z", ""] {
        assert!(!shows(text, "14987"), "{text}");
    }
}

/// The arguments of a command line without quotes.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The result of `sage account` as JSON.
fn answer(line: &str) -> serde_json::Value {
    let output = sage(words(&format!("account {line} --json")));
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "{line}: talk on standard error");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A number of a result.
fn number(answer: &serde_json::Value, key: &str) -> f64 {
    answer[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number in {answer}"))
}
