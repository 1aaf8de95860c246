//! `cargo xtask trust`: what one has to read to believe the promise. The kernel's size, what it is built
//! on, and who goes through the louder door.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::source::{Source, has_token};
use crate::workspace::{self, Failure, list, text};

/// A day's reading, in lines neither blank nor comment, without tests.
const KERNEL_LINES: usize = 5_000;

const KERNEL: &str = "crates/sage-kernel/";

/// Our own arithmetic that the kernel is built on. It knows nothing of privacy and is counted by itself.
const ARITHMETIC: &str = "crates/sage-exact/";

/// The names by which code outside the kernel goes through the declared door.
const DOOR: &[&str] = &["Door::Declared", "declared_rows", "into_declared"];

/// How the answer is printed.
pub(crate) enum Form {
    Text,
    Json,
}

/// A line of ours that goes through the declared door.
struct Use {
    file: String,
    line: usize,
    text: String,
}

struct Report {
    files: BTreeMap<String, usize>,
    arithmetic: usize,
    dependencies: BTreeSet<String>,
    declared: Vec<Use>,
}

impl Report {
    fn lines(&self) -> usize {
        self.files.values().sum()
    }
}

/// Prints the report; fails where the kernel is larger than a day's reading.
pub(crate) fn show(form: Form) -> Result<(), Failure> {
    let sources = workspace::sources(&workspace::files()?)?;
    let report = Report {
        files: sizes(&sources, KERNEL),
        arithmetic: sizes(&sources, ARITHMETIC).values().sum(),
        dependencies: dependencies()?,
        declared: declared_uses(&sources),
    };
    match form {
        Form::Text => print!("{}", as_text(&report)),
        Form::Json => println!("{}", as_json(&report)),
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

fn declared_uses(sources: &[Source]) -> Vec<Use> {
    let mut uses = Vec::new();
    for source in sources {
        if source.path.starts_with(KERNEL) || source.path.starts_with("xtask/") {
            continue;
        }
        for (line, code) in source.code_outside_tests() {
            if DOOR.iter().any(|name| has_token(code, name)) {
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
    text.push_str(&format!("{:>6}  lines of arithmetic beside it, in {ARITHMETIC}\n", report.arithmetic));
    let names: Vec<&str> = report.dependencies.iter().map(String::as_str).collect();
    text.push_str(&format!("\ndependencies: {}\n", names.join(", ")));
    text.push_str(&format!("uses of the declared door: {}\n", report.declared.len()));
    for door in &report.declared {
        text.push_str(&format!("  {}:{}: {}\n", door.file, door.line, door.text));
    }
    text
}

fn as_json(report: &Report) -> serde_json::Value {
    let declared = report.declared.iter();
    let declared: Vec<_> =
        declared.map(|door| json!({"file": door.file, "line": door.line, "text": door.text})).collect();
    json!({
        "lines": report.lines(),
        "limit": KERNEL_LINES,
        "files": report.files,
        "arithmetic": report.arithmetic,
        "dependencies": report.dependencies,
        "declared": declared,
    })
}

#[cfg(test)]
mod tests {
    use super::{KERNEL_LINES, Report, as_json, as_text, declared_uses, sizes, within_limit};
    use crate::source::Source;

    fn project() -> Vec<Source> {
        vec![
            Source::new("crates/sage-kernel/src/a.rs", "//! A.\n\nfn a() {}\nuse Door::Declared;\n"),
            Source::new("crates/sage-kernel/tests/a.rs", "fn a() {}\n"),
            Source::new("crates/sage-engine/src/run.rs", "// into_declared\nlet x = s.into_declared();\n"),
            Source::new("crates/sage-engine/tests/run.rs", "s.into_declared();\n"),
        ]
    }

    #[test]
    fn the_kernel_is_counted_without_tests_and_comments() {
        let files = sizes(&project(), super::KERNEL);
        assert_eq!(files.into_iter().collect::<Vec<_>>(), [("crates/sage-kernel/src/a.rs".to_owned(), 2)]);
    }

    #[test]
    fn a_kernel_too_large_is_a_failure() {
        assert!(within_limit(KERNEL_LINES).is_ok());
        assert!(within_limit(KERNEL_LINES + 1).is_err());
    }

    #[test]
    fn uses_of_the_door_are_named_with_their_place() {
        let report = Report {
            files: sizes(&project(), super::KERNEL),
            arithmetic: 7,
            dependencies: ["sha2".to_owned()].into(),
            declared: declared_uses(&project()),
        };
        let json = as_json(&report);
        assert_eq!((&json["lines"], &json["arithmetic"]), (&2.into(), &7.into()));
        assert_eq!(json["declared"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["declared"][0]["line"], 2);
        assert!(as_text(&report).contains("crates/sage-engine/src/run.rs:2: let x = s.into_declared();"));
    }
}
