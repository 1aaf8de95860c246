//! The doctor compares the store with the log, in both directions.

use std::path::PathBuf;

use sage_engine::doctor::{Doctor, Finding};

use crate::world::{World, charge_request, days, principal, query};

fn parts(world: &World, day: u32) -> Vec<PathBuf> {
    let folder = world.path().join(format!("blocks/rides/day=2026-11-{day:02}"));
    let files = std::fs::read_dir(folder).expect("a folder");
    files.map(|file| file.expect("an entry").path()).collect()
}

fn findings(world: &World) -> Vec<Finding> {
    Doctor::examine(&world.path(), &world.options).expect("a sound log").findings().to_vec()
}

#[test]
fn a_sound_directory_has_nothing_wrong() {
    let world = World::new();
    world.with_rides(50).close().expect("closed");
    assert_eq!(findings(&world), []);
}

#[test]
fn missing_changed_and_orphan_files_are_found_and_nothing_is_changed() {
    let world = World::new();
    world.with_rides(50).close().expect("closed");
    std::fs::remove_file(&parts(&world, 1)[0]).expect("removed");
    let changed = &parts(&world, 2)[0];
    let mut bytes = std::fs::read(changed).expect("a part");
    bytes[100] ^= 1;
    std::fs::write(changed, &bytes).expect("changed");
    let orphan = world.path().join("blocks/rides/day=2026-11-09/part-x.parquet");
    std::fs::create_dir_all(orphan.parent().expect("a folder")).expect("a folder");
    std::fs::write(&orphan, b"left by a crash").expect("an orphan");
    let found = findings(&world);
    assert!(matches!(&found[..], [Finding::Missing(_), Finding::Changed(_), Finding::Orphan(_)]), "{found:?}");
    assert_eq!(findings(&world), found, "an examination changes nothing");
    assert!(orphan.exists());

    let left = Doctor::examine(&world.path(), &world.options).expect("a sound log").repair().expect("repaired");
    assert!(!orphan.exists(), "the orphan is removed");
    assert!(matches!(&left[..], [Finding::Missing(_), Finding::Changed(_)]), "{left:?}");
    assert_eq!(findings(&world), left);

    // A block with a changed file is not read, and the charge stays.
    let engine = world.open();
    let granted = engine.charge(&principal("mia"), charge_request("changed", days(2..=2), "1")).expect("granted");
    let error = engine.open_session(granted, &query(None, &[])).err().expect("not read").to_string();
    assert!(error.contains("the charge stands"), "{error}");
}

#[test]
fn a_grant_left_by_a_dead_process_is_found_and_burnt_by_repair_alone() {
    let world = World::new();
    let engine = world.with_rides(50);
    let granted = engine.charge(&principal("mia"), charge_request("one", days(1..=1), "1")).expect("granted");
    let id = granted.id();
    drop(engine.open_session(granted, &query(None, &[])).expect("a session"));
    drop(engine);
    assert_eq!(findings(&world), [Finding::Running(id)]);
    assert_eq!(findings(&world), [Finding::Running(id)]);
    let left = Doctor::examine(&world.path(), &world.options).expect("a sound log").repair().expect("repaired");
    assert_eq!(left, []);
    assert_eq!(findings(&world), []);
}

#[test]
fn examining_a_folder_without_a_log_creates_none() {
    let world = World::new();
    assert!(Doctor::examine(&world.path(), &world.options).is_err());
    assert!(!world.path().exists());
}
