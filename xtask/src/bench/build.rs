//! `cargo xtask bench build`: measures the cost of building Sage.
//!
//! Everything is built in a target directory of its own, which is deleted before and after, so that no earlier build
//! makes the result smaller. A full run builds the workspace twice and takes about an hour on two cores.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

use super::{four_digits, text};
use crate::packages;
use crate::workspace::{self, Failure};

/// A measurement and the bar that it must not exceed.
struct Measurement {
    name: &'static str,
    unit: &'static str,
    bar: Option<f64>,
}

/// User and system time of all processes of a clean release build.
const RELEASE_BUILD: Measurement = Measurement { name: "release_build_cpu_seconds", unit: "s", bar: Some(1800.0) };

/// Packages that a build of the program on this host compiles, including ours.
const PACKAGES: Measurement = Measurement { name: "packages", unit: "packages", bar: Some(280.0) };

/// Size of the release program without symbols.
const BINARY: Measurement = Measurement { name: "binary_mib", unit: "MiB", bar: Some(60.0) };

/// Wall time of an everyday build after one file of the engine has changed.
const REBUILD: Measurement = Measurement { name: "rebuild_engine_seconds", unit: "s", bar: None };

/// The file that is touched for the incremental build.
const TOUCHED: &str = "crates/sage-engine/src/lib.rs";

/// How often the incremental build is measured; the result is the median.
const REBUILDS: usize = 3;

pub(super) fn run(words: &[&str]) -> Result<(), Failure> {
    let format = options(words)?;
    if let Format::Text = format {
        println!("{}", heading());
    }
    let target = workspace::target_directory()?.join("bench-build");
    let measured = measure(&target, &mut |measurement, ours| {
        let row = row(measurement, ours);
        match format {
            Format::Json => println!("{row}"),
            Format::Text => println!("{}", as_text(&row)),
        }
    });
    let removed = remove(&target);
    measured.and(removed)
}

#[derive(Clone, Copy)]
enum Format {
    Text,
    Json,
}

fn options(words: &[&str]) -> Result<Format, Failure> {
    match words {
        ["build"] => Ok(Format::Text),
        ["build", "--json"] | ["--json", "build"] => Ok(Format::Json),
        _ => Err("bench: `build` takes only the flag --json".to_owned()),
    }
}

fn measure(target: &Path, report: &mut dyn FnMut(&Measurement, f64)) -> Result<(), Failure> {
    report(&PACKAGES, count_packages()?);
    remove(target)?;
    // Downloads are not part of a build.
    workspace::run(&mut workspace::cargo(&["fetch", "--locked", "--quiet"]))?;
    let before = children_cpu_seconds()?;
    build(target, &["build", "--release", "--locked", "--quiet"])?;
    report(&RELEASE_BUILD, children_cpu_seconds()? - before);
    report(&BINARY, stripped_mib(&target.join("release").join("sage"))?);
    report(&REBUILD, rebuild_seconds(target)?);
    Ok(())
}

