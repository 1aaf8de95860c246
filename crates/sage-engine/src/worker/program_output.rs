//! The output and exit status of programs, stored for their author only.
//!
//! A program reads rows, so its output and exit code can reveal them. They are stored in files that only the owner of
//! the directory can read, and are shown to the principal who submitted the run, as long as they are an ML engineer of
//! the stream.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use sage_sandbox::Report;

use crate::api::policy::in_role;
use crate::api::{Engine, EngineError, Principal};
use crate::pipeline::Train;
use crate::private;
use crate::run::AttemptFailure;
use crate::stream::Role;

/// The folder of these files, in the engine's directory.
const OUTPUTS: &str = "outputs";

impl Engine {
    /// The last output of a run's programs, by the serial number of the attempt; empty if there is none.
    ///
    /// # Errors
    /// When there is no such run, or the principal is not the ML engineer who submitted it.
    pub fn printed(&self, by: &Principal, run: u64) -> Result<Vec<(u64, String)>, EngineError> {
        let catalog = self.catalog();
        let own = catalog.history().run(run).ok_or(EngineError::NoRun(run))?;
        if !matches!(own.pipeline.train, Train::Command { .. }) {
            return Ok(Vec::new());
        }
        let stream = &own.pipeline.stream;
        let known = catalog.stream(stream).ok_or_else(|| EngineError::NoStream(stream.clone()))?;
        in_role(known, by, Role::MlEngineer)?;
        if own.by != by.name() {
            let principal = by.name().to_owned();
            return Err(EngineError::NotInRole { principal, role: Role::MlEngineer, stream: stream.clone() });
        }
        let serials = own.attempts.iter().map(|one| one.attempt.serial);
        let outputs =
            serials.filter_map(|serial| Some((serial, fs::read_to_string(self.printed_file(run, serial)).ok()?)));
        Ok(outputs.collect())
    }

    /// Stores the end of a program's output. A failure to store it does not fail the attempt.
    pub(crate) fn keep_printed(&self, (run, serial): (u64, u64), report: &Report) {
        let text = format!(
            "standard output:\n{}\nstandard error:\n{}\n",
            report.standard_output.text().trim_end(),
            report.standard_error.text().trim_end()
        );
        drop(self.write_printed(run, serial, &text));
    }

    /// Stores how a program ended with its output, and returns the reason that everyone else sees: the program has read
    /// rows, and its exit code or its files can reveal them.
    pub(crate) fn for_author(&self, (run, serial): (u64, u64), AttemptFailure(why): AttemptFailure) -> AttemptFailure {
        let append = || OpenOptions::new().append(true).open(self.printed_file(run, serial));
        // A failure to store the reason must not reveal it to others.
        drop(append().and_then(|mut file| writeln!(file, "how it ended:\n{why}")));
        AttemptFailure(
            "the program brought back no model that can be tested; its author sees why with: sage logs RUN".to_owned(),
        )
    }

    fn write_printed(&self, run: u64, serial: u64, text: &str) -> io::Result<()> {
        private::make_directories(&self.path().join(OUTPUTS))?;
        private::write(&self.printed_file(run, serial), text.as_bytes())
    }

    fn printed_file(&self, run: u64, serial: u64) -> PathBuf {
        self.path().join(OUTPUTS).join(format!("{run}-{serial}.txt"))
    }
}
