//! A temporary folder in which tests run the program as a user would.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder with the project's examples, and a Sage directory after the first command.
pub(crate) struct Workdir {
    folder: TempDir,
    /// The output of all commands so far, except `ingest`.
    pub(crate) said: std::cell::RefCell<String>,
}

/// The output and the exit code of a command.
pub(crate) struct CommandOutput {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

/// The root of the project.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of a command line; single quotes keep words together.
fn in_words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (index, piece) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(piece.split_whitespace()),
            _ => words.push(piece),
        }
    }
    words
}

impl Workdir {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("examples")).expect("a folder");
        for entry in project().join("examples").read_dir().expect("examples") {
            let path = entry.expect("an example").path();
            let name = path.file_name().expect("a name");
            std::fs::copy(&path, folder.path().join("examples").join(name)).expect("copied");
        }
        Self { folder, said: std::cell::RefCell::default() }
    }

    /// A folder with this number of rides in the stream `taxi`, all sealed. Also returns how many were stored.
    ///
    /// Blocks have four times the usual budget: with the usual one, the example of a model needs up to five attempts on
    /// 150,000 rides, and now and then there is no budget left for another one.
    pub(crate) fn with_rides(rides: &str) -> (Self, u64) {
        let workdir = Self::new();
        workdir.good(&format!("generate taxi --rows {rides} --start 2026-01-01 --out rides"));
        workdir.variant("rides/_stream.toml", "rides/_stream.toml", &[("epsilon = \"1.0\"", "epsilon = \"4.0\"")]);
        workdir.good("stream create rides/_stream.toml --as ada");
        let ingested = workdir.json("ingest taxi rides --as dan");
        workdir.good("blocks taxi --do seal --before 2027-01-01 --as dan");
        workdir.said.borrow_mut().clear();
        (workdir, ingested["stored"].as_u64().expect("a number"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a copy of an example with parts of its text replaced.
    pub(crate) fn variant(&self, example: &str, name: &str, changes: &[(&str, &str)]) {
        let mut text = std::fs::read_to_string(self.path(example)).expect("an example");
        for (from, to) in changes {
            assert!(text.contains(from), "{example} has no {from:?}");
            text = text.replace(from, to);
        }
        std::fs::write(self.path(name), text).expect("a file");
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::program();
        command.args(arguments).current_dir(self.folder.path());
        command.env("XDG_CONFIG_HOME", self.path("settings"));
        command
    }

    /// Runs a command line with this standard input. Single quotes keep words together.
    pub(crate) fn with_input(&self, line: &str, input: &str) -> CommandOutput {
        let arguments = in_words(line);
        let mut command = self.command(&arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        // A command that fails early closes the pipe; its message is checked by the caller.
        drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("an end");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let output = CommandOutput { out: text(output.stdout), err: text(output.stderr), code: output.status.code() };
        assert!(!output.err.contains("panicked"), "sage {line}: {}", output.err);
        *self.said.borrow_mut() += &format!("{}{}", output.out, output.err);
        output
    }

    pub(crate) fn run(&self, line: &str) -> CommandOutput {
        self.with_input(line, "")
    }

    /// The standard output of a command that must succeed.
    pub(crate) fn good(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.code, Some(0), "sage {line}: {}{}", output.out, output.err);
        output.out
    }

    /// The standard output of a command that must succeed, as JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.good(&format!("{line} --json"))).expect("JSON")
    }

    /// Runs a command that must fail with this code and this text. Returns its standard error.
    pub(crate) fn fails(&self, line: &str, code: i32, said: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.code, Some(code), "sage {line}: {}{}", output.out, output.err);
        assert!(output.err.contains(said), "sage {line}: expected {said:?} in\n{}", output.err);
        output.err
    }
}
