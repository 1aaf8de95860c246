//! The directory's promises: one owner, a log that is made whole or not at all, and files that are not ours
//! or not of this release are refused with a sentence that says what to do.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{furnish, gate, request};
use rusqlite::Connection;
use sage_kernel::{Gate, Log, LogError};
use sage_store::log::{Directory, FORMAT, OpenError};

/// Runs the test of this name in another process, which then acts as [`owner`] says.
fn other_process(directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["directory::owner", "--exact", "--nocapture"]).env("SAGE_OWN", directory).stdout(Stdio::piped());
    command
}

/// Not a test by itself: in a process of its own it takes the directory and keeps it until it is killed.
#[test]
fn owner() {
    let Some(directory) = std::env::var_os("SAGE_OWN") else { return };
    let _log = Directory::open(&directory).expect("a free directory").log().expect("a log");
    println!("\nowned");
    loop {
        std::thread::park();
    }
}

#[test]
fn one_process_owns_a_directory_until_it_ends_however_it_ends() {
    let place = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        let mut child = other_process(place.path()).spawn().expect("this program again");
        let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(said.any(|line| line.expect("text") == "owned"), "the child has the directory");
        let refused = Directory::open(place.path()).expect_err("it has an owner");
        assert!(matches!(refused, OpenError::Held(_)), "{refused}");
        assert!(refused.to_string().contains("stop that one"));
        child.kill().expect("a child of ours");
        child.wait().expect("a child of ours");
        drop(gate(place.path()));
    }
}

#[test]
fn a_log_keeps_the_directory_taken() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("not").join("yet").join("there");
    let log = Directory::open(&path).expect("made").log().expect("a log");
    assert!(matches!(Directory::open(&path), Err(OpenError::Held(_))));
    drop(log);
    assert_eq!(Directory::open(&path).expect("free").path(), path);
}

/// Changes a fresh log's file and returns what opening the directory again says.
fn after(change: impl FnOnce(&Path)) -> Result<(), OpenError> {
    let place = tempfile::tempdir().expect("a directory");
    drop(gate(place.path()));
    change(&place.path().join("log.db"));
    Directory::open(place.path())?.log().map(|_| ())
}

fn sql(text: &str) -> impl FnOnce(&Path) {
    move |file| Connection::open(file).and_then(|store| store.execute_batch(text)).expect("a database")
}

#[test]
fn files_that_are_not_ours_or_not_of_this_release_are_refused() {
    let check = |said: Result<(), OpenError>, expected: &str| {
        let said = said.expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    };
    check(after(sql(&format!("PRAGMA user_version = {}", FORMAT + 1))), "use the release that wrote it");
    check(after(sql(&format!("PRAGMA user_version = {}", FORMAT - 1))), "open it once with a release between");
    check(after(sql("PRAGMA application_id = 7")), "not a log of Sage");
    check(after(|file| fs::write(file, b"").expect("written")), "not a log of Sage");
    check(after(|file| fs::write(file, [b'x'; 8192]).expect("written")), "not a log of Sage");
    check(after(|file| fs::remove_file(file).expect("removed")), "put log.db back");
    check(after(sql("DELETE FROM head")), "could not be opened");
    check(after(sql("UPDATE head SET length = 1")), "does not end where it says");
    check(after(sql("UPDATE head SET hash = randomblob(32)")), "does not end where it says");
    check(after(sql("DROP TABLE record")), "no such table");
    assert!(after(sql("PRAGMA journal_mode = DELETE")).is_ok(), "the setting is made again");
    assert!(after(|_| ()).is_ok());
}

#[test]
fn a_directory_that_was_left_half_made_is_made_whole() {
    let place = tempfile::tempdir().expect("a directory");
    fs::write(place.path().join("lock"), b"").expect("written");
    fs::write(place.path().join("log.db.new"), b"half a database").expect("written");
    fs::write(place.path().join("log.db.new-wal"), b"half of another").expect("written");
    assert_eq!(gate(place.path()).head().length, 0);
}

#[test]
fn the_write_ahead_log_is_written_over_and_does_not_grow() {
    let place = tempfile::tempdir().expect("a directory");
    let mut gate = gate(place.path());
    furnish(&mut gate, crate::world::FITTING);
    let size = |gate: &mut Gate<_>, charges: std::ops::Range<u32>| {
        for batch in charges {
            let requests = (0..500).map(|charge| request(&format!("{batch}/{charge}")));
            gate.charge(3, requests).expect("a healthy log");
        }
        fs::metadata(place.path().join("log.db-wal")).expect("it is there").len()
    };
    let early = size(&mut gate, 0..60);
    let late = size(&mut gate, 60..120);
    assert!(early < 8 << 20, "{early} bytes");
    assert!(late < early + (1 << 20), "it has grown on, from {early} to {late} bytes");
    drop(gate);
    assert!(!place.path().join("log.db-wal").exists(), "an orderly end leaves one file");
}

#[test]
fn a_snapshot_is_kept_whole_or_not_at_all() {
    let place = tempfile::tempdir().expect("a directory");
    let mut gate = gate(place.path());
    furnish(&mut gate, crate::world::FITTING);
    let length = gate.head().length;
    let log = gate.log();
    assert_eq!(log.snapshot(), None);
    log.save_snapshot(length, b"first").expect("written");
    log.save_snapshot(length, b"second").expect("written");
    assert_eq!(log.snapshot().as_deref(), Some(&b"second"[..]));
    let file = place.path().join("snapshot");
    let whole = fs::read(&file).expect("it is there");
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&file, flipped).expect("written");
        assert_eq!(log.snapshot(), None, "byte {at}");
        fs::write(&file, &whole[..at]).expect("written");
        assert_eq!(log.snapshot(), None, "cut at {at}");
    }
    log.save_snapshot(length + 1, b"of another log").expect("written");
    assert_eq!(log.snapshot(), None, "it knows more than the log");
}

/// A log that was replaced by one of the same length must not be taken for a lost race: reading on would find
/// nothing new, and the writer would try for ever.
#[test]
fn a_log_replaced_under_its_owner_stops_it() {
    let place = tempfile::tempdir().expect("a directory");
    let mut gate = gate(place.path());
    furnish(&mut gate, crate::world::FITTING);
    sql("UPDATE head SET hash = zeroblob(32)")(&place.path().join("log.db"));
    assert!(gate.charge(3, vec![request("one")]).is_err());
    let mut log = gate.into_log();
    assert!(matches!(log.read(0, 1), Err(LogError::Failed(_))), "stopped for good");
    assert!(matches!(log.append(sage_kernel::Head::EMPTY, Vec::new()), Err(LogError::Failed(_))));
    assert!(matches!(log.save_snapshot(0, b""), Err(LogError::Failed(_))));
}
