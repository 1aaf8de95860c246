//! Resource limits of a command.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The resources that a command may use. These limits protect the host, not rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time. When it is over, everything in the sandbox is killed.
    pub time: Duration,
    /// Processor time of each process, in whole seconds.
    pub processor_time: Duration,
    /// Memory of all processes together, not counting the two in-memory folders below. The kernel enforces it per
    /// process; the total is polled forty times a second.
    pub memory_bytes: u64,
    /// Processes and threads at the same time.
    pub processes: u64,
    /// Open descriptors per process.
    pub open_files: u64,
    /// Total size of the output folder.
    pub output_bytes: u64,
    /// Files, folders and links in the output folder.
    pub output_files: u64,
    /// Total size of the temporary folder.
    pub scratch_bytes: u64,
    /// Total size of all messages.
    pub message_bytes: u64,
    /// Size of one message. A longer one is dropped and counted.
    pub message_line_bytes: usize,
    /// Printed bytes, for standard output and standard error each.
    pub printed_bytes: u64,
    /// How much of the end of the printed output is kept.
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
    /// A file larger than [`Limits::output_bytes`] and [`Limits::scratch_bytes`].
    FileBytes,
    /// [`Limits::message_bytes`].
    Messages,
    /// [`Limits::printed_bytes`].
    Printed,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Time => "it ran out of time",
            Self::ProcessorTime => "it used too much processor time",
            Self::Memory => "it used too much memory",
            Self::FileBytes => "it wrote too large a file",
            Self::Messages => "it sent too many messages",
            Self::Printed => "it printed too much",
        })
    }
}
