//! `cargo xtask instructions`: measures every hot loop on every instruction set of this processor, to detect lost
//! inlining.
//!
//! A closure that the compiler does not inline is compiled without the instruction set of its caller, and each
//! intrinsic in it becomes a call; training on AVX2 was once 25 times slower for that reason. Valgrind counts the
//! instructions of a loop exactly, independent of the machine's load, so AVX2 is compared with scalar code by count.
//! Valgrind does not support AVX-512, so its times are compared with those of AVX2, with a wide margin.
//! All of it takes half a minute, so it is a step of the everyday check.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::packages;
use crate::workspace::{self, Failure, text};

/// The environment variable that selects an instruction set; `sage_numerics::InstructionSet::VARIABLE`.
pub(crate) const VARIABLE: &str = "SAGE_ARCH";

/// The function of the bench program `loops` whose instructions are counted.
const COUNTED: &str = "*counted_loop*";

/// For every loop, the highest allowed ratio of AVX2 to scalar instructions: about one and a half times the measured
/// ratio. A ratio near one means that the loop is the same code on every instruction set.
const MOST: &[(&str, f64)] = &[
    ("outer", 0.08),
    ("gather_wide", 0.8),
    ("gather_narrow", 1.4),
    ("rescale", 0.5),
    ("one_hot", 0.75),
    ("product", 0.46),
    ("spectral", 1.05),
    ("forward_dense", 0.035),
    ("forward_sparse", 0.05),
    ("step_dense", 0.11),
    ("step_sparse", 0.09),
    ("noise", 1.05),
    ("linear_one_hot", 1.0),
    ("linear_numbers", 1.0),
    ("vector", 1.05),
];

/// The highest allowed ratio of AVX-512 to AVX2 time. It is about 0.7 where vectors matter; lost inlining makes it
/// larger than five.
const LONGEST: f64 = 2.0;

/// Loops that take less time than this, in microseconds, are not compared by time.
const SHORTEST: f64 = 20.0;

pub(crate) fn check() -> Result<(), Failure> {
    if cfg!(not(target_arch = "x86_64")) {
        println!("only x86-64 has several instruction sets; skipping the comparison");
        return Ok(());
    }
    let program = build()?;
    let sets = words(&program, "--sets")?;
    let has = |set: &str| sets.iter().any(|found| found == set);
    let mut problems = Vec::new();
    match packages::find("valgrind") {
        Some(valgrind) if has("avx2") => problems.extend(compare_counts(&valgrind, &program)?),
        Some(_) => println!("this processor has no AVX2; skipping the instruction counts"),
        None => println!("valgrind is not installed; skipping the instruction counts: apt-get install valgrind"),
    }
    for set in ["avx512", "avx512vnni"].into_iter().filter(|set| has(set)) {
        problems.extend(compare_times(&program, set)?);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Fails unless this processor has the instruction set.
pub(crate) fn require(set: &str) -> Result<(), Failure> {
    let sets = words(&build()?, "--sets")?;
    let known = sets.iter().any(|found| found == set);
    if known { Ok(()) } else { Err(format!("this processor has no {set}; it has {}", sets.join(", "))) }
}

/// Builds the bench program together with `sage`, so that libraries have the same features as in the product and are not
/// built again.
fn build() -> Result<PathBuf, Failure> {
    let build = ["bench", "--no-run", "-p", "sage", "-p", "sage-learn", "--bench", "loops", "--message-format=json"];
    let messages = workspace::output(&mut workspace::cargo(&build))?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).ok();
    let loops = |message: &Value| message["target"]["name"] == "loops" && message["executable"].is_string();
    let found = messages.lines().filter_map(parse).find(loops);
    found.map(|message| text(&message, "executable").into()).ok_or_else(|| "cargo built no program `loops`".to_owned())
}

/// The words that the program prints.
fn words(program: &Path, flag: &str) -> Result<Vec<String>, Failure> {
    let output = workspace::output(Command::new(program).arg(flag))?;
    Ok(output.split_whitespace().map(str::to_owned).collect())
}

fn compare_counts(valgrind: &Path, program: &Path) -> Result<Vec<Failure>, Failure> {
    let names = words(program, "--names")?;
    // A count does not depend on what runs beside it, so every processor counts a loop of its own.
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let [scalar, wide] = ["scalar", "avx2"].map(|set| count(valgrind, program, name, set));
            let counted = scalar.and_then(|scalar| Ok((name.clone(), scalar, wide?)));
            counts.lock().unwrap_or_else(PoisonError::into_inner).push(counted);
        }
    };
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        (0..processors).for_each(|_| drop(scope.spawn(worker)));
    });
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut counts = counts.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    counts.sort_by_key(|(name, ..)| names.iter().position(|known| known == name));
    println!("{:<18}{:>14}{:>14}{:>10}{:>10}  instructions", "loop", "scalar", "avx2", "ratio", "most");
    Ok(judge_counts(&counts, MOST))
}

