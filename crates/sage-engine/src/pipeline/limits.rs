//! The table `[limits]` of a pipeline file: the time and memory of an attempt.

use super::parts::{read_count, read_width};
use crate::document::{DocumentError, Section};
use crate::stream::Width;

/// Resource limits of one attempt. They do not protect rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The time from the first row to the verdict.
    pub time: Option<Width>,
    /// The memory in millions of bytes.
    pub memory_megabytes: Option<u32>,
}

impl Limits {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        section.only(&["time", "memory_megabytes"])?;
        const MEMORY: &str = "a whole number from 1 to 100000000: the memory of an attempt, in millions of bytes";
        let memory_megabytes = match section.has("memory_megabytes") {
            true => Some(read_count(section, "memory_megabytes", 100_000_000, MEMORY)?),
            false => None,
        };
        Ok(Self { time: read_width(section, "time")?, memory_megabytes })
    }

    pub(super) fn write(&self, out: &mut String) {
        if *self == Self::default() {
            return;
        }
        out.push_str("\n[limits]\n");
        if let Some(time) = self.time {
            out.push_str(&format!("time = \"{time}\"\n"));
        }
        if let Some(memory) = self.memory_megabytes {
            out.push_str(&format!("memory_megabytes = {memory}\n"));
        }
    }
}
