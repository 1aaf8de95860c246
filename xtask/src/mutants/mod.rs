//! Mutation testing of kernel and numerics: every change of an operator, a comparison or a result must fail a test.
//!
//! All mutants are in one build, each behind a switch (`schema`), so that a run costs one build and some minutes of
//! tests instead of a build per mutant: see `docs/internals/mutants.md`. A mutant that survives the tests and is not
//! explained in `SURVIVORS` fails the run. The counts of a run over all files are written to a file to be committed in
//! `experiments/runs`, where `cargo xtask trust` reads them.

mod build;
mod operators;
mod planter;
mod schema;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::workspace::{self, Failure};
use schema::{Kind, Mutant};
use trial::Verdict;

/// Known survivors, each with the reason why no test kills it.
const SURVIVORS: &str = "xtask/mutants-survivors.toml";

/// The name of the file with the counts of a run.
const SCORE: &str = "mutants.json";

/// The name of the file with the mutants that are killed so far.
const JOURNAL: &str = "killed.jsonl";

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

/// Runs the mutants of the given files, or of all files of kernel and numerics; with `--resume` only those that no
/// earlier run killed and that are not explained, with `--literals` also those of literal numbers.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let explained = explained(&workspace::read(SURVIVORS)?)?;
    let folder = workspace::target_directory()?.join("mutants");
    let reached = folder.join("reached");
    std::fs::create_dir_all(&reached).map_err(|error| format!("{}: {error}", reached.display()))?;
    let mut copy = build::Copy::new(folder.join("copy"))?;
    let programs = copy.build()?;
    let journal = Journal { path: folder.join(JOURNAL) };
    let resumed = arguments.contains(&"--resume");
    let mut verdicts = if resumed { journal.read(&copy.plan.mutants) } else { journal.clear()? };
    let done: BTreeSet<schema::Id> = verdicts.iter().map(|(mutant, _)| mutant.id).collect();
    let files: Vec<&str> = arguments.iter().copied().filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |mutant: &&Mutant| {
        let named = files.is_empty() || files.contains(&mutant.file.as_str());
        (named && (mutant.kind != Kind::Literal || arguments.contains(&"--literals")))
            && !done.contains(&mutant.id)
            && (mutant.kind != Kind::Constant || copy.plan.used.contains(&mutant.id))
            && !copy.plan.dropped.contains(&mutant.id)
    };
    let mut chosen: Vec<Mutant> = copy.plan.mutants.iter().filter(is_chosen).cloned().collect();
    let is_explained = |mutant: &Mutant| explained.iter().any(|one| one.matches(&full_name(mutant)));
    if resumed {
        let known = chosen.extract_if(.., |mutant| is_explained(mutant));
        verdicts.extend(known.map(|mutant| (mutant, Verdict::Missed)));
    }
    // What an interrupted run leaves out should matter least.
    let slow = |mutant: &Mutant| {
        (
            mutant.file.ends_with("sage-numerics/src/grid.rs"),
            ["/accountant/", "/convolution"].iter().any(|part| mutant.file.contains(part)),
        )
    };
    chosen.sort_by_key(|mutant| (slow(mutant), mutant.kind, !mutant.file.contains("kernel")));
    println!("mutants: {} to run, {} do not compile", chosen.len(), copy.plan.dropped.len());
    let tests = trial::record(&programs, &reached)?;
    verdicts.extend(trial::judge(&programs, &tests, &chosen, &journal, is_explained));
    let outcomes = outcomes(&verdicts, copy.plan.dropped.len());
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

fn full_name(mutant: &Mutant) -> String {
    format!("{}: {}", mutant.file, mutant.name)
}

/// The mutants that a run has killed so far, for `--resume`: one line each.
struct Journal {
    path: PathBuf,
}

impl Journal {
    fn clear(&self) -> Result<Vec<(Mutant, Verdict)>, Failure> {
        std::fs::write(&self.path, "").map_err(|error| format!("{}: {error}", self.path.display()))?;
        Ok(Vec::new())
    }

    /// Adds a verdict. A line that cannot be written is a mutant that is run again.
    fn add(&self, mutant: &Mutant, verdict: Verdict) {
        let word = match verdict {
            Verdict::Caught => "caught",
            Verdict::Timeout => "timeout",
            Verdict::Missed | Verdict::Unreached => return,
        };
        if let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(&self.path) {
            // In one write, so that lines of two threads do not mix.
            let line = format!("{}\n", json!([mutant.id, full_name(mutant), word]));
            let _ = file.write_all(line.as_bytes());
        }
    }

