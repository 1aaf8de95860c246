//! What exported heads are for: a directory put back from an old copy verifies, and must not grant.

mod log_world;

use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use log_world::{desk, gate, request};
use sage_engine::log::{Acknowledgement, Checked, Desk, Heads, HeadsError, ROLLBACK_NOTE};
use sage_kernel::{ChargeOutcome, Event, Head, Log};

struct Place {
    root: tempfile::TempDir,
}

impl Place {
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

    fn check(&self) -> Result<Checked<sage_engine::log::SqliteLog>, HeadsError> {
        self.heads(10).check(gate(&self.directory()))
    }

    /// So many charges under keys that begin like this, and an orderly end.
    fn charge(&self, name: &str, count: u32) {
        let desk = desk(&self.directory(), self.heads(10));
        for charge in 0..count {
            let answer = desk.charge(request(&format!("{name}/{charge}")));
            assert!(matches!(answer, Ok(ChargeOutcome::Granted(_))));
        }
        assert_eq!(desk.export_failure(), None);
        desk.close().expect("a place to export to");
    }

    /// A copy of the directory, to be put back later.
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
fn heads_leave_every_so_many_events_and_at_the_end() {
    let place = Place::new();
    let desk = desk(&place.directory(), place.heads(10));
    let exported = || {
        let line = fs::read_to_string(place.head_file()).ok()?;
        line.split(' ').nth(1)?.parse::<u64>().ok()
    };
    let mut seen = Vec::new();
    for charge in 0..30 {
        let _answer = desk.charge(request(&charge.to_string())).expect("a healthy log");
        seen.push(exported());
    }
    // Two events were there before: the stream and its blocks.
    assert_eq!((seen[6], seen[7], seen[16], seen[17], seen[29]), (None, Some(10), Some(10), Some(20), Some(30)));
    desk.close().expect("a place to export to");
    assert_eq!(exported(), Some(32));
    assert!(matches!(place.check(), Ok(Checked::Sound(_))));
}

#[test]
fn a_restored_copy_is_read_and_grants_nothing_until_an_officer_acknowledges() {
    let place = Place::new();
    place.charge("before", 3);
    let copy = place.copy();
    place.charge("after", 4);
    place.put_back(&copy);

    let Ok(Checked::RolledBack(gate)) = place.check() else { panic!("a newer head was exported") };
    let (known, present) = (gate.known(), gate.head());
    assert_eq!((known.head.length, known.time, present.length), (9, 3, 5));
    assert_eq!(gate.ledger().waiting().count(), 3, "it can be read");
    assert!(matches!(gate.acknowledge(7, " "), Err(HeadsError::Nobody)));

    let Ok(Checked::RolledBack(gate)) = place.check() else { panic!("nobody has acknowledged") };
    let desk = Desk::new(gate.acknowledge(8, "officer@example.org").expect("written"), || 9);
    let note = desk.with(|gate| gate.log().read(5, 1)).expect("a healthy gate").expect("a record").remove(0);
    assert!(matches!(desk.charge(request("again")), Ok(ChargeOutcome::Granted(_))));
    desk.close().expect("a place to export to");

    let Ok((Event::Note { kind, body }, _)) = note.verify(present) else { panic!("it is a note") };
    assert_eq!(kind, ROLLBACK_NOTE);
    let said: Acknowledgement = toml::from_str(std::str::from_utf8(&body).expect("text")).expect("TOML");
    assert_eq!((said.principal.as_str(), said.known_length, said.present_length), ("officer@example.org", 9, 5));
    assert!(said.known_hash != said.present_hash && said.known_hash.len() == 64);
    assert!(matches!(place.check(), Ok(Checked::Sound(_))), "acknowledged once is enough");
}

#[test]
fn a_log_that_went_another_way_is_found_even_when_it_is_longer() {
    let place = Place::new();
    place.charge("before", 3);
    let copy = place.copy();
    place.charge("one way", 2);
    let exported = fs::read(place.head_file()).expect("exported");
    place.put_back(&copy);
    fs::remove_file(place.head_file()).expect("removed");
    place.charge("another way", 5);
    fs::write(place.head_file(), exported).expect("written");
    assert!(matches!(place.check(), Ok(Checked::RolledBack(_))));
}

#[test]
fn without_an_exported_head_a_rollback_is_not_seen() {
    let place = Place::new();
    place.charge("before", 3);
    let copy = place.copy();
    place.charge("after", 4);
    place.put_back(&copy);
    fs::remove_file(place.head_file()).expect("removed");
    assert!(matches!(place.check(), Ok(Checked::Sound(_))), "this is the stated limit");
}

#[test]
fn of_several_heads_the_newest_that_is_missing_counts() {
    let place = Place::new();
    place.charge("before", 3);
    let old = fs::read(place.head_file()).expect("exported");
    let copy = place.copy();
    place.charge("after", 4);
    place.put_back(&copy);
    let second = place.root.path().join("second");
    fs::write(&second, old).expect("written");
    for files in [vec![second.clone(), place.head_file()], vec![place.head_file(), second]] {
        let heads = Heads::new(files, NonZeroU64::MIN, &place.directory());
        let Ok(Checked::RolledBack(gate)) = heads.check(gate(&place.directory())) else { panic!("one is missing") };
        assert_eq!(gate.known().head.length, 9);
    }
}

#[test]
fn a_head_file_with_anything_else_in_it_is_refused() {
    let place = Place::new();
    place.charge("before", 3);
    let good = fs::read_to_string(place.head_file()).expect("exported");
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
        fs::write(place.head_file(), &bad).expect("written");
        assert!(matches!(place.check(), Err(HeadsError::Malformed(_))), "{bad:?}");
    }
    fs::write(place.head_file(), good).expect("written");
    assert!(matches!(place.check(), Ok(Checked::Sound(_))));
}

