//! `cargo xtask fuzz`: runs the fuzz targets of `fuzz/` with libFuzzer.
//!
//! The stable compiler is enough: coverage comes from an LLVM pass that stable options enable, and libFuzzer is
//! compiled from source by libfuzzer-sys, which needs a C++ compiler. The address sanitizer, which needs a nightly
//! compiler, is left out; our crates have no unsafe code to sanitize, except the two bindings of the sandbox.

use std::path::Path;

use crate::workspace::{self, Failure};

const MANIFEST: &str = "fuzz/Cargo.toml";

/// Instrument for coverage and comparisons, as cargo-fuzz does.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
];

/// The longest input that the fuzzer generates.
const LONGEST_BYTES: u32 = 4096;

/// One input may take this long and this much memory; more is a finding.
const TIMEOUT_SECONDS: u32 = 20;
const MEMORY_MIB: u32 = 2048;

const DEFAULT_SECONDS: u32 = 60;

/// Seconds for each target in a soak.
const SOAK_SECONDS: u32 = 300;

/// A program of the fuzz workspace, and the feature with the crates that it needs.
struct Target {
    name: String,
    feature: String,
}

struct Options<'a> {
    target: Option<&'a str>,
    seconds: u32,
}

/// Runs one target, or all targets one after the other.
pub(crate) fn run(words: &[&str]) -> Result<(), Failure> {
    let options = options(words)?;
    let known = targets(&workspace::read(MANIFEST)?)?;
    let chosen: Vec<&Target> =
        known.iter().filter(|known| options.target.is_none_or(|target| target == known.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = known.iter().map(|target| target.name.as_str()).collect();
        return Err(format!("fuzz: name one of {}", names.join(", ")));
    }
    run_targets(&chosen, options.seconds)
}

/// Runs every target for some minutes.
pub(crate) fn soak() -> Result<(), Failure> {
    let known = targets(&workspace::read(MANIFEST)?)?;
    run_targets(&known.iter().collect::<Vec<_>>(), SOAK_SECONDS)
}

fn options<'a>(words: &[&'a str]) -> Result<Options<'a>, Failure> {
    let seconds = |text: &str| match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(format!("fuzz: --seconds takes a whole number from 1 on, not `{text}`")),
    };
    match *words {
        [] => Ok(Options { target: None, seconds: DEFAULT_SECONDS }),
        ["--seconds", text] => Ok(Options { target: None, seconds: seconds(text)? }),
        [target] if !target.starts_with('-') => Ok(Options { target: Some(target), seconds: DEFAULT_SECONDS }),
        [target, "--seconds", text] => Ok(Options { target: Some(target), seconds: seconds(text)? }),
        _ => Err("fuzz: the form is `cargo xtask fuzz [TARGET] [--seconds N]`".to_owned()),
    }
}

/// The targets: the programs in the manifest.
fn targets(manifest: &str) -> Result<Vec<Target>, Failure> {
    let table: toml::Table = manifest.parse().map_err(|error| format!("{MANIFEST}: {error}"))?;
    let programs = table.get("bin").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let target = |program: &toml::Value| {
        let feature = program.get("required-features")?.get(0)?.as_str()?.to_owned();
        Some(Target { name: program.get("name")?.as_str()?.to_owned(), feature })
    };
    Ok(programs.iter().filter_map(target).collect())
}

/// Runs the targets even after one has failed, and fails if any did.
fn run_targets(targets: &[&Target], seconds: u32) -> Result<(), Failure> {
    let folder = workspace::target_directory()?.join("fuzz");
    let mut failures = Vec::new();
    for target in targets {
        println!("\n== fuzz {}: {seconds} s", target.name);
        if let Err(failure) = run_target(target, seconds, &folder) {
            failures.push(format!("{}: {failure}", target.name));
        }
    }
    let inputs = folder.join("artifacts");
    if failures.is_empty() {
        return Ok(());
    }
    let list = failures.join("\n");
    Err(format!(
        "fuzz: the failing inputs are in {}; run the target with the file as its argument\n{list}",
        inputs.display()
    ))
}

fn run_target(target: &Target, seconds: u32, folder: &Path) -> Result<(), Failure> {
    let (host, Target { name, feature }) = (host()?, target);
    let build = ["build", "--manifest-path", MANIFEST, "--target", &host, "--bin", name];
    let mut command = workspace::cargo(&[&build[..], &["--no-default-features", "--features", feature]].concat());
    // With `--target`, the flags do not reach build scripts and procedural macros.
    command.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", FLAGS.join(" "));
    workspace::run(&mut command)?;
    let (corpus, artifacts) = (folder.join("corpus").join(name), folder.join("artifacts").join(name));
    for new in [&corpus, &artifacts] {
        std::fs::create_dir_all(new).map_err(|error| format!("{}: {error}", new.display()))?;
    }
    let mut fuzzer = std::process::Command::new(folder.join(host).join("debug").join(name));
    fuzzer.env("SAGE_FUZZ_CORPUS", &corpus).arg(&corpus);
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={LONGEST_BYTES}"));
    fuzzer.arg(format!("-timeout={TIMEOUT_SECONDS}")).arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    workspace::run(fuzzer.arg("-print_final_stats=1"))
}

/// The target triple of this machine.
fn host() -> Result<String, Failure> {
    let printed = workspace::output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "fuzz: rustc does not report its host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{MANIFEST, host, options, targets};
    use crate::workspace;

    #[test]
    fn a_target_and_a_time_can_be_given() {
        let parsed =
            |words: &[&str]| options(words).map(|options| (options.target.map(str::to_owned), options.seconds));
        assert_eq!(parsed(&[]), Ok((None, 60)));
        assert_eq!(parsed(&["log_bytes"]), Ok((Some("log_bytes".to_owned()), 60)));
        assert_eq!(parsed(&["log_bytes", "--seconds", "5"]), Ok((Some("log_bytes".to_owned()), 5)));
        assert_eq!(parsed(&["--seconds", "5"]), Ok((None, 5)));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["a", "b"], &["--jobs"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_target_has_its_file() {
        let targets = targets(&workspace::read(MANIFEST).unwrap()).unwrap();
        assert!(targets.len() >= 8);
        for target in targets {
            let file = workspace::read(&format!("fuzz/fuzz_targets/{}.rs", target.name)).unwrap();
            assert!(file.contains(&format!("{}::seeds()", target.name)), "{}", target.name);
        }
    }

    #[test]
    fn the_host_is_known() {
        assert!(host().is_ok_and(|host| host.contains('-')));
    }
}
