//! The copy of kernel and numerics that has all mutants in one build.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::schema::{self, Id, Mutant, Plan};
use crate::workspace::{self, Failure, list, text};

/// The crates that are mutated, and in which their tests run.
const CRATES: [&str; 2] = ["crates/sage-numerics", "crates/sage-kernel"];

/// The crate that has the switches; the other one depends on it.
const HOME: &str = "crates/sage-numerics";

/// What the manifest of the copy has instead of the lints of the workspace.
const LINTS: &str = "\n[workspace.lints.rust]\nwarnings = \"allow\"\narithmetic_overflow = \"allow\"\n\
    overflowing_literals = \"allow\"\nunconditional_panic = \"allow\"\n";

/// The file of the copy with the mutants that do not compile, for the next run.
const UNVIABLE: &str = "unviable.json";

/// A test program of the copy.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The folder in which cargo would run it.
    pub(super) folder: PathBuf,
}

/// The copy of the workspace with all mutants.
pub(super) struct Copy {
    pub(super) plan: Plan,
    folder: PathBuf,
    /// The files that are mutated, with their original texts.
    sources: Vec<(String, String)>,
}

impl Copy {
    /// Copies kernel and numerics into the folder.
    pub(super) fn new(folder: PathBuf) -> Result<Self, Failure> {
        let files = workspace::files()?;
        let inside = |path: &&String| CRATES.iter().any(|name| path.starts_with(&format!("{name}/")));
        let mut sources = Vec::new();
        let mut others = Vec::new();
        let mut tests = Vec::new();
        for path in files.iter().filter(inside) {
            let content = workspace::read(path)?;
            let is_source = CRATES.iter().any(|name| path.starts_with(&format!("{name}/src/")));
            if is_source && path.ends_with(".rs") {
                tests.extend(schema::test_modules(path, &content)?);
                sources.push((path.clone(), content));
            } else {
                others.push((path.clone(), content));
            }
        }
        let is_test = |path: &str| {
            let stem = path.trim_end_matches(".rs");
            tests.iter().any(|test| stem == test || stem.starts_with(&format!("{test}/")))
        };
        others.extend(sources.extract_if(.., |(path, _)| is_test(path)));
        let mut known: BTreeSet<PathBuf> = files.iter().map(|path| folder.join(path)).collect();
        known.insert(folder.join(HOME).join("src/mutants.rs"));
        remove_unknown(&folder.join("crates"), &known)?;
        for (path, content) in others {
            // Tests of what does not compile start a compiler each, and no switch changes what compiles.
            let compiles = path.ends_with(".rs") && content.contains("trybuild::");
            write(&folder.join(&path), if compiles { b"" } else { content.as_bytes() })?;
        }
        write(&folder.join("Cargo.toml"), manifest(&workspace::read("Cargo.toml")?).as_bytes())?;
        write(&folder.join("Cargo.lock"), workspace::read("Cargo.lock")?.as_bytes())?;
        write(&folder.join("rust-toolchain.toml"), workspace::read("rust-toolchain.toml")?.as_bytes())?;
        Ok(Self { plan: Plan::default(), folder, sources })
    }

    /// Builds the test programs with all mutants that compile.
    pub(super) fn build(&mut self) -> Result<Vec<Program>, Failure> {
        self.recall()?;
        loop {
            for (path, text) in self.planted()? {
                write(&path, text.as_bytes())?;
            }
            let checked = self.cargo(&[
                "check",
                "--lib",
                "--tests",
                "--message-format=json",
                "--features",
                "sage-kernel/seeded",
            ])?;
            let mut errors = errors(&checked);
            let mut messages = Vec::new();
            if errors.is_empty() {
                let arguments = ["test", "--no-run", "--message-format=json", "--features", "sage-kernel/seeded"];
                messages = self.cargo(&[&arguments[..], &["--lib", "--tests"]].concat())?;
                errors = self::errors(&messages);
            }
            if errors.is_empty() {
                self.remember()?;
                return Ok(self.programs(&messages));
            }
            if !self.drop_unviable(&errors) {
                let rendered = errors.iter().map(|error| text(error, "rendered")).collect::<Vec<_>>().join("\n");
                return Err(format!("the mutants do not compile, and none of them is the cause:\n{rendered}"));
            }
            println!("mutants: {} do not compile", self.plan.dropped.len());
        }
    }

    /// Takes over what the last run found out about these sources: which mutants do not compile.
    fn recall(&mut self) -> Result<(), Failure> {
        let Ok(kept) = std::fs::read_to_string(self.folder.join(UNVIABLE)) else { return Ok(()) };
        let kept: Value = serde_json::from_str(&kept).map_err(|error| format!("{UNVIABLE}: {error}"))?;
        let names = list(&kept, "const").iter().filter_map(Value::as_str);
        self.plan.kept_const = names.map(str::to_owned).collect();
        self.planted()?;
        if self.names() == list(&kept, "mutants") {
            let ids = list(&kept, "unviable").iter().filter_map(Value::as_u64);
            self.plan.dropped = ids.filter_map(|id| Id::try_from(id).ok()).collect();
        } else {
            self.plan.kept_const.clear();
        }
        Ok(())
    }

    fn remember(&self) -> Result<(), Failure> {
        let Plan { dropped, kept_const, .. } = &self.plan;
        let kept = json!({"const": kept_const, "unviable": dropped, "mutants": self.names()});
        write(&self.folder.join(UNVIABLE), kept.to_string().as_bytes())
    }

    fn names(&self) -> Vec<Value> {
        self.plan.mutants.iter().map(|mutant| json!([mutant.file, mutant.line, mutant.name])).collect()
    }

