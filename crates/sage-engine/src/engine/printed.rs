//! What programs of their authors printed and how they ended: kept for the author, and for nobody else.
//!
//! A program sees rows, so what it prints and its exit code can tell of them. It lies in files that only the owner of the directory can
//! read, and is shown to whoever submitted the run, while they have the role of an ML engineer.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use sage_sandbox::Report;

use super::policy::in_role;
use super::{Engine, EngineError, Principal};
use crate::pipeline::Train;
use crate::private;
use crate::run::AttemptFailure;
use crate::stream::Role;

/// The folder of what was printed, beside the log.
const OUTPUTS: &str = "outputs";

impl Engine {
    /// What the programs of a run printed last, by the serial numbers of its attempts; nothing where it has none.
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
        let kept =
            serials.filter_map(|serial| Some((serial, fs::read_to_string(self.printed_file(run, serial)).ok()?)));
        Ok(kept.collect())
    }

    /// Keeps the end of what a program printed. That it cannot be kept is no reason to lose an attempt.
    pub(super) fn keep_printed(&self, (run, serial): (u64, u64), report: &Report) {
        let text = format!(
            "standard output:\n{}\nstandard error:\n{}\n",
            report.standard_output.text().trim_end(),
            report.standard_error.text().trim_end()
        );
        drop(self.write_printed(run, serial, &text));
    }

    /// Keeps how a program ended beside what it printed, and gives what everybody else with a role reads instead: the
    /// program has seen rows, and its exit code or what it left behind can tell of them.
    pub(super) fn for_author(&self, (run, serial): (u64, u64), AttemptFailure(why): AttemptFailure) -> AttemptFailure {
        let append = || OpenOptions::new().append(true).open(self.printed_file(run, serial));
        // That it cannot be kept is no reason to tell it to others.
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
