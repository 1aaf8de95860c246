//! Exported heads: a directory that was restored from an old copy verifies, but must not grant.

use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::world::{gate, open_group_commit, request};
use sage_kernel::{ChargeOutcome, Event, Head, Log};
use sage_store::log::{Acknowledgement, GroupCommit, HeadCheck, Heads, HeadsError, ROLLBACK_NOTE};

struct Fixture {
    root: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a directory") }
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("engine")
    }

    fn head_file(&self) -> PathBuf {
        self.root.path().join("head")
    }

    fn heads(&self, every: u64) -> Heads {
        Heads::new(vec![self.head_file()], NonZeroU64::new(every).expect("not zero"), &self.directory())
    }

    fn check(&self) -> Result<HeadCheck<sage_store::log::BoxedLog>, HeadsError> {
        self.heads(10).check(gate(&self.directory()))
    }

    /// Charges `count` times under keys with a prefix, and closes the log.
    fn charge(&self, name: &str, count: u32) {
        let shared = open_group_commit(&self.directory(), self.heads(10));
        for charge in 0..count {
            let answer = shared.charge(request(&format!("{name}/{charge}")));
            assert!(matches!(answer, Ok(ChargeOutcome::Granted(_))));
        }
        assert_eq!(shared.export_failure(), None);
        shared.close().expect("a folder to export to");
    }

    /// A copy of the directory, to be restored later.
    fn copy(&self) -> PathBuf {
        let copy = self.root.path().join("copy");
        copy_files(&self.directory(), &copy);
        copy
    }

    fn put_back(&self, copy: &Path) {
        fs::remove_dir_all(self.directory()).expect("removed");
        copy_files(copy, &self.directory());
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

#[test]
fn heads_are_exported_at_intervals_and_on_close() {
    let fixture = Fixture::new();
    let shared = open_group_commit(&fixture.directory(), fixture.heads(10));
    let exported = || {
        let line = fs::read_to_string(fixture.head_file()).ok()?;
        line.split(' ').nth(1)?.parse::<u64>().ok()
    };
    let mut seen = Vec::new();
    for charge in 0..30 {
        let _answer = shared.charge(request(&charge.to_string())).expect("a healthy log");
        seen.push(exported());
    }
    // The first two events created the stream and its blocks.
    assert_eq!((seen[6], seen[7], seen[16], seen[17], seen[29]), (None, Some(10), Some(10), Some(20), Some(30)));
    shared.close().expect("a folder to export to");
    assert_eq!(exported(), Some(32));
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))));
}

#[test]
fn a_restored_copy_is_read_and_grants_nothing_until_an_officer_acknowledges() {
    let fixture = Fixture::new();
    fixture.charge("before", 3);
    let copy = fixture.copy();
    fixture.charge("after", 4);
    fixture.put_back(&copy);

    let Ok(HeadCheck::RolledBack(gate)) = fixture.check() else { panic!("a newer head was exported") };
    let (known, present) = (gate.known(), gate.head());
    assert_eq!((known.head.length, known.time, present.length), (9, 3, 5));
    assert_eq!(gate.ledger().waiting().count(), 3, "it can be read");
    assert!(matches!(gate.acknowledge(7, " "), Err(HeadsError::MissingOfficer)));

    let Ok(HeadCheck::RolledBack(gate)) = fixture.check() else { panic!("nobody has acknowledged") };
    let shared = GroupCommit::new(gate.acknowledge(8, "officer@example.org").expect("written"), || 9);
    let note = shared.with(|gate| gate.log().read(5, 1)).expect("a healthy gate").expect("a record").remove(0);
    assert!(matches!(shared.charge(request("again")), Ok(ChargeOutcome::Granted(_))));
    shared.close().expect("a folder to export to");

    let Ok((Event::Note { kind, body }, _)) = note.verify(present) else { panic!("it is a note") };
    assert_eq!(kind, ROLLBACK_NOTE);
    let acknowledgement: Acknowledgement = toml::from_str(std::str::from_utf8(&body).expect("text")).expect("TOML");
    assert_eq!(
        (acknowledgement.principal.as_str(), acknowledgement.known_length, acknowledgement.present_length),
        ("officer@example.org", 9, 5)
    );
    assert!(acknowledgement.known_hash != acknowledgement.present_hash && acknowledgement.known_hash.len() == 64);
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))), "acknowledged once is enough");
}

#[test]
fn a_diverged_log_is_detected_even_if_it_is_longer() {
    let fixture = Fixture::new();
    fixture.charge("before", 3);
    let copy = fixture.copy();
    fixture.charge("one way", 2);
    let exported = fs::read(fixture.head_file()).expect("exported");
    fixture.put_back(&copy);
    fs::remove_file(fixture.head_file()).expect("removed");
    fixture.charge("another way", 5);
    fs::write(fixture.head_file(), exported).expect("written");
    assert!(matches!(fixture.check(), Ok(HeadCheck::RolledBack(_))));
}

#[test]
fn without_an_exported_head_a_rollback_is_not_detected() {
    let fixture = Fixture::new();
    fixture.charge("before", 3);
    let copy = fixture.copy();
    fixture.charge("after", 4);
    fixture.put_back(&copy);
    fs::remove_file(fixture.head_file()).expect("removed");
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))), "this is the stated limit");
}

