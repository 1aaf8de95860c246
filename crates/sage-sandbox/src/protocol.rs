//! The messages between the caller and the setup stages.

use std::fmt::Display;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::command::ReadOnlyMount;
use crate::limits::Limits;
use crate::report::Landlock;

/// The folder of a run inside the sandbox.
pub(crate) const RUN_ROOT: &str = "/sage";

/// The argument that turns the program into a setup stage.
pub(crate) const MARKER: &str = "--sage-sandbox-stage";

/// What the stages do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Set up the sandbox and run the command in it.
    Isolated,
    /// Set up the sandbox and exit, to check that it can be set up.
    Probe,
    /// Run the command without a sandbox.
    Unisolated,
}

/// Everything that the stages need to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StageRequest {
    pub(crate) task: Task,
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) work_folder: PathBuf,
    /// Read-only mounts, including the run's own rows and context. Their sources contain no symbolic links.
    pub(crate) mounts: Vec<ReadOnlyMount>,
    pub(crate) limits: Limits,
    /// The user that the command runs as, if the caller is the superuser.
    pub(crate) become_user: Option<u32>,
}

/// How the command ended, as observed by the init process of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExitCause {
    Code(u8),
    Signal(i32),
    Memory,
}

/// An event that a stage reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StageEvent {
    /// A setup step failed; nothing was run.
    Refused { step: String, reason: String },
    /// The file system is ready. The packet carries the message pipe and the output folder.
    Built,
    /// Setup is complete; the command starts next.
    Started { landlock: Landlock },
    /// The command has ended.
    Ended(ExitCause),
}

/// A setup step that failed, and why.
#[derive(Debug)]
pub(crate) struct SetupFailure {
    pub(crate) step: String,
    pub(crate) reason: String,
}

/// Adds the name of the setup step to an error.
pub(crate) trait StepContext<T> {
    fn step(self, step: impl Into<String>) -> Result<T, SetupFailure>;
}

impl<T, E: Display> StepContext<T> for Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T, SetupFailure> {
        self.map_err(|error| SetupFailure { step: step.into(), reason: error.to_string() })
    }
}
