//! The gate after a failure, after a snapshot, and with forged records.

use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessModes, BlockId, ChargeOutcome, ContextId, Event, Fault, FaultyLog, Gate, GateError, GrantState, Head, Lane,
    Log, MemoryLog, Policy, Record, RequestKey, Rule, Session, StreamId,
};

use sha2::{Digest, Sha256};

use super::{charge, filter, granted, pure, request};
use crate::support::TestRows;

/// An operation of a gate.
type Ask = fn(&mut Gate<FaultyLog>) -> Result<(), GateError>;

fn open<L: Log>(log: L) -> Gate<L> {
    let mut gate = Gate::open(log).expect("an empty log");
    let policy = Policy::single(filter(Rule::Basic, "1", "1e-6"), AccessModes::EnforcedOnly);
    let stream = gate.create_stream(0, "rides", policy).expect("a stream");
    gate.add_blocks(0, stream, vec!["a".to_owned(), "b".to_owned()]).expect("blocks");
    gate
}

/// After an append with an unknown outcome the gate does nothing more, whatever is requested, although the log is
/// healthy again.
#[test]
fn a_closed_gate_stays_closed_for_everything() {
    let steps: [Ask; 6] = [
        |gate| gate.refresh(),
        |gate| gate.charge(2, vec![request("b", (1, 1), pure("0.1"))]).map(drop),
        |gate| gate.charge(2, Vec::new()).map(drop),
        |gate| gate.snapshot(2).map(drop),
        |gate| gate.note(2, "test", Vec::new()),
        |gate| gate.retire(2, StreamId(0), sage_kernel::Blocks::range(0, 0).expect("a block")),
    ];
    for (index, step) in steps.into_iter().enumerate() {
        let mut log = FaultyLog::default();
        log.fail_at(2, Fault::LoseBefore);
        let mut gate = open(log);
        let failed = gate.charge(1, vec![request("a", (0, 0), pure("0.1"))]);
        assert!(matches!(failed, Err(GateError::Log(_))), "{failed:?}");
        let length = gate.log().records().len();
        assert_eq!(step(&mut gate), Err(GateError::Closed), "step {index}");
        assert_eq!(gate.log().records().len(), length, "step {index}");
    }
}

/// A release is a record of the log with its digest, and moves the grant.
#[test]
fn a_release_is_recorded() {
    let mut gate = open(MemoryLog::default());
    let grant = granted(&mut gate, request("a", (0, 0), pure("0.5")));
    let id = grant.id();
    let permit = gate.start(1, grant).expect("starts");
    let session: Session<TestRows, SeededNoise> =
        permit.open(SeededNoise::new(1), |_| Ok::<_, ()>([Vec::new(), Vec::new()])).expect("opens");
    let before = gate.head();
    let head = gate.release(2, session.finish(), [9; 32]).expect("released");
    assert_eq!(gate.ledger().grant_state(id), Some(GrantState::Released([9; 32])));
    let last = gate.log().records.last().expect("a record");
    assert_eq!(last.verify(before), Ok((Event::Released { grant: id, digest: [9; 32] }, head)));
    assert_eq!(head.length, before.length + 1);
}

/// A gate that starts from a snapshot has read everything that was appended after it.
#[test]
fn a_snapshot_is_followed_by_the_rest_of_the_log() {
    let mut gate = open(MemoryLog::default());
    let first = granted(&mut gate, request("a", (0, 0), pure("0.25")));
    let snapshot = gate.snapshot(1).expect("healthy");
    let second = granted(&mut gate, request("b", (0, 1), pure("0.5")));
    gate.start(2, first).expect("starts").grant();
    let (ledger, head) = (gate.ledger().clone(), gate.head());
    let again = Gate::open_from(gate.into_log(), &snapshot).expect("vouched for");
    assert!(*again.ledger() == ledger && again.head() == head);
    let stream = again.ledger().stream(StreamId(0)).expect("the stream");
    let spent = |block| stream.spent(ContextId(0), BlockId(block), Lane::Train).expect("a cell")[0];
    assert_eq!((spent(0), spent(1)), (750_000_000_000, 500_000_000_000));
    assert_eq!(again.ledger().grant_state(second.id()), Some(GrantState::Charged));
}

/// A snapshot has twelve bytes for each amount, as the format says: one more block adds its key and, for each lane and
/// each component of the filter, one amount.
#[test]
fn an_amount_takes_twelve_bytes_of_a_snapshot() {
    let mut gate = open(MemoryLog::default());
    let before = gate.snapshot(1).expect("healthy").len();
    let filter = gate.ledger().stream(StreamId(0)).expect("the stream").policy().contexts()[0].filter.clone();
    gate.add_blocks(1, StreamId(0), vec!["one more".to_owned()]).expect("a block");
    let after = gate.snapshot(1).expect("healthy").len();
    assert_eq!(after - before, 1 + "one more".len() + 2 * filter.caps().len() * 12);
}