fn build(target: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = workspace::cargo(arguments);
    // A compiler cache would make a clean build look cheap.
    command.env("CARGO_TARGET_DIR", target).env_remove("RUSTC_WRAPPER");
    workspace::run(&mut command)
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

/// The number of packages that a default build of the program on this host compiles.
fn count_packages() -> Result<f64, Failure> {
    let arguments = ["tree", "--locked", "-p", "sage", "-e", "normal,build", "--prefix", "none"];
    let count = distinct_packages(&workspace::output(&mut workspace::cargo(&arguments))?);
    Ok(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}

/// The number of distinct packages in the output of `cargo tree --prefix none`. Lines start with name and version;
/// what follows (the kind, the path, the mark of a repetition) differs between the lines of one package.
fn distinct_packages(tree: &str) -> usize {
    let package = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    tree.lines().filter_map(package).collect::<BTreeSet<_>>().len()
}

/// User and system time of all finished descendants of this process, from `/proc`: Rust has no safe call for it.
fn children_cpu_seconds() -> Result<f64, Failure> {
    let read = fs::read_to_string("/proc/self/stat");
    let stat = read.map_err(|error| format!("bench: processor time is measured on Linux only: {error}"))?;
    let ticks = children_ticks(&stat).ok_or_else(|| format!("bench: /proc/self/stat contains `{stat}`"))?;
    let mut getconf = std::process::Command::new("getconf");
    let ticks_per_second = workspace::output(getconf.arg("CLK_TCK"))?;
    let ticks_per_second: f64 = ticks_per_second.trim().parse().map_err(|error| format!("getconf CLK_TCK: {error}"))?;
    Ok(ticks / ticks_per_second)
}

/// The sum of `cutime` and `cstime`, the 16th and 17th fields of `/proc/PID/stat`. The second field, the name in
/// parentheses, may contain spaces and parentheses.
fn children_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some(ticks(16)? + ticks(17)?)
}

/// The size of a copy of the program without symbols.
fn stripped_mib(program: &Path) -> Result<f64, Failure> {
    packages::ensure("strip", "binutils")?;
    let stripped: PathBuf = program.with_extension("stripped");
    let mut strip = std::process::Command::new("strip");
    workspace::run(strip.arg("-o").arg(&stripped).arg(program))?;
    let size = fs::metadata(&stripped).map_err(|error| format!("{}: {error}", stripped.display()))?.len();
    Ok(mib(size))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The median wall time of an everyday build after the touched file has changed.
fn rebuild_seconds(target: &Path) -> Result<f64, Failure> {
    let everyday = ["build", "--locked", "--quiet"];
    build(target, &everyday)?;
    let mut seconds = Vec::new();
    for _ in 0..REBUILDS {
        touch(&workspace::root().join(TOUCHED))?;
        let start = Instant::now();
        build(target, &everyday)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(median(&mut seconds))
}

/// Sets the modification time of a file to now, which makes cargo compile its crate again.
fn touch(file: &Path) -> Result<(), Failure> {
    let touched = File::options().append(true).open(file).and_then(|open| open.set_modified(SystemTime::now()));
    touched.map_err(|error| format!("{}: {error}", file.display()))
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// A row in the form of the other benchmarks, without a peer and with the bar.
fn row(measurement: &Measurement, ours: f64) -> Value {
    let Measurement { name, unit, bar } = measurement;
    json!({"name": name, "ours": ours, "peer": null, "ratio": null, "unit": unit, "bar": bar})
}

fn heading() -> String {
    format!("{:<28}{:>12}{:>12}  unit", "name", "ours", "bar")
}

fn as_text(row: &Value) -> String {
    let number = |key: &str| row[key].as_f64().map_or("-".to_owned(), four_digits);
    let verdict = match (row["ours"].as_f64(), row["bar"].as_f64()) {
        (Some(ours), Some(bar)) if ours > bar => "  above the bar",
        _ => "",
    };
    let (name, unit) = (text(row, "name"), text(row, "unit"));
    format!("{name:<28}{:>12}{:>12}  {unit}{verdict}", number("ours"), number("bar"))
}

#[cfg(test)]
mod tests {
    use super::{BINARY, Format, PACKAGES, REBUILD, RELEASE_BUILD};
    use super::{as_text, children_cpu_seconds, children_ticks, count_packages, distinct_packages, median, mib};
    use super::{options, row, stripped_mib, touch};

    #[test]
    fn a_package_is_counted_once() {
        let tree = "sage v0.1.0 (/somewhere/crates/sage)\nserde v1.0.2\nserde_derive v1.0.2 (proc-macro)\n\
                    serde v1.0.2 (*)\nserde_derive v1.0.2 (proc-macro) (*)\n\nsyn v2.0.1\nsyn v3.0.0\n";
        assert_eq!(distinct_packages(tree), 5);
        assert_eq!(distinct_packages(""), 0);
    }

    #[test]
    fn the_program_of_this_workspace_has_packages() {
        let count = count_packages().unwrap();
        assert!((50.0..1000.0).contains(&count), "{count}");
    }

    #[test]
    fn processor_time_of_children_is_read_after_the_name() {
        let stat = "42 (a (b) c) S 1 1 1 0 -1 4194304 100 200 0 0 7 8 300 45 20 0 1 0 5 6 7";
        assert_eq!(children_ticks(stat), Some(345.0));
        assert_eq!(children_ticks("42 (a) S 1"), None);
        assert_eq!(children_ticks(""), None);
    }

    #[test]
    fn processor_time_of_children_grows_with_their_work() {
        let before = children_cpu_seconds().unwrap();
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", work]).status().unwrap().success());
        assert!(children_cpu_seconds().unwrap() > before);
    }

    #[test]
    fn symbols_do_not_count() {
        // This test program, which has symbols. The copy is made next to the given file, so the given file is a copy.
        let own = std::env::current_exe().unwrap();
        let folder = std::env::temp_dir().join(format!("xtask-strip-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let copy = folder.join("program");
        std::fs::copy(&own, &copy).unwrap();
        let stripped = stripped_mib(&copy);
        let whole = mib(std::fs::metadata(&copy).unwrap().len());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(stripped.as_ref().is_ok_and(|stripped| *stripped < whole), "{stripped:?} of {whole}");
    }

    #[test]
    fn touching_changes_the_time_and_not_the_content() {
        let file = std::env::temp_dir().join(format!("xtask-touch-{}", std::process::id()));
        std::fs::write(&file, "same").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        std::fs::File::options().append(true).open(&file).unwrap().set_modified(old).unwrap();
        touch(&file).unwrap();
        assert!(std::fs::metadata(&file).unwrap().modified().unwrap() > old);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "same");
        std::fs::remove_file(&file).unwrap();
        assert!(touch(&file).is_err());
    }

    #[test]
    fn rows_have_the_five_fields_and_the_bar() {
        for measurement in [RELEASE_BUILD, PACKAGES, BINARY, REBUILD] {
            let row = row(&measurement, 100.0);
            for key in ["name", "ours", "peer", "ratio", "unit", "bar"] {
                assert!(row.get(key).is_some(), "{key}");
            }
        }
        assert!(as_text(&row(&BINARY, 164.0)).ends_with("MiB  above the bar"));
        assert!(as_text(&row(&BINARY, 60.0)).ends_with("MiB"));
        assert!(as_text(&row(&REBUILD, 60.0)).ends_with("-  s"));
    }

    #[test]
    fn the_result_of_rebuilds_is_the_median() {
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
        assert_eq!(mib(3 << 20), 3.0);
    }

    #[test]
    fn only_json_is_a_flag() {
        assert!(matches!(options(&["build"]), Ok(Format::Text)));
        assert!(matches!(options(&["build", "--json"]), Ok(Format::Json)));
        assert!(options(&["build", "--no-peers"]).is_err());
        assert!(options(&["build", "kernel"]).is_err());
    }
}
