//! A log in memory, with faults on demand: for simulation, tests and measurements.

use std::collections::BTreeMap;

use crate::log::{Head, Log, LogError, Record};

/// What goes wrong with an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and the writer is told so.
    Refuse,
    /// The writer is told that the outcome is not known, and nothing was written.
    LoseBefore,
    /// The writer is told that the outcome is not known, and everything was written.
    LoseAfter,
    /// Everything is written, and the store answers with a head that is not the log's.
    Misreport,
}

/// Records in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    records: Vec<Record>,
    appends: u64,
    faults: BTreeMap<u64, Fault>,
}

impl MemoryLog {
    /// A log that already holds these records.
    #[must_use]
    pub fn holding(records: Vec<Record>) -> Self {
        Self { records, ..Self::default() }
    }

    /// Makes the append with this number (counted from zero) go wrong.
    pub fn fail_at(&mut self, append: u64, fault: Fault) {
        self.faults.insert(append, fault);
    }

    /// The records.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    fn head(&self) -> Head {
        self.records.last().map_or(Head::EMPTY, Record::head)
    }
}

impl Log for MemoryLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.records.len());
        Ok(self.records[from..].iter().take(limit).cloned().collect())
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        let fault = self.faults.get(&self.appends).copied();
        self.appends += 1;
        match fault {
            Some(Fault::Refuse) => return Err(LogError::Failed("injected".to_owned())),
            Some(Fault::LoseBefore) => return Err(LogError::Unknown("injected".to_owned())),
            _ => {}
        }
        if self.records.len() as u64 != expected.length {
            return Err(LogError::Conflict);
        }
        self.records.extend(records);
        match fault {
            Some(Fault::LoseAfter) => Err(LogError::Unknown("injected".to_owned())),
            Some(Fault::Misreport) => Ok(expected),
            _ => Ok(self.head()),
        }
    }
}