#[test]
fn a_head_that_the_directory_has_not_signed_is_refused() {
    let place = Place::new();
    place.charge("before", 3);
    let key = place.directory().join("head-key");
    let mode = fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    let good = fs::read_to_string(place.head_file()).expect("exported");
    let words: Vec<&str> = good.trim_end().split(' ').collect();
    let forged = |place: usize, word: &str| {
        let mut words = words.clone();
        words[place] = word;
        format!("{}\n", words.join(" "))
    };
    // An earlier head of this very log, another time, another key, another signature, and none at all.
    let other = Place::new();
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
        fs::write(place.head_file(), &bad).expect("written");
        assert!(matches!(place.check(), Err(HeadsError::Forged(_))), "{bad:?}");
    }
    fs::write(place.head_file(), &good).expect("written");
    assert!(matches!(place.check(), Ok(Checked::Sound(_))));
    // Without its key the directory believes what it finds, and finds that it was put back.
    fs::remove_file(&key).expect("removed");
    assert!(matches!(place.check(), Ok(Checked::Sound(_))));
    fs::write(place.head_file(), forged(5, signature)).expect("written");
    assert!(matches!(place.check(), Err(HeadsError::Forged(_))), "nobody has signed this");
    fs::write(place.head_file(), format!("sage-head-1 {}\n", words[1..4].join(" "))).expect("written");
    assert!(matches!(place.check(), Ok(Checked::Sound(_))), "as an earlier release wrote it");
    place.charge("after", 1);
    let after = fs::read_to_string(place.head_file()).expect("exported");
    assert!(after.starts_with("sage-head-2 6 ") && after.split(' ').nth(4) != Some(words[4]), "a new key");
}

#[test]
fn a_head_can_be_exported_before_it_is_due() {
    let place = Place::new();
    let desk = desk(&place.directory(), place.heads(1000));
    let _answer = desk.charge(request("one")).expect("a healthy log");
    assert!(!place.head_file().exists());
    desk.export_head().expect("a place to export to");
    let line = fs::read_to_string(place.head_file()).expect("exported");
    assert!(line.starts_with("sage-head-2 3 "), "{line}");
}

#[test]
fn an_export_that_fails_takes_no_answer_back_and_is_told() {
    let place = Place::new();
    let nowhere = place.root.path().join("missing").join("head");
    let desk = desk(&place.directory(), Heads::new(vec![nowhere.clone()], NonZeroU64::MIN, &place.directory()));
    assert!(matches!(desk.charge(request("one")), Ok(ChargeOutcome::Granted(_))));
    assert!(desk.export_failure().is_some_and(|reason| reason.contains("missing")));
    fs::create_dir(nowhere.parent().expect("it has one")).expect("made");
    assert!(matches!(desk.charge(request("two")), Ok(ChargeOutcome::Granted(_))));
    assert_eq!(desk.export_failure(), None, "tried again");
    desk.close().expect("a place to export to");
}

#[test]
fn the_head_of_an_empty_log_is_in_every_log() {
    let place = Place::new();
    let Ok(Checked::Sound(sound)) = place.check() else { panic!("nothing was exported") };
    assert_eq!(sound.head(), Head::EMPTY);
    Desk::new(sound, || 1).close().expect("a place to export to");
    place.charge("first", 1);
    assert!(matches!(place.check(), Ok(Checked::Sound(_))));
}
