//! `cargo xtask check`: exactly what CI runs. It first prints the expected time and the steps. Every step runs, even
//! after one has failed, and the summary at the end lists the failures.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::workspace::{self, Failure};
use crate::{bench, bucket, coq, deny, instructions, packages, pages, seeded, tidy, trust};

const EXPERIMENTS: &str = "experiments/Cargo.toml";

const FUZZ: &str = "fuzz/Cargo.toml";

/// The expected times, printed before the first step.
const TIMES: &str = "xtask/check-times.toml";

/// The work of a step.
enum Work {
    Run(Command),
    Call(fn() -> Result<(), Failure>),
}

struct Step {
    name: &'static str,
    work: Work,
}

struct Outcome {
    name: &'static str,
    time: Duration,
    failure: Option<Failure>,
}

/// The steps that every change must pass.
pub(crate) fn everyday() -> Result<(), Failure> {
    let mut steps = everyday_steps()?;
    if packages::in_ci() {
        steps.insert(0, call("packages", packages::for_tests));
    }
    println!("{}", introduction("everyday", &workspace::read(TIMES)?, &steps)?);
    perform(steps)
}

/// The everyday steps and those that need large installs. Changes to the parts they cover must pass them.
pub(crate) fn everything() -> Result<(), Failure> {
    let mut steps = everyday_steps()?;
    steps.splice(0..0, [call("packages", packages::for_tests), call("install cargo-deny", deny::install)]);
    let target = workspace::target_directory()?;
    let lint = ["clippy", "--manifest-path", FUZZ, "--all-targets", "--", "-D", "warnings"];
    steps.push(beside("lint fuzz targets", &target, &lint));
    steps.push(beside("fuzz targets on their seeds", &target, &["test", "--manifest-path", FUZZ]));
    steps.push(call("lemmas in Coq", coq::check));
    steps.push(call("bundles in Python", bundles_in_python));
    steps.push(call("own code in Python", own_code_in_python));
    steps.push(call("missing values in DuckDB", missing_values_in_duckdb));
    steps.push(call("blocks in a bucket", bucket::check));
    steps.push(call("clients in Python", clients_in_python));
    steps.push(call("pages in a browser", pages::check));
    steps.push(call("bench kernel, with peers", || bench::run(&["kernel"])));
    steps.push(call("bench learn, with peers", || bench::run(&["learn"])));
    steps.push(call("bench learn on AVX2, with peers", || bench::run(&["learn", "--arch", "avx2"])));
    steps.push(call("bench engine, with peers", || bench::run(&["engine"])));
    steps.push(call("bench loop", || bench::run(&["loop"])));
    steps.push(call("bench server, with peers", || bench::run(&["server"])));
    println!("{}", introduction("all", &workspace::read(TIMES)?, &steps)?);
    perform(steps)
}

fn everyday_steps() -> Result<Vec<Step>, Failure> {
    let target = workspace::target_directory()?;
    let seeded_kernel = ["-p", "sage-kernel", "--features", "seeded"];
    let deny_warnings = ["--all-targets", "--", "-D", "warnings"];
    let mut steps = vec![
        cargo("format", &["fmt", "--all", "--check"]),
        cargo("lint", &[&["clippy", "--workspace"], &deny_warnings[..]].concat()),
        cargo("lint seeded", &[&["clippy"], &seeded_kernel[..], &deny_warnings].concat()),
        cargo("test", &["test", "--workspace", "--exclude", "sage-kernel", "--no-fail-fast"]),
        cargo("test kernel", &[&["test"], &seeded_kernel[..]].concat()),
        // The compile errors differ without seeded noise.
        cargo("compile-fail tests without seeded noise", &["test", "-p", "sage-kernel", "--test", "compile_fail"]),
        call("auditor", auditor),
    ];
    if workspace::exists(EXPERIMENTS) {
        let manifest = ["--manifest-path", EXPERIMENTS];
        let lint = [&["clippy"], &manifest[..], &deny_warnings].concat();
        steps.extend([
            beside("format experiments", &target, &["fmt", manifest[0], manifest[1], "--check"]),
            beside("lint experiments", &target, &lint),
            beside("test experiments", &target, &[&["test"], &manifest[..]].concat()),
        ]);
    }
    steps.extend([
        beside("format fuzz targets", &target, &["fmt", "--manifest-path", FUZZ, "--check"]),
        call("tidy", tidy::check),
        call("trusted code", || trust::show(trust::Format::Text)),
        call("deny", deny::check),
        documentation(),
        call("no seeded noise in the product", seeded::check),
        // After the product is built, since it shares the libraries of the release build.
        call("instructions of the hot loops", instructions::check),
    ]);
    Ok(steps)
}

/// Runs the tests of the auditor, a separate Python program.
fn auditor() -> Result<(), Failure> {
    let mut command = Command::new("python3");
    command.args(["-m", "unittest", "discover", "tools"]).current_dir(workspace::root());
    workspace::run(&mut command)
}

/// Runs the bundle tests with a Python environment that has onnxruntime.
fn bundles_in_python() -> Result<(), Failure> {
    let python = bench::virtual_environment("bundle", "xtask/peers/bundle_requirements.txt")?;
    let mut command = workspace::test_program("bundle", &[]);
    workspace::run(command.env("SAGE_PYTHON", python))
}

/// Runs the example programs of the documentation on own code, in a sandbox with a Python environment that they need.
fn own_code_in_python() -> Result<(), Failure> {
    let python = bench::system_environment("own_code", "xtask/peers/own_code_requirements.txt")?;
    let mut command = workspace::test_program("own_code", &["the_documented_program"]);
    workspace::run(command.env("SAGE_OWN_CODE_PYTHON", python))
}

