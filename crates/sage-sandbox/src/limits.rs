//! How much of the machine a command may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a command may use up. None of these protects rows; they protect the machine and whoever waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// From start to end. Then everything in the box is killed.
    pub time: Duration,
    /// Processor time of any one process, in whole seconds.
    pub processor_time: Duration,
    /// Memory of all processes together, apart from the two folders below, which are in memory too. The kernel
    /// holds each process to it; the sum is looked at forty times a second.
    pub memory_bytes: u64,
    /// Processes and threads that exist at the same time.
    pub processes: u64,
    /// Descriptors that one process may have open.
    pub open_files: u64,
    /// All that is in the output folder.
    pub output_bytes: u64,
    /// Files, folders and links in the output folder.
    pub output_files: u64,
    /// All that is in the temporary folder.
    pub scratch_bytes: u64,
    /// All messages together.
    pub message_bytes: u64,
    /// One message. A longer one is left out and counted.
    pub message_line_bytes: usize,
    /// What may be printed, to standard output and standard error each.
    pub printed_bytes: u64,
    /// How much of what was printed is kept, from its end.
    pub tail_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(3600),
            processor_time: Duration::from_secs(4 * 3600),
            memory_bytes: 4 << 30,
            processes: 256,
            open_files: 1024,
            output_bytes: 256 << 20,
            output_files: 256,
            scratch_bytes: 1 << 30,
            message_bytes: 16 << 20,
            message_line_bytes: 64 << 10,
            printed_bytes: 256 << 20,
            tail_bytes: 64 << 10,
        }
    }
}

/// The limit that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::time`].
    Time,
    /// [`Limits::processor_time`].
    ProcessorTime,
    /// [`Limits::memory_bytes`].
    Memory,
    /// A file larger than output or scratch may be.
    FileBytes,
    /// [`Limits::message_bytes`].
    Messages,
    /// [`Limits::printed_bytes`].
    Printed,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Time => "its time was over",
            Self::ProcessorTime => "it used too much processor time",
            Self::Memory => "it used too much memory",
            Self::FileBytes => "it wrote too large a file",
            Self::Messages => "it sent too many messages",
            Self::Printed => "it printed too much",
        })
    }
}
