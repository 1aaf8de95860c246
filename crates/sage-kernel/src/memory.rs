//! A log in memory, for simulation and tests.

use crate::log::{Head, Log, LogError, Record};

/// A log that keeps its records in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    /// The records. Changes are detected when the log is read and its hash chain verified.
    pub records: Vec<Record>,
}

impl Log for MemoryLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.records.len());
        Ok(self.records[from..].iter().take(limit).cloned().collect())
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        if self.records.len() as u64 != expected.length {
            return Err(LogError::Conflict);
        }
        self.records.extend(records);
        Ok(self.records.last().map_or(Head::EMPTY, Record::head))
    }
}
