//! Snapshots, so that opening a directory does not read the whole log.
//!
//! A snapshot contains the notes from which the catalog is folded, and the kernel's snapshot of the ledger. A note
//! commits to those notes, and the next record commits to the kernel's part, so a changed snapshot would require a
//! rewritten log, which an exported head reveals. A missing or invalid snapshot only costs time: the log is then read
//! from its first record. The doctor always does that.

use sage_kernel::{Event, Gate, GateError, Head, Log, LogError};

use crate::api::{Engine, EngineError, Store, now};
use crate::catalog::{Catalog, Note, NoteCollector};
use crate::log::Directory;

/// The kind of the note that commits to the catalog's notes.
const KIND: &str = "catalog snapshot";

/// The number of events after which another snapshot is worthwhile.
const DUE: u64 = 20_000;

/// The notes of the catalog, concatenated: number, length and body.
#[derive(Default)]
pub(crate) struct History {
    bytes: Vec<u8>,
    /// The length of the log at the last snapshot.
    taken: u64,
}

impl History {
    pub(crate) fn push(&mut self, number: u64, body: Vec<u8>) {
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend((body.len() as u64).to_le_bytes());
        self.bytes.extend(body);
    }

    /// Folds the notes into a catalog; `follow` gets each note with the catalog after it.
    pub(crate) fn fold(&self, mut follow: impl FnMut(&Note, &Catalog)) -> Result<Catalog, EngineError> {
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

/// Opens the log of a directory, from a valid snapshot if there is one.
pub(crate) fn open(directory: &Directory) -> Result<(Gate<Store>, History), EngineError> {
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
        // A problem of the log itself is reported when it is read from the start.
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
    // Not through the gate's log, since this record precedes those that the gate has verified.
    let records = log.log().read(number, 1)?;
    let Some(record) = records.first() else { return Ok(false) };
    let verified = record.verify(Head { length: number, hash: record.previous });
    Ok(verified.is_ok_and(|(event, head)| {
        head == after && event == Event::Note { kind: KIND.to_owned(), body: digest.to_vec() }
    }))
}

impl Engine {
    /// Saves a snapshot of the present state.
    ///
    /// # Errors
    /// When the log or the snapshot cannot be written. Without a snapshot, the next start only takes longer.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        // Applies outstanding notes to the catalog first.
        self.with(|_, _| Ok(()))?;
        self.group_commit.with(|gate| {
            let mut history = crate::api::lock(&self.history);
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

    pub(crate) fn checkpoint_if_due(&self) -> Result<(), EngineError> {
        let length = self.group_commit.with(|gate| gate.head().length)?;
        let taken = crate::api::lock(&self.history).taken;
        if length.saturating_sub(taken) < DUE { Ok(()) } else { self.checkpoint() }
    }
}
