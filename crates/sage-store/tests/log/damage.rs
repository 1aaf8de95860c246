//! Damage to the log file is detected when the log is opened, or has no effect. It never leads to another state.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use crate::world::{Random, create_stream, memory_folder, request, soak, sound};
use rusqlite::Connection;
use sage_kernel::{ChargeOutcome, Gate, GateError, Head, Ledger, Log, Record};
use sage_store::log::{Directory, GroupCommit, HeadCheck, Heads};

/// A closed directory with events of every kind, its exported head, its records and its state.
struct Sample {
    folder: tempfile::TempDir,
    file: Vec<u8>,
    records: Vec<Record>,
    ledger: Ledger,
}

impl Sample {
    fn new(events: usize) -> Self {
        let folder = memory_folder();
        let directory = folder.path().join("engine");
        let mut gate = crate::world::gate(&directory);
        create_stream(&mut gate, crate::world::FITTING);
        let shared = GroupCommit::new(sound(gate, heads(folder.path())), || 1_700_000_000_000);
        for number in 0..events {
            let Ok(ChargeOutcome::Granted(grant)) = shared.charge(request(&number.to_string())) else {
                panic!("it fits")
            };
            match number % 5 {
                0 => drop(shared.with(|gate| gate.start(8, grant)).expect("a healthy gate").expect("waiting")),
                1 => shared.with(|gate| gate.cancel(9, grant)).expect("a healthy gate").expect("waiting"),
                2 => shared.with(|gate| gate.note(9, "note", vec![3; 50 * number])).expect("a gate").expect("written"),
                _ => {}
            }
        }
        shared.close().expect("exported");
        let file = fs::read(directory.join("log.db")).expect("one file");
        assert!(!directory.join("log.db-wal").exists(), "the file is complete");
        let gate = crate::world::gate(&directory);
        let records = gate.log().read(0, usize::MAX).expect("readable");
        let ledger = gate.ledger().clone();
        Self { folder, file, records, ledger }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("engine")
    }

    /// Replaces the log by these bytes, and removes the files beside it.
    fn replace_log(&self, file: &[u8]) {
        for suffix in ["-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(self.directory().join(format!("log.db{suffix}")));
        }
        fs::write(self.directory().join("log.db"), file).expect("written");
    }

    /// Opens the log. Returns its head if its records are unchanged, and otherwise the error that reports the damage.
    fn open(&self) -> Result<Head, String> {
        let gate = Directory::open(self.directory()).and_then(|directory| directory.gate());
        let gate = gate.map_err(|error| error.to_string())?;
        let records = gate.log().read(0, usize::MAX).map_err(|error| error.to_string())?;
        if records == self.records && *gate.ledger() == self.ledger {
            return Ok(gate.head());
        }
        let HeadCheck::RolledBack(_) = heads(self.folder.path()).check(gate).expect("comparable") else {
            panic!("another state was accepted")
        };
        Err("rolled back".to_owned())
    }
}

fn heads(folder: &Path) -> Heads {
    Heads::new(vec![folder.join("head")], NonZeroU64::MAX, folder)
}

#[test]
fn a_flipped_byte_is_detected_or_has_no_effect() {
    let mut random = Random::seeded();
    let sample = Sample::new(150);
    let size = sample.file.len() as u64;
    let every = if soak() { 1 } else { size / 3_000 };
    let (mut found, mut nothing, mut only_by_head) = (0, 0, 0);
    let mut at = random.below(every);
    while at < size {
        let mut file = sample.file.clone();
        file[at as usize] ^= 1 + random.below(255) as u8;
        sample.replace_log(&file);
        match sample.open() {
            Ok(_) => nothing += 1,
            Err(error) if error == "rolled back" => only_by_head += 1,
            Err(_) => found += 1,
        }
        at += if soak() { 1 } else { 1 + random.below(2 * every - 1) };
    }
    println!("{size} bytes: {found} flips found, {nothing} without effect, {only_by_head} by the exported head alone");
    assert_eq!(only_by_head, 0, "no single flip shortens the log");
    assert!(found > nothing, "most bytes matter");
    sample.replace_log(&sample.file);
    assert_eq!(sample.open(), Ok(sample.records[sample.records.len() - 1].head()));
}

#[test]
fn a_truncated_file_is_detected() {
    let sample = Sample::new(60);
    let size = sample.file.len();
    let step = if soak() { 64 } else { 1000 };
    for length in (0..size).step_by(step).chain((0..size).step_by(4096)).chain([1, 99, 100, size - 1]) {
        sample.replace_log(&sample.file[..length]);
        assert!(sample.open().is_err(), "truncated to {length} of {size} bytes");
    }
}

/// Changes the log by SQL, as an attacker with access to the file could, and opens it.
fn after(sample: &Sample, change: &str) -> Result<Head, String> {
    sample.replace_log(&sample.file);
    let store = Connection::open(sample.directory().join("log.db")).expect("a database");
    store.execute_batch(change).expect("a change");
    drop(store);
    sample.open()
}

