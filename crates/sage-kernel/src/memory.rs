//! A log in memory: for simulation, and for whoever needs no disk.

use crate::log::{Head, Log, LogError, Record};

/// Records in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    /// What has been appended. Whoever changes it is found out when it is read.
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