#[test]
fn of_several_heads_the_newest_that_is_missing_counts() {
    let fixture = Fixture::new();
    fixture.charge("before", 3);
    let old = fs::read(fixture.head_file()).expect("exported");
    let copy = fixture.copy();
    fixture.charge("after", 4);
    fixture.put_back(&copy);
    let second = fixture.root.path().join("second");
    fs::write(&second, old).expect("written");
    for files in [vec![second.clone(), fixture.head_file()], vec![fixture.head_file(), second]] {
        let heads = Heads::new(files, NonZeroU64::MIN, &fixture.directory());
        let Ok(HeadCheck::RolledBack(gate)) = heads.check(gate(&fixture.directory())) else { panic!("one is missing") };
        assert_eq!(gate.known().head.length, 9);
    }
}

#[test]
fn a_malformed_head_file_is_refused() {
    let fixture = Fixture::new();
    fixture.charge("before", 3);
    let good = fs::read_to_string(fixture.head_file()).expect("exported");
    for bad in [
        String::new(),
        good.trim_end().to_owned(),
        good.replace("sage-head-2", "sage-head-3"),
        good.replace("sage-head-2", "sage-head-1"),
        good.replacen(" 5 ", " 05 ", 1),
        good.replacen(" 5 ", " -5 ", 1),
        format!("{good}{good}"),
        good[..good.len() / 2].to_owned(),
    ] {
        fs::write(fixture.head_file(), &bad).expect("written");
        assert!(matches!(fixture.check(), Err(HeadsError::Malformed(_))), "{bad:?}");
    }
    fs::write(fixture.head_file(), good).expect("written");
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))));
}

#[test]
fn a_head_without_the_directorys_signature_is_refused() {
    let fixture = Fixture::new();
    fixture.charge("before", 3);
    let key = fixture.directory().join("head-key");
    let mode = fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    let good = fs::read_to_string(fixture.head_file()).expect("exported");
    let words: Vec<&str> = good.trim_end().split(' ').collect();
    let forged = |fixture: usize, word: &str| {
        let mut words = words.clone();
        words[fixture] = word;
        format!("{}\n", words.join(" "))
    };
    // An earlier head of this very log, another time, another key, another signature, and none at all.
    let other = Fixture::new();
    other.charge("before", 3);
    let foreign = fs::read_to_string(other.head_file()).expect("exported");
    let signature = foreign.trim_end().rsplit(' ').next().expect("a signature");
    for bad in [
        forged(1, "4"),
        forged(3, "77"),
        forged(4, &"0".repeat(64)),
        forged(5, signature),
        forged(5, "00"),
        foreign.clone(),
        format!("sage-head-1 {}\n", words[1..4].join(" ")),
    ] {
        fs::write(fixture.head_file(), &bad).expect("written");
        assert!(matches!(fixture.check(), Err(HeadsError::Forged(_))), "{bad:?}");
    }
    fs::write(fixture.head_file(), &good).expect("written");
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))));
    // Without its key the directory accepts any valid signature.
    fs::remove_file(&key).expect("removed");
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))));
    fs::write(fixture.head_file(), forged(5, signature)).expect("written");
    assert!(matches!(fixture.check(), Err(HeadsError::Forged(_))), "nobody has signed this");
    fs::write(fixture.head_file(), format!("sage-head-1 {}\n", words[1..4].join(" "))).expect("written");
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))), "as an earlier release wrote it");
    fixture.charge("after", 1);
    let after = fs::read_to_string(fixture.head_file()).expect("exported");
    assert!(after.starts_with("sage-head-2 6 ") && after.split(' ').nth(4) != Some(words[4]), "a new key");
}

#[test]
fn a_head_can_be_exported_before_it_is_due() {
    let fixture = Fixture::new();
    let shared = open_group_commit(&fixture.directory(), fixture.heads(1000));
    let _answer = shared.charge(request("one")).expect("a healthy log");
    assert!(!fixture.head_file().exists());
    shared.export_head().expect("a folder to export to");
    let line = fs::read_to_string(fixture.head_file()).expect("exported");
    assert!(line.starts_with("sage-head-2 3 "), "{line}");
}

#[test]
fn a_failed_export_is_reported_and_does_not_affect_charges() {
    let fixture = Fixture::new();
    let nowhere = fixture.root.path().join("missing").join("head");
    let shared = open_group_commit(
        &fixture.directory(),
        Heads::new(vec![nowhere.clone()], NonZeroU64::MIN, &fixture.directory()),
    );
    assert!(matches!(shared.charge(request("one")), Ok(ChargeOutcome::Granted(_))));
    assert!(shared.export_failure().is_some_and(|reason| reason.contains("missing")));
    fs::create_dir(nowhere.parent().expect("it has one")).expect("made");
    assert!(matches!(shared.charge(request("two")), Ok(ChargeOutcome::Granted(_))));
    assert_eq!(shared.export_failure(), None, "tried again");
    shared.close().expect("a folder to export to");
}

#[test]
fn every_log_contains_the_empty_head() {
    let fixture = Fixture::new();
    let Ok(HeadCheck::Sound(sound)) = fixture.check() else { panic!("nothing was exported") };
    assert_eq!(sound.head(), Head::EMPTY);
    GroupCommit::new(sound, || 1).close().expect("a folder to export to");
    fixture.charge("first", 1);
    assert!(matches!(fixture.check(), Ok(HeadCheck::Sound(_))));
}
