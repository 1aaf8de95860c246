//! Mutation testing of kernel and numerics: every change of an operator, a comparison or a result must fail a test.
//!
//! A mutant that survives the tests and is not explained in `SURVIVORS` fails the run. The counts of a run
//! over all files are written to a file to be committed in `experiments/runs`, where `cargo xtask trust` reads them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::workspace::{self, Failure, list, text};

/// Known survivors, each with the reason why no test kills it.
const SURVIVORS: &str = "xtask/mutants-survivors.toml";

const VERSION: &str = "27.1.0";

/// The name of the file with the counts of a run.
const SCORE: &str = "mutants.json";

const RUNS: &str = "experiments/runs/";

/// The outcomes of one run.
#[derive(Default)]
struct Outcomes {
    caught: usize,
    timeout: usize,
    unviable: usize,
    /// The names of the survivors, without line and column, and the number of mutants with that name.
    missed: BTreeMap<String, usize>,
}

/// Runs the mutants of the given files, or of all files of kernel and numerics.
pub(crate) fn run(files: &[&str]) -> Result<(), Failure> {
    install()?;
    let explained = explained(&workspace::read(SURVIVORS)?)?;
    let folder = workspace::target_directory()?.join("mutants");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let packages = ["--package", "sage-kernel", "--package", "sage-numerics"];
    let tests = ["--test-package", "sage-kernel,sage-numerics", "--features", "sage-kernel/seeded"];
    let mut command = workspace::cargo(&[&["mutants", "--no-shuffle"], &packages[..], &tests].concat());
    for file in files {
        command.args(["--file", file]);
    }
    command.arg("--output").arg(&folder);
    // Survivors and timeouts have their own exit codes; they are evaluated below.
    let status = command.status().map_err(|error| format!("cargo mutants does not start: {error}"))?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("{} ended with {status}", workspace::command_line(&command)));
    }
    let report = folder.join("mutants.out/outcomes.json");
    let report = std::fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let report: Value = serde_json::from_str(&report).map_err(|error| format!("outcomes.json: {error}"))?;
    let outcomes = outcomes(&report);
    let unexplained = unexplained(&outcomes, &explained);
    let score = score(&outcomes, unexplained.len());
    println!("mutants: {}", summary(&score));
    if files.is_empty() {
        let kept = folder.join(SCORE);
        std::fs::write(&kept, format!("{score}\n")).map_err(|error| format!("{}: {error}", kept.display()))?;
        println!("commit {} in a folder of {RUNS}", kept.display());
    }
    if unexplained.is_empty() {
        return Ok(());
    }
    Err(format!(
        "mutants: add a failing test for each of these, or a reason to {SURVIVORS}:\n{}",
        unexplained.join("\n")
    ))
}

fn install() -> Result<(), Failure> {
    let mut version = workspace::cargo(&["mutants", "--version"]);
    if version.output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    workspace::run(&mut workspace::cargo(&["install", "cargo-mutants", "--locked", "--version", VERSION]))
}

fn outcomes(report: &Value) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for outcome in list(report, "outcomes") {
        match text(outcome, "summary") {
            "CaughtMutant" => outcomes.caught += 1,
            "Timeout" => outcomes.timeout += 1,
            "Unviable" => outcomes.unviable += 1,
            "MissedMutant" => {
                let name = without_position(text(&outcome["scenario"]["Mutant"], "name"));
                *outcomes.missed.entry(name).or_default() += 1;
            }
            _ => {}
        }
    }
    outcomes
}

/// Removes `:12:5` from `src/a.rs:12:5: replace + with - in f`, so that the list survives edits above the line.
fn without_position(name: &str) -> String {
    let (position, change) = name.split_once(": ").unwrap_or((name, ""));
    let file = position.split(':').next().unwrap_or(position);
    format!("{file}: {change}")
}