/// A record follows a head only with the next number and the head's hash, even if its own hash is right.
#[test]
fn a_record_needs_its_number_and_its_predecessor() {
    let gate = open(MemoryLog::default());
    let head = gate.head();
    let note = Event::Note { kind: "test".to_owned(), body: Vec::new() };
    let record = |length, hash| Record::after(Head { length, hash }, 1, &note);
    assert!(record(head.length, head.hash).verify(head).is_ok());
    assert!(record(head.length + 1, head.hash).verify(head).is_err(), "another number");
    assert!(record(head.length - 1, head.hash).verify(head).is_err(), "another number");
    assert!(record(head.length, [1; 32]).verify(head).is_err(), "another predecessor");
    let honest = record(head.length, head.hash);
    for index in 0..32 {
        let mut hash = honest.hash;
        hash[index] ^= 1;
        assert!(Record { hash, ..honest.clone() }.verify(head).is_err(), "byte {index} of the hash");
    }
}

/// A log of more records than are read at a time is read to its end, also if it ends with a full page.
#[test]
fn long_logs_are_read_to_their_end() {
    let page = 4096;
    let mut gate = open(MemoryLog::default());
    while gate.head().length < page {
        gate.note(1, "test", Vec::new()).expect("healthy");
    }
    let full = gate.head();
    let mut again = Gate::open(gate.into_log()).expect("a sound log");
    assert_eq!(again.head(), full);
    let grant = granted(&mut again, request("a", (0, 0), pure("0.5"))).id();
    let head = again.head();
    assert_eq!(head.length, page + 1);
    let again = Gate::open(again.into_log()).expect("a sound log");
    assert_eq!(again.head(), head);
    assert_eq!(again.ledger().grant_state(grant), Some(GrantState::Charged));
}

/// The log up to a snapshot of these bytes, with a record that vouches for them whatever they are.
fn vouched(gate: &Gate<MemoryLog>, bytes: &[u8]) -> MemoryLog {
    let event = Event::Snapshot { digest: Sha256::digest(bytes).into() };
    let mut log = gate.log().clone();
    log.records.push(Record::after(gate.head(), 1, &event));
    log
}

/// A key that was charged before a snapshot is known after it.
#[test]
fn keys_are_known_after_a_snapshot() {
    let mut gate = open(MemoryLog::default());
    let first = request("a", (0, 0), pure("0.25"));
    let id = granted(&mut gate, first.clone()).id();
    let snapshot = gate.snapshot(1).expect("healthy");
    let mut again = Gate::open_from(gate.into_log(), &snapshot).expect("vouched for");
    match charge(&mut again, first) {
        ChargeOutcome::Repeated(known, GrantState::Charged, Some(_)) => assert_eq!(known, id),
        other => panic!("{other:?}"),
    }
}

/// Bytes of a snapshot that the ledger would not write are refused, even if the log vouches for them: grants from the
/// future, grants out of order, and bytes that are left over.
#[test]
fn snapshots_that_nobody_writes_are_refused() {
    let mut gate = open(MemoryLog::default());
    let keys = ["a", "b"];
    let grants = keys.map(|key| granted(&mut gate, request(key, (0, 0), pure("0.25"))));
    for grant in grants {
        gate.cancel(1, grant).expect("it has not started");
    }
    let mut copy = Gate::open(gate.log().clone()).expect("a sound log");
    let bytes = copy.snapshot(1).expect("healthy");
    let opens = |bytes: &[u8]| Gate::open_from(vouched(&gate, bytes), bytes).map(drop);
    assert_eq!(opens(&bytes), Ok(()));
    assert_eq!(opens(&[&bytes[..], &[0]].concat()), Err(GateError::Snapshot), "a byte more");
    // The number of a grant is the byte before its key.
    let number = |key: &str| {
        let key = RequestKey::from_text(key).bytes();
        bytes.windows(32).position(|window| window == key).expect("the key") - 1
    };
    let (first, second) = (number("a"), number("b"));
    assert_eq!((bytes[first], bytes[second]), (2, 3));
    let end = u8::try_from(gate.head().length).expect("a short log");
    for (offset, to, fine) in [(second, end - 1, true), (second, end, false), (second, 2, false), (first, 3, false)] {
        let mut forged = bytes.clone();
        forged[offset] = to;
        assert_eq!(opens(&forged).is_ok(), fine, "{to} at {offset}");
    }
}
