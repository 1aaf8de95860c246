//! The result of a run, and the errors that prevent one.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Limit;
use crate::platform::Output;
use crate::tail::Tail;

/// The meaning of a command's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: the result is in the output folder.
    Success,
    /// 75, `EX_TEMPFAIL`: a temporary failure, try again later.
    TryLater,
    /// Any other code.
    Failed(u8),
}

impl Exit {
    /// The meaning of a code.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Success,
            75 => Self::TryLater,
            other => Self::Failed(other),
        }
    }
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It exited.
    Exit(Exit),
    /// A signal that the sandbox did not send ended it.
    Signal(i32),
    /// It exceeded a limit and was killed.
    Limit(Limit),
    /// The caller stopped it.
    Stopped,
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(Exit::Success) => out.write_str("succeeded"),
            Self::Exit(Exit::TryLater) => out.write_str("try later"),
            Self::Exit(Exit::Failed(code)) => write!(out, "failed with exit code {code}"),
            Self::Signal(signal) => write!(out, "ended by signal {signal}"),
            Self::Limit(limit) => write!(out, "killed: {limit}"),
            Self::Stopped => out.write_str("stopped"),
        }
    }
}

/// How much of Landlock, the second layer around files and sockets, is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landlock {
    /// Every rule is enforced.
    Full,
    /// The kernel does not support some of the rules.
    Partial,
    /// The kernel does not support Landlock. Namespaces and seccomp do not depend on it.
    Absent,
}

/// How the command was isolated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// By namespaces and seccomp, always both, and by Landlock as far as the kernel supports it.
    Full {
        /// How much of Landlock is in force.
        landlock: Landlock,
    },
    /// Not at all, by a person's decision.
    None {
        /// The person who allowed it.
        allowed_by: String,
    },
}

/// The result of a run. Everything except `isolation` can depend on the rows that the command read, including `time`:
/// only the author of the command may see it.
#[derive(Debug)]
pub struct Report {
    /// How the command ended.
    pub ending: Ending,
    /// How the command was isolated.
    pub isolation: Isolation,
    /// The output folder. Meaningful only if the command ended with [`Exit::Success`].
    pub output: Output,
    /// The end of its standard output.
    pub standard_output: Tail,
    /// The end of its standard error.
    pub standard_error: Tail,
    /// Number of delivered messages.
    pub messages: u64,
    /// Number of messages that were dropped because they were too long.
    pub messages_dropped: u64,
    /// Duration from the request to the end of the command.
    pub time: Duration,
}

/// A regular file in the output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// The path relative to the output folder.
    pub path: PathBuf,
    /// The size.
    pub bytes: u64,
}

/// The contents of the output folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The regular files, by path.
    pub files: Vec<OutputFile>,
    /// Number of entries that are never opened: links, pipes, sockets, devices, and folders that are nested too deeply.
    pub skipped: u64,
}

/// Why a command was not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The sandbox could not be set up, so nothing was run.
    Refused {
        /// The step that failed.
        step: String,
        /// The system's error.
        reason: String,
    },
    /// The run is invalid.
    Invalid(String),
    /// The re-executed program did not respond: its `main` does not start with
    /// [`crate::enter_if_requested`], or it was killed.
    NoResponse,
    /// A system call failed outside the sandbox.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { step, reason } => write!(out, "the command was not run: {step}: {reason}"),
            Self::Invalid(reason) => write!(out, "the command was not run: {reason}"),
            Self::NoResponse => {
                out.write_str("the command was not run: the process that sets up the sandbox did not respond")
            }
            Self::System(error) => write!(out, "running the command failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn exit_codes_have_their_documented_meaning() {
        for (code, exit) in [(0, Exit::Success), (75, Exit::TryLater), (1, Exit::Failed(1)), (255, Exit::Failed(255))] {
            assert_eq!(Exit::from_code(code), exit);
        }
    }
}
