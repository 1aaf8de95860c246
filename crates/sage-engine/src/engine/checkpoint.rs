//! Snapshots, so that a start does not read the whole log.
//!
//! A snapshot is the kernel's, of the ledger, and before it the notes that the catalog is a fold of. A note
//! commits to those notes, and the very next record is the one by which the kernel commits to its own part; so
//! whoever edits either would have to rewrite the log from there on, which an exported head shows. A snapshot
//! that is missing or is not vouched for costs time and nothing else: the log is then read from its first
//! record. The doctor always does that.

use sage_kernel::{Event, Gate, GateError, Head, Log, LogError};

use super::{Engine, EngineError, Store, now};
use crate::catalog::{Catalog, Note, NoteCollector};
use crate::log::Directory;

/// The kind of the note that commits to the notes before it.
const KIND: &str = "catalog snapshot";

/// How many events after a snapshot make another worth its while.
const DUE: u64 = 20_000;

/// The notes of the catalog, one after the other: number, length and body.
#[derive(Default)]
pub(super) struct History {
    bytes: Vec<u8>,
    /// The length of the log at the last snapshot.
    taken: u64,
}

impl History {
    pub(super) fn push(&mut self, number: u64, body: Vec<u8>) {
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend((body.len() as u64).to_le_bytes());
        self.bytes.extend(body);
    }

    /// Folds the notes; whoever follows sees each of them with the catalog that has just taken it.
    pub(super) fn fold(&self, mut follow: impl FnMut(&Note, &Catalog)) -> Result<Catalog, EngineError> {
        let mut catalog = Catalog::default();
        let mut rest = &self.bytes[..];
        while let Some((number, after)) = rest.split_first_chunk::<8>() {
            let number = u64::from_le_bytes(*number);
            let broken = EngineError::Catalog { number };
            let cut = after
                .split_first_chunk::<8>()
                .and_then(|(length, after)| after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?));
            let Some((body, after)) = cut else { return Err(broken) };
            let Some(note) = Note::from_bytes(body) else { return Err(broken) };
            catalog.apply(note.clone()).map_err(|_| broken)?;
            follow(&note, &catalog);
            rest = after;
        }
        Ok(catalog)
    }

    fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.bytes).as_bytes()
    }
}

/// Opens the log of a directory, from its snapshot if there is a good one.
pub(super) fn open(directory: &Directory) -> Result<(Gate<Store>, History), EngineError> {
    match open_from_snapshot(directory)? {
        Some(opened) => Ok(opened),
        None => Ok((Gate::open(NoteCollector::new(directory.log()?))?, History::default())),
    }
}

fn open_from_snapshot(directory: &Directory) -> Result<Option<(Gate<Store>, History)>, EngineError> {
    let log = directory.log()?;
    let Some(bytes) = log.snapshot() else { return Ok(None) };
    let parts = bytes
        .split_first_chunk::<8>()
        .and_then(|(length, rest)| rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?));
    let Some((notes, ledger)) = parts else { return Ok(None) };
    let gate = match Gate::open_from(NoteCollector::new(log), ledger) {
        Ok(gate) => gate,
        // Whatever is wrong with the log itself, reading it from the start says so.
        Err(_) => return Ok(None),
    };
    let Some(start) = gate.log().start() else { return Ok(None) };
    let history = History { bytes: notes.to_vec(), taken: start.length };
    let vouched = vouched_for(gate.log(), start, history.digest()).map_err(GateError::Log)?;
    Ok(vouched.then_some((gate, history)))
}

/// Whether the record before the kernel's snapshot commits to these notes. The head after it is verified.
fn vouched_for(log: &Store, after: Head, digest: [u8; 32]) -> Result<bool, LogError> {
    let Some(number) = after.length.checked_sub(1) else { return Ok(false) };
    // Not through the gate's log: what is read here lies before what the gate has verified.
    let records = log.log().read(number, 1)?;
    let Some(record) = records.first() else { return Ok(false) };
    let verified = record.verify(Head { length: number, hash: record.previous });
    Ok(verified.is_ok_and(|(event, head)| {
        head == after && event == Event::Note { kind: KIND.to_owned(), body: digest.to_vec() }
    }))
}

impl Engine {
    /// Keeps a snapshot of everything as it is now.
    ///
    /// # Errors
    /// When the log or the snapshot cannot be written. Without one a start takes longer, and that is all.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        // First the catalog takes in what there is.
        self.with(|_, _| Ok(()))?;
        self.desk.with(|gate| {
            let mut history = super::lock(&self.history);
            gate.note(now(), KIND, history.digest().to_vec())?;
            let ledger = gate.snapshot(now())?;
            let mut bytes = (history.bytes.len() as u64).to_le_bytes().to_vec();
            bytes.extend(&history.bytes);
            bytes.extend(ledger);
            let length = gate.head().length;
            gate.log().log().save_snapshot(length, &bytes).map_err(GateError::Log)?;
            history.taken = length;
            Ok(())
        })?
    }

    pub(super) fn checkpoint_if_due(&self) -> Result<(), EngineError> {
        let length = self.desk.with(|gate| gate.head().length)?;
        let taken = super::lock(&self.history).taken;
        if length.saturating_sub(taken) < DUE { Ok(()) } else { self.checkpoint() }
    }
}
