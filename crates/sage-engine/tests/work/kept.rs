//! Blocks that were summarised for one attempt are not read for the next, and their summaries are deleted with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sage_engine::doctor::{Doctor, Finding};
use sage_engine::{AttemptOutcome, Engine};

use crate::city::{City, SPEED, frugal, principal};
use crate::loops::{describe, pass_hours};

/// A linear model that never reaches its target.
const LINE: &str = r#"
[pipeline]
name = "line"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
window = { min = "2h" }
features = [
  { column = "distance", scale = [0, 30] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 0.000001
bound = 1.0
"#;

/// Three attempts at one cost, each with twice the blocks of the one before.
const THREE: &str = "[budget]\nepsilon0 = 0.1\nepsilon_max = 0.1\n[adapt]\nattempts = 3\n";

/// The files below a folder, by path, with the time at which each was written.
fn files(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let (mut open, mut found) = (vec![folder.to_owned()], BTreeMap::new());
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).expect("a folder").flatten() {
            let known = entry.metadata().expect("a file");
            match known.is_dir() {
                true => open.push(entry.path()),
                false => drop(found.insert(entry.path(), known.modified().expect("a time"))),
            }
        }
    }
    found
}

/// The block and the lane of a summary file.
fn of(file: &Path) -> (String, String) {
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let lane = name(file).split('-').next().expect("a lane").to_owned();
    (name(file.parent().expect("a folder")), lane)
}

/// The number of attempts of a run, all of them judged.
fn judged(engine: &Engine, run: u64) -> usize {
    let run = engine.run(run).expect("a run");
    let sound = run.attempts.iter().all(|one| matches!(one.outcome, Some(AttemptOutcome::Judged(_))));
    assert!(sound, "{}", describe(&run));
    run.attempts.len()
}

/// The rows of the blocks that an attempt has read are deleted. The next attempts, with windows twice and four times as
/// long, still get a verdict, also after a restart.
#[test]
fn a_statistic_of_a_longer_window_reads_the_new_blocks_alone() {
    let city = City::new(60_000);
    let engine = city.with_rides("10");
    let text = SPEED.replace("target = 4.0", "target = 0.000001");
    let run = engine.submit_at(&principal("mia"), &frugal(&format!("{text}\n{THREE}")), 0).expect("submitted");
    let rows = || files(&city.path().join("blocks/taxi"));
    let sums = || files(&city.path().join("sums"));
    pass_hours(&city, &engine, 1..3);
    assert_eq!(judged(&engine, run), 1);
    let first = sums();
    assert_eq!(first.len(), 2, "the train lane of two blocks: {first:?}");
    for file in rows().keys().filter(|file| first.keys().any(|kept| of(kept).0 == of(file).0)) {
        std::fs::remove_file(file).expect("removed");
    }
    engine.close().expect("closed");
    let engine = city.open();
    pass_hours(&city, &engine, 3..5);
    assert_eq!(judged(&engine, run), 2);
    let second = sums();
    assert_eq!(second.len(), 4);
    assert!(first.iter().all(|(file, written)| second.get(file) == Some(written)), "none was made anew");
    pass_hours(&city, &engine, 5..9);
    assert_eq!(judged(&engine, run), 3);
    assert_eq!(sums().len(), 8);
    // Another statistic on these blocks needs other summaries, and so their rows.
    let other = text.replace("[0, 60]", "[0, 50]").replace("speed-by-vendor", "other").replace("min = 2", "min = 8");
    let other = engine
        .submit_at(&principal("mia"), &frugal(&format!("{other}\n[adapt]\nattempts = 1\n")), 0)
        .expect("submitted");
    pass_hours(&city, &engine, 9..10);
    let other = engine.run(other).expect("a run");
    let lost =
        matches!(&other.attempts[0].outcome, Some(AttemptOutcome::Lost(why)) if why.contains("not in the block store"));
    assert!(lost, "{}", describe(&other));
}

/// The rows of the test lane are read for every model; those of the train lane once.
#[test]
fn a_model_of_a_longer_window_sums_the_new_blocks_alone() {
    let city = City::new(60_000);
    let engine = city.with_rides("10");
    let run = engine.submit_at(&principal("mia"), &frugal(&format!("{LINE}\n{THREE}")), 0).expect("submitted");
    let sums = || files(&city.path().join("sums"));
    pass_hours(&city, &engine, 1..3);
    assert_eq!(judged(&engine, run), 1);
    let first = sums();
    assert_eq!(first.len(), 2, "{first:?}");
    engine.close().expect("closed");
    let engine = city.open();
    pass_hours(&city, &engine, 3..9);
    assert_eq!(judged(&engine, run), 3);
    let last = sums();
    assert_eq!(last.len(), 8);
    assert!(last.keys().all(|file| of(file).1 == "train"), "{last:?}");
    assert!(first.iter().all(|(file, written)| last.get(file) == Some(written)), "none was made anew");
    engine.close().expect("closed");
    assert_eq!(findings(&city), []);
}

fn findings(city: &City) -> Vec<Finding> {
    Doctor::examine(&city.path(), &city.options).expect("a sound log").findings().to_vec()
}

#[test]
fn sums_are_deleted_with_their_block_and_the_doctor_finds_those_that_were_left() {
    let city = City::new(30_000);
    let engine = city.with_rides("10");
    engine.submit_at(&principal("mia"), &frugal(SPEED), 0).expect("submitted");
    pass_hours(&city, &engine, 1..3);
    let sums = || files(&city.path().join("sums"));
    let stored: Vec<PathBuf> = sums().into_keys().collect();
    let [deleted, left] = &stored[..] else { panic!("two blocks: {stored:?}") };
    let bytes = [deleted, left].map(|file| std::fs::read(file).expect("sums"));
    let key = [of(deleted).0];
    engine.retire(&principal("ada"), "taxi", &key).expect("retired");
    assert_eq!(sums().len(), 2, "retired blocks keep their summaries");
    engine.delete(&principal("ada"), "taxi", &key).expect("deleted");
    assert!(!deleted.exists() && left.exists());
    engine.close().expect("closed");
    assert_eq!(findings(&city), [], "summaries of an existing block are no finding");

    // Leftovers of a crash during deletion, of an unknown block, a damaged file, and a file under another name.
    std::fs::create_dir_all(deleted.parent().expect("a folder")).expect("a folder");
    std::fs::write(deleted, &bytes[0]).expect("written");
    let stranger = left.parent().expect("a folder").join("stranger");
    std::fs::write(&stranger, &bytes[1]).expect("written");
    let nowhere = city.path().join("sums/taxi/hour=1999-01-01T00/train-0");
    std::fs::create_dir_all(nowhere.parent().expect("a folder")).expect("a folder");
    std::fs::write(&nowhere, &bytes[1]).expect("written");
    std::fs::write(left, &bytes[1][1..]).expect("damaged");
    let found = findings(&city);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|finding| matches!(finding, Finding::Sums(_)) && finding.is_repairable()), "{found:?}");
    assert!(found[0].to_string().contains("--repair removes it"), "{}", found[0]);
    let rest = Doctor::examine(&city.path(), &city.options).expect("a sound log").repair().expect("repaired");
    assert_eq!((rest, findings(&city)), (vec![], vec![]));
    assert!(sums().is_empty());
}
