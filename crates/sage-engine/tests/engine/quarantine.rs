//! Quarantined rows: listed without counts, released, erased, and deleted by the stream's retention.

use sage_engine::ingest::Source;
use sage_engine::{Engine, EngineError, IngestOutcome};

use crate::world::{RIDES, World, principal};

/// Three sealed days, and a batch with rows of a sealed day and rows without a time.
fn with_late_rows(world: &World) -> Engine {
    let engine = world.with_rides(5);
    let text = "pickup,distance\n2026-11-01T08:00:00Z,7\n2026-11-02T09:00:00Z,8.5\nnever,9\n";
    let ingested = world.ingest_csv(&engine, "late", text).expect("a batch");
    let IngestOutcome::Ingested(report) = ingested else { panic!("ingested before") };
    assert_eq!((report.stored, report.quarantined), (0, 3));
    engine
}

fn files(world: &World) -> usize {
    let folder = world.path().join("blocks/rides/_quarantine");
    std::fs::read_dir(folder).map_or(0, |entries| entries.count())
}

#[test]
fn the_list_has_reasons_and_no_counts() {
    let world = World::new();
    let engine = with_late_rows(&world);
    for name in ["ada", "mia", "eve"] {
        assert!(matches!(engine.quarantine(&principal(name), "rides"), Err(EngineError::NotInRole { .. })), "{name}");
    }
    let list = engine.quarantine(&principal("dan"), "rides").expect("a list");
    assert_eq!(list.len(), 1, "the file of the first batch holds no row");
    assert_eq!(
        (list[0].batch.as_str(), list[0].reasons.join(", ")),
        ("late", "late, no time within its bounds".to_owned())
    );
    assert!(list[0].at.is_some());
}

/// Regression: late rows were lost forever once they were quarantined.
#[test]
fn released_rows_go_where_the_stream_now_sends_them() {
    let world = World::new();
    let engine = with_late_rows(&world);
    let (dan, file) =
        (principal("dan"), engine.quarantine(&principal("dan"), "rides").expect("a list")[0].file.clone());
    let later = RIDES.replace("retention", "late = \"late-block\"\nretention");
    engine.change_stream(&principal("ada"), &later).expect("another rule for late rows");
    assert!(engine.release_quarantine(&principal("ada"), "rides", std::slice::from_ref(&file)).is_err());
    assert!(matches!(engine.release_quarantine(&dan, "rides", &["x".to_owned()]), Err(EngineError::NoQuarantine(_))));
    let released = engine.release_quarantine(&dan, "rides", std::slice::from_ref(&file)).expect("released");
    let [(batch, IngestOutcome::Ingested(report))] = &released[..] else { panic!("one batch") };
    assert_eq!((report.read, report.stored, report.quarantined), (3, 2, 1), "{batch}");
    let blocks = engine.snapshot().expect("a snapshot").blocks("rides").expect("blocks");
    assert!(blocks.iter().any(|block| block.key.contains("late")), "{blocks:?}");
    let list = engine.quarantine(&dan, "rides").expect("a list");
    assert_eq!(list.len(), 1, "what has no time is set aside again");
    assert_eq!(list[0].reasons, ["no time within its bounds"]);
    assert!(list[0].file != file && !world.path().join("blocks/rides/_quarantine").join(&file).exists());
    engine.close().expect("closed");
    let doctor = sage_engine::doctor::Doctor::examine(&world.path(), &world.options).expect("a snapshot");
    assert_eq!(doctor.findings(), []);
}

#[test]
fn erased_rows_are_gone_and_the_log_says_so() {
    let world = World::new();
    let engine = with_late_rows(&world);
    let all = engine.quarantine_files("rides");
    assert_eq!((all.len(), files(&world)), (2, 2));
    assert!(matches!(engine.erase_quarantine(&principal("mia"), "rides", &all), Err(EngineError::NotInRole { .. })));
    engine.erase_quarantine(&principal("ada"), "rides", &all).expect("an officer erases");
    assert_eq!(files(&world), 0);
    assert!(engine.quarantine(&principal("dan"), "rides").expect("a list").is_empty());
    let erased =
        engine.events(0, usize::MAX).expect("the log").into_iter().find(|event| event.kind == "quarantine-erased");
    assert_eq!(erased.expect("an event").by, ["ada"]);
    engine.close().expect("closed");
    let engine = world.open();
    assert!(engine.quarantine_files("rides").is_empty(), "also after a restart");
    drop(engine);
    let doctor = sage_engine::doctor::Doctor::examine(&world.path(), &world.options).expect("a snapshot");
    assert_eq!(doctor.findings(), []);
}

/// Regression: quarantined rows were never deleted, and outlived their blocks.
#[test]
fn quarantined_rows_end_with_the_retention_of_their_stream() {
    let world = World::new();
    let engine = with_late_rows(&world);
    let came = engine.quarantine(&principal("dan"), "rides").expect("a list")[0].at.expect("a time");
    let day = 86_400_000;
    engine.work(came + 29 * day).expect("worked");
    assert_eq!(files(&world), 2, "30 days are kept");
    engine.work(came + 31 * day).expect("worked");
    assert_eq!(files(&world), 0);
    let erased =
        engine.events(0, usize::MAX).expect("the log").into_iter().find(|event| event.kind == "quarantine-erased");
    assert!(erased.expect("an event").by.is_empty(), "the retention did it");
    // Without a retention they stay.
    let kept = RIDES.replace("\"rides\"", "\"kept\"").replace("retention = \"30d\"\n", "");
    engine.create_stream(&principal("ada"), &kept).expect("a stream");
    let file = world.beside("kept.csv");
    std::fs::write(&file, "pickup,distance\nnever,9\n").expect("a file");
    engine.ingest(&principal("dan"), "kept", "k", Source::path(&file)).expect("a batch");
    engine.work(came + 4000 * day).expect("worked");
    assert_eq!(engine.quarantine_files("kept").len(), 1);
}