    /// The verdicts on mutants that are as they were.
    fn read(&self, mutants: &[Mutant]) -> Vec<(Mutant, Verdict)> {
        let lines = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut verdicts = BTreeMap::new();
        for line in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let verdict = if line[2] == "timeout" { Verdict::Timeout } else { Verdict::Caught };
            let index = line[0].as_u64().and_then(|id| usize::try_from(id).ok()?.checked_sub(1));
            let known =
                index.and_then(|index| mutants.get(index)).filter(|mutant| line[1] == full_name(mutant).as_str());
            verdicts.extend(known.map(|mutant| (mutant.id, (mutant.clone(), verdict))));
        }
        verdicts.into_values().collect()
    }
}

fn outcomes(verdicts: &[(Mutant, Verdict)], unviable: usize) -> Outcomes {
    let mut outcomes = Outcomes { unviable, ..Outcomes::default() };
    for (mutant, verdict) in verdicts {
        match verdict {
            Verdict::Caught => outcomes.caught += 1,
            Verdict::Timeout => outcomes.timeout += 1,
            Verdict::Missed | Verdict::Unreached => *outcomes.missed.entry(full_name(mutant)).or_default() += 1,
        }
    }
    outcomes
}

/// Known survivors: a name, in which `…` stands for any text, and the number of mutants that may have it.
struct Explained {
    name: String,
    count: usize,
}

impl Explained {
    fn matches(&self, mutant: &str) -> bool {
        let mut parts = self.name.split('…');
        let Some(mut rest) = parts.next().and_then(|first| mutant.strip_prefix(first)) else { return false };
        for part in parts {
            let Some(at) = (if part.is_empty() { Some(rest.len()) } else { rest.find(part) }) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.is_empty()
    }
}

/// Reads the list of known survivors. A name with `…` explains any number of mutants.
fn explained(listed: &str) -> Result<Vec<Explained>, Failure> {
    let table: toml::Table = listed.parse().map_err(|error| format!("{SURVIVORS}: {error}"))?;
    let entries = table.get("survivor").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut explained = Vec::new();
    for entry in entries {
        let reason = entry.get("reason").and_then(toml::Value::as_str).filter(|text| !text.trim().is_empty());
        let names = entry.get("mutants").and_then(toml::Value::as_array).filter(|names| !names.is_empty());
        let (Some(_), Some(names)) = (reason, names) else {
            return Err(format!("{SURVIVORS}: each survivor needs `mutants` and a `reason`"));
        };
        for name in names.iter().filter_map(toml::Value::as_str) {
            let (name, count) = match name.rsplit_once(" ×") {
                Some((name, count)) => (name, count.parse().map_err(|_| format!("{SURVIVORS}: {name}: {count}"))?),
                None => (name, if name.contains('…') { usize::MAX } else { 1 }),
            };
            explained.push(Explained { name: name.to_owned(), count });
        }
    }
    Ok(explained)
}

fn unexplained(outcomes: &Outcomes, explained: &[Explained]) -> Vec<String> {
    let allowed = |name: &str| {
        let counts = explained.iter().filter(|one| one.matches(name)).map(|one| one.count);
        counts.fold(0, usize::saturating_add)
    };
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
    use super::{Kind, Mutant, Verdict, explained, outcomes, score, summary, unexplained};

    fn verdicts() -> Vec<(Mutant, Verdict)> {
        let mutant = |line: usize, name: &str| Mutant {
            id: 1,
            kind: Kind::Operator,
            file: "src/a.rs".to_owned(),
            line,
            name: name.to_owned(),
        };
        vec![
            (mutant(1, "replace + with - in f"), Verdict::Caught),
            (mutant(2, "replace < with > in f"), Verdict::Timeout),
            (mutant(4, "replace * with + in g"), Verdict::Missed),
            (mutant(9, "replace * with + in g"), Verdict::Unreached),
        ]
    }

    #[test]
    fn a_survivor_without_a_reason_is_named() {
        let outcomes = outcomes(&verdicts(), 1);
        let name = "src/a.rs: replace * with + in g";
        assert_eq!(unexplained(&outcomes, &[]), [format!("{name} (2 times, 0 explained)")]);
        let listed = |name: &str| format!("[[survivor]]\nmutants = [\"{name}\"]\nreason = \"a guess\"\n");
        for (listed, left) in [
            (listed(name), 1),
            (listed(&format!("{name} ×2")), 0),
            (listed("src/a.rs: …"), 0),
            (listed("src/a.rs: replace … in g"), 0),
            (listed("src/a.rs: replace … in f"), 1),
        ] {
            let explained = explained(&listed).unwrap_or_default();
            assert_eq!(unexplained(&outcomes, &explained).len(), left, "{listed}");
        }
        assert_eq!(summary(&score(&outcomes, 1)), "2 of 4 killed, 2 survivors, 1 of them unexplained");
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        assert!(explained("[[survivor]]\nmutants = [\"src/a.rs: replace + with - in f\"]\nreason = \" \"\n").is_err());
        assert!(explained("").is_ok_and(|names| names.is_empty()));
    }
}
