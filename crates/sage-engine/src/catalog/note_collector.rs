//! A log wrapper that collects the notes that pass through it.
//!
//! The gate reads and verifies every record once and discards the notes. The catalog needs them, and this wrapper saves
//! a second read of the log. It collects what the gate was given, verified or not: only notes below the gate's head are
//! verified, and only those may be taken.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use sage_kernel::{Event, Head, Log, LogError, Record};

/// The first byte of a record body that is a note (`docs/reference/log-format.md`).
const NOTE: u8 = 9;

/// A log, and the notes read from or appended to it, by number.
pub(crate) struct NoteCollector<L> {
    log: L,
    notes: RefCell<BTreeMap<u64, Record>>,
    /// The head before the first record read: the trusted head of a gate that starts from a snapshot.
    start: Cell<Option<Head>>,
    /// Notes below this number were taken or are in the snapshot. Reading them again, to compare a head, does not
    /// collect them again.
    taken: Cell<u64>,
}

impl<L> NoteCollector<L> {
    pub(crate) const fn new(log: L) -> Self {
        Self { log, notes: RefCell::new(BTreeMap::new()), start: Cell::new(None), taken: Cell::new(0) }
    }

    /// The wrapped log.
    pub(crate) const fn log(&self) -> &L {
        &self.log
    }

    /// The head before the first record read.
    pub(crate) fn start(&self) -> Option<Head> {
        self.start.get()
    }

    /// Takes the notes below a verified head, in order, as (number, kind, body).
    pub(crate) fn take_below(&self, length: u64) -> Vec<(u64, String, Vec<u8>)> {
        self.taken.set(self.taken.get().max(length));
        let mut notes = self.notes.borrow_mut();
        let later = notes.split_off(&length);
        let taken = std::mem::replace(&mut *notes, later);
        let read = |record: Record| match Event::from_bytes(&record.body) {
            Ok(Event::Note { kind, body }) => Some((record.number, kind, body)),
            _ => None,
        };
        taken.into_values().filter_map(read).collect()
    }

    /// Collects the notes among the records. A record that is read again replaces the earlier one, because the gate
    /// verifies the last one it was given.
    fn collect(&self, records: &[Record]) {
        if let (None, Some(first)) = (self.start.get(), records.first()) {
            self.start.set(Some(Head { length: first.number, hash: first.previous }));
            self.taken.set(first.number);
        }
        let taken = self.taken.get();
        let notes = records.iter().filter(|record| record.number >= taken && record.body.first() == Some(&NOTE));
        self.notes.borrow_mut().extend(notes.map(|record| (record.number, record.clone())));
    }
}

impl<L: Log> Log for NoteCollector<L> {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        let records = self.log.read(from, limit)?;
        self.collect(&records);
        Ok(records)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        let notes: Vec<Record> = records.iter().filter(|record| record.body.first() == Some(&NOTE)).cloned().collect();
        let head = self.log.append(expected, records)?;
        self.collect(&notes);
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use sage_kernel::{Gate, MemoryLog};

    use super::*;

    fn taken(gate: &Gate<NoteCollector<MemoryLog>>) -> Vec<(u64, String)> {
        let notes = gate.log().take_below(gate.head().length);
        notes.into_iter().map(|(number, kind, _)| (number, kind)).collect()
    }

    #[test]
    fn every_note_is_taken_once_whether_written_or_read() {
        let mut gate = Gate::open(NoteCollector::new(MemoryLog::default())).expect("an empty log");
        gate.note(0, "a", vec![1]).expect("a note");
        gate.note(0, "b", vec![2]).expect("a note");
        assert_eq!(taken(&gate), [(0, "a".to_owned()), (1, "b".to_owned())]);
        assert_eq!(taken(&gate), []);
        gate.note(0, "c", vec![3]).expect("a note");
        assert_eq!(taken(&gate), [(2, "c".to_owned())]);
        let again = Gate::open(NoteCollector::new(gate.into_log().log)).expect("the same log");
        assert_eq!(taken(&again).len(), 3);
    }

    #[test]
    fn a_note_beyond_the_head_waits() {
        let mut gate = Gate::open(NoteCollector::new(MemoryLog::default())).expect("an empty log");
        gate.note(0, "a", vec![1]).expect("a note");
        let log = gate.into_log();
        assert!(log.take_below(0).is_empty());
        assert_eq!(log.take_below(1).len(), 1);
    }
}