/// Prints the counts and returns those that are too large.
fn judge_counts(counts: &[(String, u64, u64)], limits: &[(&str, f64)]) -> Vec<Failure> {
    let mut problems = Vec::new();
    for (name, scalar, wide) in counts {
        let ratio = *wide as f64 / *scalar as f64;
        let Some((_, most)) = limits.iter().find(|(known, _)| known == name) else {
            problems.push(format!("{name}: avx2 takes {ratio:.3} of the scalar instructions, but `MOST` has no limit"));
            continue;
        };
        println!("{name:<18}{scalar:>14}{wide:>14}{ratio:>10.3}{most:>10.3}");
        if ratio.is_nan() || ratio > *most {
            problems.push(format!(
                "{name}: avx2 takes {ratio:.3} of the scalar instructions, at most {most} expected: something in the \
                 loop is no longer inlined"
            ));
        }
    }
    problems
}

/// Counts the instructions of a loop.
fn count(valgrind: &Path, program: &Path, name: &str, set: &str) -> Result<u64, Failure> {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", &format!("--toggle-collect={COUNTED}")]);
    command.arg(program).args(["--once", name]).env(VARIABLE, set);
    let output = command.output().map_err(|error| format!("valgrind does not start: {error}"))?;
    let (used, report) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() || used.trim() != set {
        return Err(format!("{name} on {set} under valgrind ended with {}:\n{used}{report}", output.status));
    }
    collected(&report).filter(|&count| count > 0).ok_or_else(|| format!("{name}: valgrind counted nothing:\n{report}"))
}

/// The number after `Collected :` in valgrind's report.
fn collected(report: &str) -> Option<u64> {
    report.lines().find_map(|line| line.split_once("Collected :"))?.1.trim().parse().ok()
}

fn compare_times(program: &Path, set: &str) -> Result<Vec<Failure>, Failure> {
    let [narrow, wide] = ["avx2", set].map(|set| times(program, set));
    println!("{:<18}{:>14}{set:>14}{:>10}{:>10}  us", "loop", "avx2", "ratio", "most");
    Ok(judge_times(&narrow?, &wide?))
}

fn judge_times(narrow: &BTreeMap<String, f64>, wide: &BTreeMap<String, f64>) -> Vec<Failure> {
    let mut problems = Vec::new();
    for (name, &narrow) in narrow {
        let wide = wide.get(name).copied().unwrap_or(f64::NAN);
        let ratio = wide / narrow;
        println!("{name:<18}{narrow:>14.1}{wide:>14.1}{ratio:>10.3}{LONGEST:>10.3}");
        if wide.is_nan() || wide >= SHORTEST && ratio > LONGEST {
            problems.push(format!("{name}: AVX-512 takes {ratio:.2} times as long as AVX2"));
        }
    }
    problems
}

/// The best time of every loop.
fn times(program: &Path, set: &str) -> Result<BTreeMap<String, f64>, Failure> {
    let output = workspace::output(Command::new(program).env(VARIABLE, set))?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| format!("`{line}`: {error}"));
    let time =
        |line: &str| parse(line).map(|row| (text(&row, "name").to_owned(), row["ours"].as_f64().unwrap_or(f64::NAN)));
    output.lines().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::{collected, judge_counts, judge_times};

    #[test]
    fn a_count_is_read_from_the_report() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 12345\n==7== \n"), Some(12_345));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }

    #[test]
    fn a_lost_inlining_and_an_unknown_loop_fail() {
        let check = |scalar: u64, wide: u64, bad: usize| {
            let counts = [("outer".to_owned(), scalar, wide)];
            assert_eq!(judge_counts(&counts, &[("outer", 0.3)]).len(), bad, "{scalar} {wide}");
            assert_eq!(judge_counts(&counts, &[]).len(), 1);
        };
        check(1_000, 200, 0);
        check(1_000, 300, 0);
        check(1_000, 301, 1);
        check(1_000, 5_000, 1);
    }

    #[test]
    fn times_have_a_wide_margin() {
        let check = |narrow: f64, wide: f64, bad: usize| {
            let [narrow, wide] = [narrow, wide].map(|time| [("outer".to_owned(), time)].into());
            assert_eq!(judge_times(&narrow, &wide).len(), bad);
        };
        check(100.0, 70.0, 0);
        check(100.0, 190.0, 0);
        check(100.0, 500.0, 1);
        // Too short to compare.
        check(2.0, 8.0, 0);
        assert_eq!(judge_times(&[("outer".to_owned(), 1.0)].into(), &[].into()).len(), 1);
    }
}
