//! `cargo xtask trust`: reports the trusted code. The size of the kernel, its dependencies, the uses of the attested
//! access mode, and the result of the last mutation test.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::mutants;
use crate::source::{Source, has_token};
use crate::workspace::{self, Failure, list, text};

/// The most lines that a reviewer can read in a day: neither blank nor comment, without tests.
const KERNEL_LINES: usize = 5_000;

const KERNEL: &str = "crates/sage-kernel/";

/// The numerical routines that the kernel relies on. They know nothing about privacy and are counted separately.
const NUMERICS: &str = "crates/sage-numerics/";

/// The block reader: what opens the files of a permit's blocks and passes their rows to a session.
const READER: [&str; 2] = ["crates/sage-engine/src/read/", "crates/sage-store/src/blocks/"];

/// The kernel items with which other code uses the attested access mode.
const ATTESTED_ITEMS: &[&str] = &["AccessMode::Attested", "into_attested"];

/// The output format.
pub(crate) enum Format {
    Text,
    Json,
}

/// A line that uses the attested access mode.
struct Use {
    file: String,
    line: usize,
    text: String,
}

struct Report {
    files: BTreeMap<String, usize>,
    numerics: usize,
    reader: usize,
    dependencies: BTreeSet<String>,
    attested: Vec<Use>,
    /// The newest committed mutation test, in one line.
    mutants: String,
}

impl Report {
    fn lines(&self) -> usize {
        self.files.values().sum()
    }
}

/// Prints the report; fails if the kernel is larger than [`KERNEL_LINES`].
pub(crate) fn show(format: Format) -> Result<(), Failure> {
    let files = workspace::files()?;
    let sources = workspace::sources(&files)?;
    let report = Report {
        files: sizes(&sources, KERNEL),
        numerics: sizes(&sources, NUMERICS).values().sum(),
        reader: READER.iter().flat_map(|folder| sizes(&sources, folder).into_values()).sum(),
        dependencies: dependencies()?,
        attested: attested_uses(&sources),
        mutants: mutants::newest(&files)?,
    };
    match format {
        Format::Text => print!("{}", as_text(&report)),
        Format::Json => println!("{}", as_json(&report)),
    }
    within_limit(report.lines())
}

fn within_limit(lines: usize) -> Result<(), Failure> {
    if lines <= KERNEL_LINES {
        return Ok(());
    }
    Err(format!("trust: the kernel has {lines} lines, at most {KERNEL_LINES}"))
}

fn sizes(sources: &[Source], folder: &str) -> BTreeMap<String, usize> {
    let within = sources.iter().filter(|source| source.path.starts_with(folder));
    let sizes = within.map(|source| (source.path.clone(), source.lines_outside_tests()));
    sizes.filter(|(_, lines)| *lines > 0).collect()
}

fn dependencies() -> Result<BTreeSet<String>, Failure> {
    let metadata = workspace::metadata("Cargo.toml")?;
    let kernel = workspace::members(&metadata).into_iter().find(|p| text(p, "name") == "sage-kernel");
    let kernel = kernel.ok_or("trust: the workspace has no sage-kernel")?;
    let shipped = list(kernel, "dependencies").iter().filter(|d| d["kind"] != "dev");
    Ok(shipped.map(|dependency| text(dependency, "name").to_owned()).collect())
}

fn attested_uses(sources: &[Source]) -> Vec<Use> {
    let mut uses = Vec::new();
    for source in sources {
        if source.path.starts_with(KERNEL) || source.path.starts_with("xtask/") {
            continue;
        }
        for (line, code) in source.code_outside_tests() {
            if ATTESTED_ITEMS.iter().any(|name| has_token(code, name)) {
                let text = source.raw[line - 1].trim().to_owned();
                uses.push(Use { file: source.path.clone(), line, text });
            }
        }
    }
    uses
}

fn as_text(report: &Report) -> String {
    let mut text = String::new();
    for (file, lines) in &report.files {
        text.push_str(&format!("{lines:>6}  {file}\n"));
    }
    text.push_str(&format!("{:>6}  kernel lines, at most {KERNEL_LINES}\n", report.lines()));
    text.push_str(&format!("{:>6}  lines of numerics, in {NUMERICS}\n", report.numerics));
    text.push_str(&format!("{:>6}  lines of the block reader, in {}\n", report.reader, READER.join(" and ")));
    let names: Vec<&str> = report.dependencies.iter().map(String::as_str).collect();
    text.push_str(&format!("\ndependencies: {}\n", names.join(", ")));
    text.push_str(&format!("mutants: {}\n", report.mutants));
    text.push_str(&format!("uses of the attested access mode: {}\n", report.attested.len()));
    for found in &report.attested {
        text.push_str(&format!("  {}:{}: {}\n", found.file, found.line, found.text));
    }
    text
}

fn as_json(report: &Report) -> serde_json::Value {
    let attested = report.attested.iter();
    let attested: Vec<_> =
        attested.map(|found| json!({"file": found.file, "line": found.line, "text": found.text})).collect();
    json!({
        "lines": report.lines(),
        "limit": KERNEL_LINES,
        "files": report.files,
        "numerics": report.numerics,
        "reader": report.reader,
        "dependencies": report.dependencies,
        "attested": attested,
        "mutants": report.mutants,
    })
}

#[cfg(test)]
mod tests {
    use super::{KERNEL_LINES, Report, as_json, as_text, attested_uses, sizes, within_limit};
    use crate::source::Source;
    use crate::{mutants, workspace};

    fn project() -> Vec<Source> {
        vec![
            Source::new("crates/sage-kernel/src/a.rs", "//! A.\n\nfn a() {}\nuse AccessMode::Attested;\n"),
            Source::new("crates/sage-kernel/tests/a.rs", "fn a() {}\n"),
            Source::new("crates/sage-engine/src/run.rs", "// into_attested\nlet x = s.into_attested();\n"),
            Source::new("crates/sage-engine/tests/run.rs", "s.into_attested();\n"),
        ]
    }

    #[test]
    fn the_kernel_is_counted_without_tests_and_comments() {
        let files = sizes(&project(), super::KERNEL);
        assert_eq!(files.into_iter().collect::<Vec<_>>(), [("crates/sage-kernel/src/a.rs".to_owned(), 2)]);
    }

    #[test]
    fn a_kernel_that_is_too_large_fails() {
        assert!(within_limit(KERNEL_LINES).is_ok());
        assert!(within_limit(KERNEL_LINES + 1).is_err());
    }

    #[test]
    fn attested_uses_are_reported_with_their_location() {
        let report = Report {
            files: sizes(&project(), super::KERNEL),
            numerics: 7,
            reader: 5,
            dependencies: ["sha2".to_owned()].into(),
            attested: attested_uses(&project()),
            mutants: mutants::newest(&workspace::files().unwrap()).unwrap(),
        };
        let json = as_json(&report);
        assert_eq!([&json["lines"], &json["numerics"], &json["reader"]], [2, 7, 5]);
        assert_eq!(json["attested"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["attested"][0]["line"], 2);
        assert!(as_text(&report).contains(&format!("\nmutants: {}\n", report.mutants)));
        assert_eq!(json["mutants"], report.mutants);
        assert!(as_text(&report).contains("crates/sage-engine/src/run.rs:2: let x = s.into_attested();"));
    }
}
