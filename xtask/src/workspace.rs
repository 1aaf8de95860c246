//! Access to the workspace: its files, its crates, and running cargo in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::source::Source;

/// The error of a command: a message for the developer.
pub(crate) type Failure = String;

/// The root of the workspace: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Variables that cargo sets for this program and that must not reach the cargo it starts: build scripts depend on
/// them, and would run again, with everything that depends on them, whenever cargo is called directly.
const OWN_VARIABLES: [&str; 3] = ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_MANIFEST_LINKS"];

/// Cargo, started in the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    let names = std::env::vars_os().map(|(name, _)| name);
    let own = |name: &std::ffi::OsString| name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_"));
    for name in names.filter(own).chain(OWN_VARIABLES.map(Into::into)) {
        command.env_remove(name);
    }
    command
}

/// One test program, built with the same packages as the everyday step: for other packages cargo would select other
/// features of libraries and rebuild them.
pub(crate) fn test_program(name: &str, arguments: &[&str]) -> Command {
    cargo(&[&["test", "--workspace", "--exclude", "sage-kernel", "--test", name], arguments].concat())
}

/// Runs a command with inherited output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", command_line(command))) }
}

/// Runs a command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    command.stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", command_line(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("the output of {} is not UTF-8", command_line(command)))
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    format!("{} does not start: {error}", command_line(command))
}

/// A command as typed on the command line.
pub(crate) fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Whether the workspace has this file or folder.
pub(crate) fn exists(path: &str) -> bool {
    root().join(path).exists()
}

pub(crate) fn read(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// The files of the project: tracked, or new and not ignored, so that checks cover a file before it is
/// committed.
pub(crate) fn files() -> Result<Vec<String>, Failure> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root());
    let listing = output(&mut git)?;
    let mut files: Vec<String> = listing.split('\0').map(str::to_owned).collect();
    files.retain(|path| root().join(path).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// All Rust files of the project; modules that are declared for tests only are marked as tests.
pub(crate) fn sources(files: &[String]) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in files.iter().filter(|path| path.ends_with(".rs")) {
        sources.push(Source::new(path, &read(path)?));
    }
    mark_test_modules(&mut sources);
    Ok(sources)
}

fn mark_test_modules(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let stem = source.path.trim_end_matches(".rs");
        let inside = |module: &String| stem == module || stem.starts_with(&format!("{module}/"));
        if modules.iter().any(inside) {
            source.mark_as_test();
        }
    }
}

/// Cargo's metadata of the workspace with the given manifest, including dependencies.
pub(crate) fn metadata(manifest: &str) -> Result<Value, Failure> {
    let text = output(&mut cargo(&["metadata", "--format-version=1", "--all-features", "--manifest-path", manifest]))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// The members of a workspace, from its metadata.
pub(crate) fn members(metadata: &Value) -> Vec<&Value> {
    let ids = list(metadata, "workspace_members");
    list(metadata, "packages").iter().filter(|package| ids.contains(&package["id"])).collect()
}

/// A list in a JSON object; empty if it is missing.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A string in a JSON object; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Cargo's target directory, for this workspace and for `experiments`.
pub(crate) fn target_directory() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(text(&metadata("Cargo.toml")?, "target_directory")))
}

#[cfg(test)]
mod tests {
    use super::{Source, mark_test_modules};

    #[test]
    fn a_module_declared_for_tests_elsewhere_is_a_test() {
        let mut sources = [
            Source::new("src/lib.rs", "#[cfg(test)]\nmod model;\nmod real;\n"),
            Source::new("src/model.rs", "fn a() {}\n"),
            Source::new("src/model/deep.rs", "fn a() {}\n"),
            Source::new("src/real.rs", "fn a() {}\n"),
        ];
        mark_test_modules(&mut sources);
        let lines: Vec<usize> = sources.iter().map(Source::lines_outside_tests).collect();
        assert_eq!(lines, [1, 0, 0, 1]);
    }
}