/// Runs the tests of missing values with a Python environment that has DuckDB, to compare random tables.
fn missing_values_in_duckdb() -> Result<(), Failure> {
    let python = bench::virtual_environment("engine", "xtask/peers/engine_requirements.txt")?;
    let mut command = workspace::test_program("work", &["missing"]);
    workspace::run(command.env("SAGE_DUCKDB_PYTHON", python))
}

/// Runs the server tests with third-party Python clients, including Schemathesis, which generates requests.
fn clients_in_python() -> Result<(), Failure> {
    let python = bench::virtual_environment("clients", "xtask/peers/clients_requirements.txt")?;
    for tests in ["clients", "schemathesis"] {
        let mut command = workspace::test_program("program", &[tests]);
        workspace::run(command.env("SAGE_CLIENTS_PYTHON", &python))?;
    }
    Ok(())
}

fn cargo(name: &'static str, arguments: &[&str]) -> Step {
    Step { name, work: Work::Run(workspace::cargo(arguments)) }
}

/// Cargo on a workspace beside the product's, with the same target directory.
fn beside(name: &'static str, target: &Path, arguments: &[&str]) -> Step {
    let mut command = workspace::cargo(arguments);
    command.env("CARGO_TARGET_DIR", target);
    Step { name, work: Work::Run(command) }
}

fn documentation() -> Step {
    let mut command = workspace::cargo(&["doc", "--no-deps", "--workspace"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    Step { name: "docs", work: Work::Run(command) }
}

fn call(name: &'static str, function: fn() -> Result<(), Failure>) -> Step {
    Step { name, work: Work::Call(function) }
}

/// The expected time of a run, from the section of `TIMES` with this name, and the steps.
fn introduction(section: &str, times: &str, steps: &[Step]) -> Result<String, Failure> {
    let table: toml::Table = times.parse().map_err(|error| format!("{TIMES}: {error}"))?;
    let missing = |key: &str| format!("{TIMES}: `{key}` of `{section}` is missing or has the wrong type");
    let value = |key: &str| table.get(section).and_then(|section| section.get(key)).ok_or_else(|| missing(key));
    let minutes = |key: &str| value(key)?.as_integer().ok_or_else(|| missing(key));
    let basis = value("basis")?.as_str().ok_or_else(|| missing("basis"))?;
    let cores = table.get("cores").and_then(toml::Value::as_integer).ok_or_else(|| missing("cores"))?;
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    Ok(format!(
        "check: about {} minutes from a clean target directory and {} with a warm one, on {cores} cores \
         ({basis}; the figures are in {TIMES})\ncheck: {} steps: {}",
        minutes("clean")?,
        minutes("warm")?,
        names.len(),
        names.join(", ")
    ))
}

fn perform(steps: Vec<Step>) -> Result<(), Failure> {
    let outcomes: Vec<Outcome> = steps.into_iter().map(perform_step).collect();
    let time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    println!("\n{}", summary(&outcomes));
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let good = outcomes.len() - failed;
    println!("check: {good} of {} steps good, {:.1} minutes", outcomes.len(), time.as_secs_f64() / 60.0);
    if failed == 0 { Ok(()) } else { Err(format!("check: {failed} steps bad")) }
}

fn perform_step(step: Step) -> Outcome {
    let start = Instant::now();
    let result = match step.work {
        Work::Run(mut command) => {
            println!("\n== {}: {}", step.name, workspace::command_line(&command));
            workspace::run(&mut command)
        }
        Work::Call(function) => {
            println!("\n== {}", step.name);
            function()
        }
    };
    let outcome = Outcome { name: step.name, time: start.elapsed(), failure: result.err() };
    println!("{}", verdict(&outcome));
    outcome
}

fn verdict(outcome: &Outcome) -> String {
    let seconds = outcome.time.as_secs_f64();
    match &outcome.failure {
        None => format!("== {}: good, {seconds:.1} s", outcome.name),
        Some(failure) => format!("== {}: BAD, {seconds:.1} s: {failure}", outcome.name),
    }
}

fn summary(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(verdict).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{TIMES, call, introduction, perform};
    use crate::workspace;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_introduction_states_the_expected_time_and_the_steps() {
        let steps = [call("format", || Ok(())), call("lint", || Ok(()))];
        let times = "cores = 2\n[everyday]\nclean = 90\nwarm = 15\nbasis = \"measured 2026-11-18\"\n";
        let printed = introduction("everyday", times, &steps).unwrap();
        assert!(printed.contains("about 90 minutes from a clean target directory and 15 with a warm one, on 2 cores"));
        assert!(printed.contains("measured 2026-11-18") && printed.contains("2 steps: format, lint"));
        assert!(introduction("all", times, &steps).is_err());
        assert!(introduction("everyday", "cores = 2\n[everyday]\nclean = 90\n", &steps).is_err());
    }

    #[test]
    fn the_recorded_times_can_be_read() {
        let times = workspace::read(TIMES).unwrap();
        for section in ["everyday", "all"] {
            assert!(introduction(section, &times, &[]).is_ok(), "{section}");
        }
    }

    static AFTER: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_bad_step_fails_the_check_and_the_rest_still_runs() {
        let steps = vec![
            call("bad", || Err("no".to_owned())),
            call("after", || {
                AFTER.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }),
        ];
        assert_eq!(perform(steps), Err("check: 1 steps bad".to_owned()));
        assert_eq!(AFTER.load(Ordering::SeqCst), 1);
        assert_eq!(perform(vec![call("good", || Ok(()))]), Ok(()));
    }
}