/// The names of known survivors, each with the number of mutants that may have it.
fn explained(listed: &str) -> Result<BTreeMap<String, usize>, Failure> {
    let table: toml::Table = listed.parse().map_err(|error| format!("{SURVIVORS}: {error}"))?;
    let entries = table.get("survivor").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut names = BTreeMap::new();
    for entry in entries {
        let field = |key: &str| entry.get(key).and_then(toml::Value::as_str).filter(|text| !text.trim().is_empty());
        let (Some(mutant), Some(_)) = (field("mutant"), field("reason")) else {
            return Err(format!("{SURVIVORS}: each survivor needs a `mutant` and a `reason`"));
        };
        let count = entry.get("count").and_then(toml::Value::as_integer).unwrap_or(1);
        names.insert(mutant.to_owned(), usize::try_from(count).unwrap_or(0));
    }
    Ok(names)
}

fn unexplained(outcomes: &Outcomes, explained: &BTreeMap<String, usize>) -> Vec<String> {
    let allowed = |name: &String| explained.get(name).copied().unwrap_or(0);
    let beyond = outcomes.missed.iter().filter(|(name, count)| **count > allowed(name));
    beyond.map(|(name, count)| format!("{name} ({count} times, {} explained)", allowed(name))).collect()
}

fn score(outcomes: &Outcomes, unexplained: usize) -> Value {
    let missed: usize = outcomes.missed.values().sum();
    json!({
        "caught": outcomes.caught,
        "timeout": outcomes.timeout,
        "missed": missed,
        "unexplained": unexplained,
        "unviable": outcomes.unviable,
    })
}

/// The counts of a run in one line.
fn summary(score: &Value) -> String {
    let count = |key: &str| score[key].as_u64().unwrap_or(0);
    let killed = count("caught") + count("timeout");
    let all = killed + count("missed");
    format!("{killed} of {all} killed, {} survivors, {} of them unexplained", count("missed"), count("unexplained"))
}

/// The counts of the newest committed run, with its folder, in one line.
pub(crate) fn newest(files: &[String]) -> Result<String, Failure> {
    let kept = files.iter().filter(|path| path.starts_with(RUNS) && path.ends_with(&format!("/{SCORE}")));
    let Some(path) = kept.max() else { return Ok("no committed run".to_owned()) };
    let score: Value = serde_json::from_str(&workspace::read(path)?).map_err(|error| format!("{path}: {error}"))?;
    Ok(format!("{} ({path})", summary(&score)))
}

#[cfg(test)]
mod tests {
    use super::{explained, outcomes, score, summary, unexplained};
    use serde_json::json;

    fn report() -> serde_json::Value {
        let mutant = |summary: &str, name: &str| json!({"summary": summary, "scenario": {"Mutant": {"name": name}}});
        json!({"outcomes": [
            {"summary": "Success", "scenario": "Baseline"},
            mutant("CaughtMutant", "src/a.rs:1:1: replace + with - in f"),
            mutant("Timeout", "src/a.rs:2:1: replace < with > in f"),
            mutant("Unviable", "src/a.rs:3:1: replace f -> T with Default::default()"),
            mutant("MissedMutant", "src/a.rs:4:1: replace * with + in g"),
            mutant("MissedMutant", "src/a.rs:9:7: replace * with + in g"),
        ]})
    }

    #[test]
    fn a_survivor_without_a_reason_is_named() {
        let outcomes = outcomes(&report());
        let name = "src/a.rs: replace * with + in g";
        assert_eq!(unexplained(&outcomes, &Default::default()), [format!("{name} (2 times, 0 explained)")]);
        let listed = |count: u32| format!("[[survivor]]\nmutant = \"{name}\"\ncount = {count}\nreason = \"a guess\"\n");
        for (count, left) in [(1, 1), (2, 0)] {
            let explained = explained(&listed(count)).unwrap_or_default();
            assert_eq!(unexplained(&outcomes, &explained).len(), left);
        }
        assert_eq!(summary(&score(&outcomes, 1)), "2 of 4 killed, 2 survivors, 1 of them unexplained");
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        assert!(explained("[[survivor]]\nmutant = \"src/a.rs: replace + with - in f\"\nreason = \" \"\n").is_err());
        assert!(explained("").is_ok_and(|names| names.is_empty()));
    }
}
