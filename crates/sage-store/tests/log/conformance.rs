//! The conformance suite of logs. Each check is generic over a store whose log can be opened several times, and every
//! store runs through all checks.

use std::sync::{Arc, Mutex};
use std::thread;

use crate::world::Random;
use sage_kernel::{Event, Gate, Head, Log, LogError, MemoryLog, Record};
use sage_store::log::{BoxedLog, Directory};

/// A store of one log, which can be opened by any number of handles.
trait Store: Sync {
    type Handle: Log + Send;

    /// A store with an empty log.
    fn empty() -> Self;

    /// Another handle on the same log.
    fn open(&self) -> Self::Handle;
}

/// Records in memory that several handles share.
struct InMemory(Arc<Mutex<MemoryLog>>);

#[derive(Clone)]
struct SharedMemory(Arc<Mutex<MemoryLog>>);

impl Log for SharedMemory {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.0.lock().expect("no panic").read(from, limit)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.0.lock().expect("no panic").append(expected, records)
    }
}

impl Store for InMemory {
    type Handle = SharedMemory;

    fn empty() -> Self {
        Self(Arc::default())
    }

    fn open(&self) -> SharedMemory {
        SharedMemory(Arc::clone(&self.0))
    }
}

/// A directory with a log in a SQLite file.
struct OnDisk {
    directory: Mutex<Directory>,
    _folder: tempfile::TempDir,
}

impl Store for OnDisk {
    type Handle = BoxedLog;

    fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        Self { directory: Mutex::new(Directory::open(folder.path()).expect("a new directory")), _folder: folder }
    }

    fn open(&self) -> BoxedLog {
        self.directory.lock().expect("no panic").log().expect("a log")
    }
}

/// Records that follow a head, with bodies of `size` bytes.
fn records(mut head: Head, count: usize, size: usize) -> Vec<Record> {
    let mut next = |_| {
        let event = Event::Note { kind: "test".to_owned(), body: vec![head.length.to_le_bytes()[0]; size] };
        let record = Record::after(head, head.length, &event);
        head = record.head();
        record
    };
    (0..count).map(&mut next).collect()
}

/// Appends records in one batch, and returns them.
fn extend(log: &mut impl Log, head: Head, count: usize) -> Vec<Record> {
    let batch = records(head, count, 40);
    let expected = batch.last().map_or(head, Record::head);
    assert_eq!(log.append(head, batch.clone()), Ok(expected));
    batch
}

fn an_empty_log_is_empty<S: Store>() {
    let store = S::empty();
    for (from, limit) in [(0, 0), (0, 1), (0, usize::MAX), (7, 10), (u64::MAX, 1)] {
        assert_eq!(store.open().read(from, limit), Ok(Vec::new()), "{from} {limit}");
    }
    assert_eq!(Gate::open(store.open()).expect("a chain").head(), Head::EMPTY);
}

fn appended_records_are_read_in_pages_of_any_size<S: Store>() {
    let store = S::empty();
    let mut log = store.open();
    let mut all = Vec::new();
    for count in [1, 2, 1, 30, 3] {
        let head = all.last().map_or(Head::EMPTY, Record::head);
        all.extend(extend(&mut log, head, count));
    }
    for from in 0..all.len() + 2 {
        for limit in [0, 1, 2, 36, 37, 38, usize::MAX] {
            let expected: Vec<Record> = all.iter().skip(from).take(limit).cloned().collect();
            assert_eq!(log.read(from as u64, limit), Ok(expected), "{from} {limit}");
        }
    }
}

fn extreme_times_are_stored<S: Store>() {
    let store = S::empty();
    let mut log = store.open();
    let mut head = Head::EMPTY;
    let mut all = Vec::new();
    for time in [0, 1, u64::MAX, i64::MAX as u64, i64::MAX as u64 + 1, 7] {
        let record = Record::after(head, time, &Event::Note { kind: String::new(), body: Vec::new() });
        head = record.head();
        assert_eq!(log.append(Head { length: record.number, hash: record.previous }, vec![record.clone()]), Ok(head));
        all.push(record);
    }
    assert_eq!(store.open().read(0, 100), Ok(all));
}

fn an_append_after_another_head_is_a_conflict<S: Store>() {
    let store = S::empty();
    let mut log = store.open();
    let first = extend(&mut log, Head::EMPTY, 5);
    let behind = first[2].head();
    let beyond = Head { length: 9, hash: [9; 32] };
    for expected in [Head::EMPTY, behind, beyond] {
        assert_eq!(log.append(expected, records(expected, 2, 40)), Err(LogError::Conflict));
        assert_eq!(log.append(expected, Vec::new()), Err(LogError::Conflict));
    }
    assert_eq!(log.read(0, 100), Ok(first.clone()), "nothing was written");
    extend(&mut log, first[4].head(), 1);
}