    /// The files of the copy that have switches, with their texts.
    fn planted(&mut self) -> Result<Vec<(PathBuf, String)>, Failure> {
        self.plan.mutants.clear();
        self.plan.constants.clear();
        self.plan.used.clear();
        for (path, content) in &self.sources {
            self.plan.add_constants(path, content)?;
        }
        let mut files = Vec::new();
        for (path, content) in &self.sources {
            let home = path.starts_with(HOME);
            let active = if home { "crate::mutants::active" } else { "sage_numerics::mutants::active" };
            let mut changed = schema::with_switches(&mut self.plan, path, content, active)?;
            changed = changed.replace("#![forbid(unsafe_code)]", "");
            if path == &format!("{HOME}/src/lib.rs") {
                changed.push_str("\n#[doc(hidden)]\npub mod mutants;\n");
            }
            files.push((self.folder.join(path), changed));
        }
        let count = self.plan.mutants.len() + 1;
        let switches = include_str!("switches.txt").replace("COUNT", &count.to_string());
        files.push((self.folder.join(HOME).join("src/mutants.rs"), switches));
        Ok(files)
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Vec<Value>, Failure> {
        let mut command = workspace::cargo(arguments);
        command.current_dir(&self.folder).stderr(Stdio::null());
        command.env("CARGO_TARGET_DIR", workspace::target_directory()?);
        let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if messages.is_empty() {
            return Err(format!("{} ended with {}", workspace::command_line(&command), output.status));
        }
        Ok(messages)
    }

    /// Drops the mutants that errors belong to; false if there is none.
    fn drop_unviable(&mut self, errors: &[Value]) -> bool {
        let before = self.plan.dropped.len();
        let mut kept_const = BTreeSet::new();
        for error in errors {
            if let Some(name) = needed_const(text(error, "message")) {
                kept_const.insert(name);
                continue;
            }
            let marked = |span: &Value| self.marked(span).unwrap_or_default();
            let spans = list(error, "spans");
            let mut causes: Vec<Id> = spans.iter().filter(|span| span["is_primary"] == true).flat_map(marked).collect();
            if causes.is_empty() {
                causes = spans.iter().flat_map(marked).collect();
            }
            if causes.is_empty() {
                let file = spans.first().map_or("", |span| text(span, "file_name"));
                causes = self.without_assignment(file, text(error, "message"));
            }
            self.plan.dropped.extend(causes);
        }
        if !kept_const.is_empty() {
            // Other functions have mutants now, so all mutants have other identities.
            self.plan.dropped.clear();
            self.plan.kept_const.extend(kept_const);
            return true;
        }
        before != self.plan.dropped.len()
    }

    /// The mutants whose text a span of a compiler error is in.
    fn marked(&self, span: &Value) -> Option<Vec<Id>> {
        let content = std::fs::read_to_string(self.folder.join(text(span, "file_name"))).ok()?;
        let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
        Some(schema::mutants_at(&content, at))
    }

    /// The mutants that delete the assignment to the variable of an error: without it, the variable is borrowed too
    /// long or never set, and the compiler reports the use.
    fn without_assignment(&self, file: &str, message: &str) -> Vec<Id> {
        let Some(variable) = message.split('`').nth(1) else { return Vec::new() };
        let prefix = format!("delete the statement `{} =", variable.trim_start_matches('*'));
        let is_cause = |mutant: &&Mutant| mutant.file == file && mutant.name.starts_with(&prefix);
        self.plan.mutants.iter().filter(is_cause).map(|mutant| mutant.id).collect()
    }

    fn programs(&self, messages: &[Value]) -> Vec<Program> {
        let mut programs = Vec::new();
        let mut seen = BTreeSet::new();
        for message in messages {
            let Some(path) = message["executable"].as_str().filter(|_| message["profile"]["test"] == true) else {
                continue;
            };
            let folder = CRATES.iter().find(|name| text(message, "manifest_path").contains(**name));
            if seen.insert(path.to_owned()) {
                let folder = self.folder.join(folder.unwrap_or(&""));
                programs.push(Program { path: PathBuf::from(path), folder });
            }
        }
        programs
    }
}

/// The function that a compile-time computation calls, from the compiler's message.
fn needed_const(message: &str) -> Option<String> {
    let name = message.strip_prefix("cannot call non-const")?.split('`').nth(1)?;
    name.rsplit("::").next().map(str::to_owned)
}

fn errors(messages: &[Value]) -> Vec<Value> {
    let compiler = messages.iter().filter(|message| message["reason"] == "compiler-message");
    compiler.map(|message| message["message"].clone()).filter(|message| text(message, "level") == "error").collect()
}

/// The manifest of the workspace with two members and no lints.
fn manifest(original: &str) -> String {
    let members = CRATES.map(|name| format!("\"{name}\"")).join(", ");
    let mut lines = Vec::new();
    let mut in_lints = false;
    for line in original.lines() {
        in_lints = if line.starts_with('[') { line.starts_with("[workspace.lints") } else { in_lints };
        match line.split(" = ").next() {
            _ if in_lints => {}
            Some("members") => lines.push(format!("members = [{members}]")),
            Some("default-members" | "exclude") => {}
            Some("unsafe_code" | "missing_docs") => {}
            _ => lines.push(line.to_owned()),
        }
    }
    let text = lines.join("\n").replace("[profile.test]\nopt-level = 3", "[profile.test]\nopt-level = 2");
    format!("{text}\n{LINTS}")
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // A file that stays as it was is not built again.
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes the files of an earlier run that the workspace does not have.
fn remove_unknown(folder: &Path, known: &BTreeSet<PathBuf>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_unknown(&path, known)?;
        } else if !known.contains(&path) {
            std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}
