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
mod disclosure_interval;
mod document;
mod explained;
mod former_names;
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
mod usage;
mod workdir;

use std::process::{Command, Output};

/// Runs the program with these arguments, without a terminal.
fn sage<Argument: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = Argument>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sage")).args(arguments).output().expect("the program runs")
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