fn an_empty_append_changes_nothing<S: Store>() {
    let store = S::empty();
    let mut log = store.open();
    assert_eq!(log.append(Head::EMPTY, Vec::new()), Ok(Head::EMPTY));
    let head = extend(&mut log, Head::EMPTY, 3)[2].head();
    assert_eq!(log.append(head, Vec::new()), Ok(head));
    assert_eq!(store.open().read(0, 10).map(|records| records.len()), Ok(3));
}

fn a_batch_is_visible_completely_or_not_at_all<S: Store>() {
    let store = S::empty();
    const SIZE: usize = 50;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut log = store.open();
            let mut head = Head::EMPTY;
            for _ in 0..20 {
                head = extend(&mut log, head, SIZE)[SIZE - 1].head();
            }
        });
        let log = store.open();
        while !writer.is_finished() {
            let seen = log.read(0, usize::MAX).expect("readable while another handle writes").len();
            assert_eq!(seen % SIZE, 0, "a part of a batch was seen");
        }
    });
    assert_eq!(store.open().read(0, usize::MAX).map(|records| records.len()), Ok(20 * SIZE));
}

fn records_outlive_their_handle<S: Store>() {
    let store = S::empty();
    let mut all = Vec::new();
    for count in [1, 10, 100] {
        let head = all.last().map_or(Head::EMPTY, Record::head);
        all.extend(extend(&mut store.open(), head, count));
        assert_eq!(store.open().read(0, usize::MAX), Ok(all.clone()));
    }
}

fn one_of_two_concurrent_appends_wins<S: Store>() {
    let store = S::empty();
    const ROUNDS: u64 = 40;
    let wins: u64 = thread::scope(|scope| {
        let race = || {
            let mut log = store.open();
            let mut wins = 0;
            let mut head = Head::EMPTY;
            while head.length < ROUNDS {
                match log.append(head, records(head, 1, 40)) {
                    Ok(_) => wins += 1,
                    Err(LogError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
                head = log.read(head.length, usize::MAX).expect("readable").last().map_or(head, Record::head);
            }
            wins
        };
        let racers = [scope.spawn(race), scope.spawn(race), scope.spawn(race)];
        racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
    });
    assert_eq!(wins, ROUNDS, "every record has one writer");
    assert_eq!(Gate::open(store.open()).expect("a chain").head().length, ROUNDS);
}

fn bodies_of_any_size_are_stored<S: Store>() {
    let store = S::empty();
    let mut log = store.open();
    let mut head = Head::EMPTY;
    for size in [0, 1, 4_000, 4_096, 70_000, 5 << 20] {
        let record = records(head, 1, size);
        head = log.append(head, record.clone()).expect("appended");
        assert_eq!(log.read(head.length - 1, 1), Ok(record), "{size} bytes");
    }
}

fn a_long_sequence_of_batches_is_stored<S: Store>() {
    let mut random = Random::seeded();
    let store = S::empty();
    let mut log = store.open();
    let mut all: Vec<Record> = Vec::new();
    for _ in 0..200 {
        let head = all.last().map_or(Head::EMPTY, Record::head);
        match random.below(4) {
            0 => log = store.open(),
            1 if !all.is_empty() => {
                let stale = Head { length: random.below(head.length), hash: [0; 32] };
                assert_eq!(log.append(stale, records(stale, 1, 1)), Err(LogError::Conflict));
            }
            _ => {
                let count = usize::try_from(1 + random.below(90)).expect("small");
                all.extend(extend(&mut log, head, count));
            }
        }
    }
    assert_eq!(log.read(0, usize::MAX), Ok(all));
}

fn conforms<S: Store>() {
    an_empty_log_is_empty::<S>();
    appended_records_are_read_in_pages_of_any_size::<S>();
    extreme_times_are_stored::<S>();
    an_append_after_another_head_is_a_conflict::<S>();
    an_empty_append_changes_nothing::<S>();
    a_batch_is_visible_completely_or_not_at_all::<S>();
    records_outlive_their_handle::<S>();
    one_of_two_concurrent_appends_wins::<S>();
    bodies_of_any_size_are_stored::<S>();
    a_long_sequence_of_batches_is_stored::<S>();
}

#[test]
fn the_log_in_memory_conforms() {
    conforms::<InMemory>();
}

#[test]
fn the_log_in_sqlite_conforms() {
    conforms::<OnDisk>();
}
