//! What the caller tells the processes that close the box, and what they answer.

use std::fmt::Display;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::report::Landlock;

/// Where a run lies inside of the box.
pub(crate) const INSIDE: &str = "/sage";

/// The argument that turns a program into a stage of the box.
pub(crate) const MARKER: &str = "--sage-sandbox-stage";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Close the box and run the command in it.
    Closed,
    /// Close the box and go away, to see whether it can be closed.
    Probe,
    /// Run the command without a box.
    Bare,
}

/// A folder of the machine that can be read in the box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The folder.
    pub folder: PathBuf,
    /// Where it is seen.
    pub inside: PathBuf,
}

/// Everything the stages need to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) task: Task,
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) work_folder: PathBuf,
    /// Read-only, the run's own rows and context among them; without symbolic links in their paths.
    pub(crate) shown: Vec<Shown>,
    pub(crate) limits: Limits,
    /// The user the command becomes, if the caller is the superuser.
    pub(crate) become_user: Option<u32>,
}

/// How the command ended, as the first process of the box saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Code(u8),
    Signal(i32),
    Memory,
}

/// An answer of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It could not be done; nothing was run.
    Refused { step: String, reason: String },
    /// The files are in place. With it come the pipe of messages and the output folder.
    Built,
    /// The next thing that happens is the command.
    Started { landlock: Landlock },
    /// The command has ended.
    Ended(How),
}

/// A step that failed, and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) step: String,
    pub(crate) reason: String,
}

/// Names the step at which something failed.
pub(crate) trait Step<T> {
    fn step(self, step: impl Into<String>) -> Result<T, Refusal>;
}

impl<T, E: Display> Step<T> for Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T, Refusal> {
        self.map_err(|error| Refusal { step: step.into(), reason: error.to_string() })
    }
}
