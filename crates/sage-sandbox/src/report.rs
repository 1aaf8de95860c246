//! How a run ended, and how one did not begin.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Limit;
use crate::output::Output;
use crate::printed::Tail;

/// What a command says with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: what it made is in the output folder.
    Ready,
    /// 75, `EX_TEMPFAIL`: not now, try later.
    TryLater,
    /// Any other code.
    Failed(u8),
}

impl Exit {
    /// The meaning of a code.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Ready,
            75 => Self::TryLater,
            other => Self::Failed(other),
        }
    }
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// By itself.
    Exit(Exit),
    /// A signal ended it that we did not send.
    Signal(i32),
    /// It went over a limit and was killed.
    Limit(Limit),
    /// The caller asked for its end.
    Stopped,
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(Exit::Ready) => out.write_str("ready"),
            Self::Exit(Exit::TryLater) => out.write_str("try later"),
            Self::Exit(Exit::Failed(code)) => write!(out, "failed with exit code {code}"),
            Self::Signal(signal) => write!(out, "ended by signal {signal}"),
            Self::Limit(limit) => write!(out, "killed: {limit}"),
            Self::Stopped => out.write_str("stopped"),
        }
    }
}

/// The second wall around files and sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landlock {
    /// Every rule holds.
    Full,
    /// The kernel is older than some of the rules.
    Partial,
    /// The kernel has none. The namespaces and the list of system calls hold without it.
    Absent,
}

/// What stood around the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walls {
    /// Namespaces and a list of system calls, always both, and Landlock as far as the kernel has it.
    Closed {
        /// How much of Landlock.
        landlock: Landlock,
    },
    /// Nothing, by somebody's decision.
    None {
        /// Whose.
        allowed_by: String,
    },
}

/// What is known after a run. Everything in it but `walls` can depend on rows that the command read, `time`
/// included: only the author of the command may see it.
#[derive(Debug)]
pub struct Report {
    /// How the command ended.
    pub ending: Ending,
    /// What stood around it.
    pub walls: Walls,
    /// What it made. Worth reading only if it ended with [`Exit::Ready`].
    pub output: Output,
    /// The end of its standard output.
    pub standard_output: Tail,
    /// The end of its standard error.
    pub standard_error: Tail,
    /// Messages handed on.
    pub messages: u64,
    /// Messages left out because they were too long.
    pub messages_left_out: u64,
    /// From the order to start to its end.
    pub time: Duration,
}

/// Why a command was not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The box could not be closed here, so nothing was run in it.
    Refused {
        /// The step that failed.
        step: String,
        /// What the system said about it.
        reason: String,
    },
    /// The order makes no sense.
    Order(String),
    /// The program was started again and did not answer: its `main` does not begin with
    /// [`crate::enter_if_asked`], or it was killed.
    NoAnswer,
    /// The system failed outside of the box.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { step, reason } => write!(out, "the command was not run: {step}: {reason}"),
            Self::Order(reason) => write!(out, "the command was not run: {reason}"),
            Self::NoAnswer => out.write_str("the command was not run: the process that closes the box did not answer"),
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

impl From<rustix::io::Errno> for RunError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn codes_mean_what_the_protocol_says() {
        for (code, exit) in [(0, Exit::Ready), (75, Exit::TryLater), (1, Exit::Failed(1)), (255, Exit::Failed(255))] {
            assert_eq!(Exit::from_code(code), exit);
        }
    }
}