#[test]
fn an_edited_removed_or_swapped_record_is_detected() {
    let sample = Sample::new(60);
    let count = sample.records.len();
    let broken = |change: String| {
        let message = after(&sample, &change).expect_err("detected");
        assert!(message.contains("is not what was written there"), "{change}: {message}");
    };
    for number in 0..count {
        broken(format!("UPDATE record SET time = time + 1 WHERE number = {number}"));
        broken(format!("UPDATE record SET body = CAST(body || x'00' AS BLOB) WHERE number = {number}"));
        if number + 1 < count {
            broken(format!("DELETE FROM record WHERE number = {number}"));
            broken(format!(
                "UPDATE record SET number = -1 WHERE number = {number};
                 UPDATE record SET number = {number} WHERE number = {number} + 1;
                 UPDATE record SET number = {number} + 1 WHERE number = -1;
                 UPDATE head SET hash = (SELECT hash FROM record ORDER BY number DESC LIMIT 1)"
            ));
        }
    }
}

#[test]
fn a_consistently_truncated_log_is_detected_only_by_a_newer_head() {
    let sample = Sample::new(30);
    let cut = |length: usize| {
        format!(
            "DELETE FROM record WHERE number >= {length};
             UPDATE head SET length = {length},
                 hash = coalesce((SELECT hash FROM record WHERE number = {length} - 1), zeroblob(32))"
        )
    };
    for length in 0..sample.records.len() {
        assert_eq!(after(&sample, &cut(length)), Err("rolled back".to_owned()), "{length}");
    }
    sample.replace_log(&sample.file);
    drop(Connection::open(sample.directory().join("log.db")).expect("a database").execute_batch(&cut(20)));
    fs::remove_file(sample.folder.path().join("head")).expect("exported before");
    let gate = crate::world::gate(&sample.directory());
    assert_eq!(gate.head().length, 20);
    assert!(matches!(heads(sample.folder.path()).check(gate), Ok(HeadCheck::Sound(_))), "this is the stated limit");
}

/// Clocks that stand still, run backwards or jump by ten years: the same requests give the same ledger.
#[test]
fn nothing_depends_on_the_clock() {
    const YEARS: u64 = 10 * 365 * 86_400_000;
    let run = |clock: fn(u64) -> u64| -> Result<Ledger, GateError> {
        let folder = memory_folder();
        for life in 0..3 {
            let mut gate = crate::world::gate(folder.path());
            create_stream(&mut gate, 25);
            let mut sound = sound(gate, Heads::none());
            sound.burn_running(clock(life))?;
            let shared = GroupCommit::new(sound, move || clock(life));
            for number in 0..10 {
                if let ChargeOutcome::Granted(grant) = shared.charge(request(&format!("{life}/{number}")))? {
                    let time = clock(number);
                    shared.with(|gate| match number % 3 {
                        0 => gate.cancel(time, grant),
                        1 => gate.start(time, grant).map(|_| ()),
                        _ => Ok(()),
                    })??;
                }
            }
        }
        Ok(crate::world::gate(folder.path()).ledger().clone())
    };
    let expected = run(|_| 0);
    for clock in [
        |now| 1_700_000_000_000 + now,
        |now| u64::MAX - now,
        |now| 1_700_000_000_000 + YEARS * (now % 2),
        |now| 1_700_000_000_000 - YEARS * (now % 2),
    ] {
        assert!(run(clock) == expected);
    }
}

/// The log of the first release, event by event.
fn first_release() -> Vec<Record> {
    let mut gate = Gate::open(sage_kernel::MemoryLog::default()).expect("an empty log");
    create_stream(&mut gate, 3);
    let mut grants = Vec::new();
    for answer in gate.charge(1_763_251_200_000, vec![request("one"), request("two")]).expect("a healthy log") {
        let ChargeOutcome::Granted(grant) = answer else { panic!("it fits") };
        grants.push(grant);
    }
    let [one, two] = <[_; 2]>::try_from(grants).expect("two");
    let id = one.id();
    drop(gate.start(1_763_251_200_001, one).expect("waiting"));
    gate.burn(1_763_251_200_002, id).expect("running");
    gate.cancel(1_763_251_200_003, two).expect("waiting");
    gate.note(u64::MAX, "note", b"kept for ever".to_vec()).expect("written");
    gate.into_log().records
}

/// Every release reads what the first one wrote, and continues it.
#[test]
fn the_log_of_the_first_release_opens() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/log-format-1.db");
    let folder = memory_folder();
    drop(Directory::open(folder.path()).expect("a new directory"));
    if std::env::var_os("SAGE_WRITE_GOLDEN").is_some() && !golden.exists() {
        let mut log = Directory::open(folder.path()).expect("a directory").log().expect("a log");
        log.append(Head::EMPTY, first_release()).expect("written");
        drop(log);
        fs::copy(folder.path().join("log.db"), &golden).expect("kept");
    }
    fs::copy(&golden, folder.path().join("log.db")).expect("the golden file");
    let mut gate = crate::world::gate(folder.path());
    assert_eq!(gate.log().read(0, usize::MAX), Ok(first_release()));
    assert_eq!(gate.ledger().waiting().count() + gate.ledger().running().count(), 0);
    assert!(matches!(gate.charge(1, vec![request("three")]).expect("a healthy log")[0], ChargeOutcome::Granted(_)));
    assert_eq!(gate.head().length, 9);
}
