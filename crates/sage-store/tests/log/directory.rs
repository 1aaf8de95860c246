//! The directory: it has one owner, its log is created completely or not at all, and other files or formats are refused
//! with a message that says what to do.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{create_stream, gate, request};
use rusqlite::Connection;
use sage_kernel::{Gate, Log, LogError};
use sage_store::log::{Directory, FORMAT, OpenError};

/// The command that runs [`owner`] in another process.
fn other_process(directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["directory::owner", "--exact", "--nocapture"]).env("SAGE_OWN", directory).stdout(Stdio::piped());
    command
}

/// Not a test by itself: in a child process it locks the directory until it is killed.
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
    let folder = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        let mut child = other_process(folder.path()).spawn().expect("this program again");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.expect("text") == "owned"), "the child owns the directory");
        let refused = Directory::open(folder.path()).expect_err("it has an owner");
        assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
        assert!(refused.to_string().contains("stop that process"));
        child.kill().expect("a child of ours");
        child.wait().expect("a child of ours");
        drop(gate(folder.path()));
    }
}

#[test]
fn an_open_log_keeps_the_directory_locked() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("not").join("yet").join("there");
    let log = Directory::open(&path).expect("made").log().expect("a log");
    assert!(matches!(Directory::open(&path), Err(OpenError::InUse(_))));
    drop(log);
    assert_eq!(Directory::open(&path).expect("free").path(), path);
}

/// Changes the file of a new log and returns the result of opening it again.
fn after(change: impl FnOnce(&Path)) -> Result<(), OpenError> {
    let folder = tempfile::tempdir().expect("a directory");
    drop(gate(folder.path()));
    change(&folder.path().join("log.db"));
    Directory::open(folder.path())?.log().map(|_| ())
}

fn sql(text: &str) -> impl FnOnce(&Path) {
    move |file| Connection::open(file).and_then(|store| store.execute_batch(text)).expect("a database")
}

#[test]
fn other_files_and_other_formats_are_refused() {
    let check = |opened: Result<(), OpenError>, expected: &str| {
        let message = opened.expect_err(expected).to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(after(sql(&format!("PRAGMA user_version = {}", FORMAT + 1))), "use the release that wrote it");
    check(after(sql(&format!("PRAGMA user_version = {}", FORMAT - 1))), "open it once with a release between");
    check(after(sql("PRAGMA application_id = 7")), "not a log of Sage");
    check(after(|file| fs::write(file, b"").expect("written")), "not a log of Sage");
    check(after(|file| fs::write(file, [b'x'; 8192]).expect("written")), "not a log of Sage");
    check(after(|file| fs::remove_file(file).expect("removed")), "restore log.db");
    check(after(sql("DELETE FROM head")), "could not be opened");
    check(after(sql("UPDATE head SET length = 1")), "its last record is not the one its head names");
    check(after(sql("UPDATE head SET hash = randomblob(32)")), "its last record is not the one its head names");
    check(after(sql("DROP TABLE record")), "no such table");
    assert!(after(sql("PRAGMA journal_mode = DELETE")).is_ok(), "the setting is applied again");
    assert!(after(|_| ()).is_ok());
}

#[test]
fn an_incomplete_directory_is_completed() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("lock"), b"").expect("written");
    fs::write(folder.path().join("log.db.new"), b"half a database").expect("written");
    fs::write(folder.path().join("log.db.new-wal"), b"half of another").expect("written");
    assert_eq!(gate(folder.path()).head().length, 0);
}

#[test]
fn the_write_ahead_log_is_overwritten_and_does_not_grow() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut gate = gate(folder.path());
    create_stream(&mut gate, crate::world::FITTING);
    let size = |gate: &mut Gate<_>, charges: std::ops::Range<u32>| {
        for batch in charges {
            let requests = (0..500).map(|charge| request(&format!("{batch}/{charge}")));
            gate.charge(3, requests).expect("a healthy log");
        }
        fs::metadata(folder.path().join("log.db-wal")).expect("it is there").len()
    };
    let early = size(&mut gate, 0..60);
    let late = size(&mut gate, 60..120);
    assert!(early < 8 << 20, "{early} bytes");
    assert!(late < early + (1 << 20), "it has grown from {early} to {late} bytes");
    drop(gate);
    assert!(!folder.path().join("log.db-wal").exists(), "closing the log leaves one file");
}

#[test]
fn a_damaged_snapshot_is_ignored() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut gate = gate(folder.path());
    create_stream(&mut gate, crate::world::FITTING);
    let length = gate.head().length;
    let log = gate.log();
    assert_eq!(log.snapshot(), None);
    log.save_snapshot(length, b"first").expect("written");
    log.save_snapshot(length, b"second").expect("written");
    assert_eq!(log.snapshot().as_deref(), Some(&b"second"[..]));
    let file = folder.path().join("snapshot");
    let whole = fs::read(&file).expect("it is there");
    for index in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[index] ^= 1;
        fs::write(&file, flipped).expect("written");
        assert_eq!(log.snapshot(), None, "byte {index}");
        fs::write(&file, &whole[..index]).expect("written");
        assert_eq!(log.snapshot(), None, "truncated at {index}");
    }
    log.save_snapshot(length + 1, b"of another log").expect("written");
    assert_eq!(log.snapshot(), None, "the snapshot is newer than the log");
}

/// A log that was replaced by another one of the same length is not a lost race: there are no new records to read, and
/// the writer would retry forever.
#[test]
fn a_replaced_log_disables_its_handle() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut gate = gate(folder.path());
    create_stream(&mut gate, crate::world::FITTING);
    sql("UPDATE head SET hash = zeroblob(32)")(&folder.path().join("log.db"));
    assert!(gate.charge(3, vec![request("one")]).is_err());
    let mut log = gate.into_log();
    assert!(matches!(log.read(0, 1), Err(LogError::Failed(_))), "disabled");
    assert!(matches!(log.append(sage_kernel::Head::EMPTY, Vec::new()), Err(LogError::Failed(_))));
    assert!(matches!(log.save_snapshot(0, b""), Err(LogError::Failed(_))));
}
