//! The log: a snapshot, or records whose hashes are correct, so that the events are decoded and applied to the ledger.
//!
//! The first byte selects one of the two. Records are a length of two bytes and a body, one after the other.

use sage_kernel::{AccessModes, Ceiling, Delta, Epsilon, Filter, Gate, Head, MemoryLog, Policy, Record, Rule};
use sha2::{Digest, Sha256};

/// Opens a log. What opens once opens again with the same head.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 4 == 0 {
        let _ = Gate::open_from(MemoryLog::default(), rest);
        return;
    }
    let mut log = MemoryLog::default();
    let (mut head, mut rest) = (Head::EMPTY, rest);
    while let Some((length, body)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(body.len());
        let record = record_after(head, &body[..length]);
        head = record.head();
        log.records.push(record);
        rest = &body[length..];
    }
    if let Ok(gate) = Gate::open(log) {
        let head = gate.head();
        let again = Gate::open(gate.into_log()).expect("a log that was accepted is accepted again");
        assert_eq!(again.head(), head);
    }
}

/// A record with these bytes as its event and a correct hash (docs/reference/log-format.md).
fn record_after(head: Head, body: &[u8]) -> Record {
    let (number, time, previous) = (head.length, 0_u64, head.hash);
    let mut hasher = Sha256::new();
    hasher.update(b"sagelog1");
    hasher.update(number.to_le_bytes());
    hasher.update(time.to_le_bytes());
    hasher.update(previous);
    hasher.update(body);
    Record { number, time, previous, body: body.to_vec(), hash: hasher.finalize().into() }
}

/// The records of a log with a stream, blocks and a note, and its snapshot.
pub fn seeds() -> Vec<Vec<u8>> {
    let (epsilon, delta) = (Epsilon::ceiling("1").expect("a number"), Delta::ceiling("1e-6").expect("a number"));
    let filter = Filter::new(Rule::Renyi, Ceiling { epsilon, delta }).expect("a filter");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let policy = Policy::single(filter, AccessModes::EnforcedOnly);
    let stream = gate.create_stream(1, "taxi", policy).expect("a stream");
    let keys = ["2026-01-01", "2026-01-02"].map(str::to_owned).to_vec();
    gate.add_blocks(2, stream, keys).expect("blocks");
    gate.note(3, "note", b"body".to_vec()).expect("a note");
    let snapshot = gate.snapshot(4).expect("a snapshot");
    let mut records = vec![1];
    for record in &gate.log().records {
        let length = u16::try_from(record.body.len()).expect("a short record");
        records.extend(length.to_le_bytes());
        records.extend(&record.body);
    }
    vec![records, [&[0], snapshot.as_slice()].concat()]
}
