//! What is run and how: a command, its folder, its limits, and whether it is isolated.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::messages::Line;

/// A file or folder of the host that is visible in the sandbox, read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOnlyMount {
    /// The path on the host.
    pub source: PathBuf,
    /// The path inside the sandbox.
    pub target: PathBuf,
}

/// Whether a command is isolated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Containment {
    /// Full isolation, or the command is not run.
    Isolated,
    /// No isolation. The command can do everything that the caller's user can. Limits apply to single processes.
    None {
        /// The person who allowed it; the report repeats the name.
        allowed_by: String,
    },
}

/// One run of a command.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program and its arguments. The program is searched in `/usr/local/bin`, `/usr/bin` and `/bin`.
    pub command: Vec<String>,
    /// A folder for this run alone, with `rows/` and `context.json`, neither of which contains symbolic links. A
    /// superuser makes both world-readable and the folder itself accessible to nobody else.
    pub folder: PathBuf,
    /// A folder with the command's own files, mounted read-only; the command's working directory.
    pub code: Option<PathBuf>,
    /// Other folders that it can read, such as a Python environment.
    pub mounts: Vec<ReadOnlyMount>,
    /// A listening socket, the only one of the host that the command can connect to.
    pub socket: Option<PathBuf>,
    /// The resource limits.
    pub limits: Limits,
}

/// Receives messages while a command runs, and may stop it.
pub trait Observer {
    /// Called for every message.
    fn message(&mut self, line: Line);

    /// Called several times a second; returns true to stop the command.
    fn should_stop(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(Line)> Observer for F {
    fn message(&mut self, line: Line) {
        self(line);
    }
}
