//! A log in memory with injected faults, only for tests and experiments.

use std::collections::BTreeMap;

use crate::log::{Head, Log, LogError, Record};
use crate::memory::MemoryLog;

/// A fault of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and the error reports this.
    Refuse,
    /// Nothing is written, and the error reports an unknown outcome.
    LoseBefore,
    /// Everything is written, and the error reports an unknown outcome.
    LoseAfter,
    /// Everything is written, and the store returns a wrong log head.
    Misreport,
}

/// A log in memory with faults at chosen appends.
#[derive(Clone, Debug, Default)]
pub struct FaultyLog {
    log: MemoryLog,
    appends: u64,
    faults: BTreeMap<u64, Fault>,
}

impl FaultyLog {
    /// A log with these records and no faults.
    pub fn with_records(records: Vec<Record>) -> Self {
        Self { log: MemoryLog { records }, ..Self::default() }
    }

    /// Injects a fault into the append with this number, counted from zero.
    pub fn fail_at(&mut self, append: u64, fault: Fault) {
        self.faults.insert(append, fault);
    }

    /// The records.
    pub fn records(&self) -> &[Record] {
        &self.log.records
    }
}

impl Log for FaultyLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.log.read(from, limit)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        let fault = self.faults.get(&self.appends).copied();
        self.appends += 1;
        match fault {
            None => self.log.append(expected, records),
            Some(Fault::Refuse) => Err(LogError::Failed("injected".to_owned())),
            Some(Fault::LoseBefore) => Err(LogError::Unknown("injected".to_owned())),
            Some(Fault::LoseAfter) => {
                self.log.append(expected, records)?;
                Err(LogError::Unknown("injected".to_owned()))
            }
            Some(Fault::Misreport) => self.log.append(expected, records).map(|_| expected),
        }
    }
}
