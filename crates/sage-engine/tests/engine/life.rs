//! The life cycle of rows and blocks.

use sage_engine::{EngineError, IngestOutcome, Lane, Opened, Refusal, State, TableNoise};

use crate::world::{RIDES, World, charge_request, days, epsilon, principal, query, rides};

/// The noisy number of rows on both lanes, at ε 8 per lane: off by more than 12 with probability e^-96.
fn count(engine: &sage_engine::Engine, key: &str, filter: Option<&str>) -> f64 {
    let granted = engine.charge(&principal("mia"), charge_request(key, days(1..=3), "8")).expect("granted");
    let mut session = engine.open_session(granted, &query(filter, &[("d", "distance")])).expect("a session");
    let noise = TableNoise::Laplace(epsilon("8"));
    let of = |session: &mut sage_engine::Session<_>, lane| {
        session.histogram(lane, 1, noise, |_| Some(0)).expect("covered by the charge")[0]
    };
    let both = of(&mut session, Lane::Train) + of(&mut session, Lane::Test);
    engine.release(session.finish(), [1; 32]).expect("released");
    both
}

#[test]
fn rows_go_in_and_only_noisy_numbers_come_out() {
    let world = World::new();
    let engine = world.with_rides(400);
    let all = count(&engine, "all", None);
    assert!((all - 1200.0).abs() < 24.0, "{all}");
    let long = count(&engine, "long", Some("distance > 45"));
    let true_long = 3.0 * (0..400).filter(|index| index % 90 + 1 > 45).count() as f64;
    assert!((long - true_long).abs() < 24.0, "{long} for {true_long}");
}

#[test]
fn rows_that_a_filter_excludes_stay_charged() {
    let world = World::new();
    let engine = world.with_rides(50);
    let spent = |engine: &sage_engine::Engine| {
        let blocks = engine.snapshot().expect("a snapshot").blocks("rides").expect("the stream");
        blocks.iter().map(|block| block.lanes[0].spent).collect::<Vec<_>>()
    };
    count(&engine, "none", Some("distance > 1000"));
    assert_eq!(spent(&engine), vec![epsilon("8"); 3]);
    count(&engine, "all", None);
    assert_eq!(spent(&engine), vec![epsilon("16"); 3]);
    // A third request does not fit, whatever it would filter.
    let refused = engine.charge(&principal("mia"), charge_request("third", days(1..=1), "8"));
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Ceiling(_)))));
}

#[test]
fn everything_is_there_after_opening_anew() {
    let world = World::new();
    let engine = world.with_rides(50);
    let before = count(&engine, "one", None);
    assert!(before.is_finite());
    let (streams, blocks) = {
        let look = engine.snapshot().expect("a snapshot");
        (look.streams(), look.blocks("rides"))
    };
    engine.close().expect("closed");
    let engine = world.open();
    let look = engine.snapshot().expect("a snapshot");
    assert_eq!((look.streams(), look.blocks("rides")), (streams, blocks));
    // A repeated request is not run again.
    let again = engine.charge(&principal("mia"), charge_request("one", days(1..=3), "8"));
    assert!(matches!(again, Err(EngineError::Served(_))));
    assert!(matches!(world.ingest_csv(&engine, "b1", "anything"), Ok(IngestOutcome::Duplicate)));
    assert!(engine.create_stream(&principal("ada"), RIDES).is_ok(), "the same file has no effect");
}

#[test]
fn a_grant_of_a_process_that_died_is_burnt() {
    let world = World::new();
    let engine = world.with_rides(50);
    let granted = engine.charge(&principal("mia"), charge_request("one", days(1..=3), "8")).expect("granted");
    let session = engine.open_session(granted, &query(None, &[("d", "distance")])).expect("a session");
    drop(session);
    drop(engine);
    let engine = world.open();
    let again = engine.charge(&principal("mia"), charge_request("one", days(1..=3), "8"));
    assert!(matches!(again, Err(EngineError::Served(sage_engine::GrantState::Burnt))));
    let blocks = engine.snapshot().expect("a snapshot").blocks("rides").expect("the stream");
    assert_eq!(blocks[0].lanes[0].spent, epsilon("8"), "what may have been read is spent");
}

#[test]
fn a_charge_that_was_not_used_comes_back() {
    let world = World::new();
    let engine = world.with_rides(50);
    let granted = engine.charge(&principal("mia"), charge_request("one", days(1..=3), "15")).expect("granted");
    assert!(engine.charge(&principal("mia"), charge_request("two", days(2..=2), "15")).is_err());
    engine.cancel(granted).expect("cancelled");
    let granted = engine.charge(&principal("mia"), charge_request("two", days(2..=2), "15")).expect("granted");
    // An invalid query is refused before the charge is final.
    let refused = engine.open_session(granted, &query(None, &[("n", "count(*)")]));
    assert!(matches!(refused, Err(EngineError::Query(_))));
    let granted =
        engine.charge(&principal("mia"), charge_request("two", days(2..=2), "15")).expect("the same key again");
    engine.cancel(granted).expect("cancelled");
}

#[test]
fn an_open_block_is_not_charged_and_a_sealed_one_does_not_grow() {
    let world = World::new();
    let engine = world.with_rides(50);
    world.ingest_csv(&engine, "b2", &rides(3..=4, 50)).expect("a batch");
    let states = |engine: &sage_engine::Engine| {
        let blocks = engine.snapshot().expect("a snapshot").blocks("rides").expect("the stream");
        blocks.into_iter().map(|block| (block.key, block.state)).collect::<Vec<_>>()
    };
    assert_eq!(states(&engine)[3], ("day=2026-11-04".to_owned(), State::Open));
    let open = engine.charge(&principal("mia"), charge_request("open", days(4..=4), "1"));
    assert!(matches!(open, Err(EngineError::Stage { .. })));
    // Rows of the sealed third day are quarantined.
    let both = count(&engine, "count", None);
    assert!((both - 150.0).abs() < 24.0, "{both}");
    let unknown = engine.charge(&principal("mia"), charge_request("unknown", days(9..=9), "1"));
    assert!(matches!(unknown, Err(EngineError::NoBlock(_))));
    assert!(engine.seal(&principal("dan"), "rides", &days(3..=4)).is_err(), "all or none");
    let instant = sage_engine::stream::parse_time("2026-11-05").expect("a time");
    assert_eq!(engine.open_before("rides", instant).expect("a stream"), days(4..=4));
}

#[test]
fn retirement_is_final_and_deletion_is_an_event() {
    let world = World::new();
    let engine = world.with_rides(50);
    let ada = principal("ada");
    let held = engine.charge(&principal("mia"), charge_request("held", days(1..=2), "1")).expect("granted");
    assert!(engine.delete(&ada, "rides", &days(1..=1)).is_err(), "not retired yet");
    engine.retire(&ada, "rides", &days(1..=1)).expect("retired");
    // Neither a new charge nor an old grant opens it.
    let retired = engine.charge(&principal("mia"), charge_request("new", days(1..=2), "1"));
    assert!(matches!(retired, Err(EngineError::Refused(Refusal::RetiredBlock(_)))));
    assert!(engine.open_session(held, &query(None, &[])).is_err());
    let folder = world.path().join("blocks/rides/day=2026-11-01");
    assert!(std::fs::read_dir(&folder).expect("a folder").next().is_some());
    engine.delete(&ada, "rides", &days(1..=1)).expect("deleted");
    let left = std::fs::read_dir(&folder).map_or(0, |files| files.count());
    assert_eq!(left, 0, "its files are deleted");
    assert!(engine.delete(&ada, "rides", &days(1..=1)).is_err(), "once");
    drop(engine);
    let blocks = world.open().snapshot().expect("a snapshot").blocks("rides").expect("the stream");
    assert_eq!(blocks[0].state, State::Deleted);
    assert_eq!(blocks[1].state, State::Sealed);
}

#[test]
fn retention_names_the_blocks_that_are_too_old() {
    let world = World::new();
    let engine = world.with_rides(5);
    for (instant, expired) in [("2026-12-01", 0), ("2026-12-02", 1), ("2027-01-01", 3)] {
        let instant = sage_engine::stream::parse_time(instant).expect("a time");
        assert_eq!(engine.expired("rides", instant).expect("a stream").len(), expired);
    }
}

/// Regression: nothing enforced a declared retention, and blocks stayed readable forever.
#[test]
fn blocks_whose_retention_is_over_are_retired_and_deleted_by_the_loop() {
    let world = World::new();
    let engine = world.with_rides(50);
    world.ingest_csv(&engine, "b2", &rides(4..=4, 5)).expect("a batch for a block that stays open");
    let at = |day: &str| sage_engine::stream::parse_time(day).expect("a time").unsigned_abs() / 1000;
    let states = |engine: &sage_engine::Engine| {
        let blocks = engine.snapshot().expect("a snapshot").blocks("rides").expect("the stream");
        blocks.into_iter().map(|block| block.state).collect::<Vec<_>>()
    };
    let before = engine.log_length().expect("a log");
    engine.work(at("2026-12-01")).expect("worked");
    assert_eq!(engine.log_length().expect("a log"), before, "30 days after its end nothing is over yet");
    // A crash after the first of two events: the loop continues where it was.
    engine.retire(&principal("ada"), "rides", &days(1..=1)).expect("retired");
    engine.work(at("2026-12-03")).expect("worked");
    let expected = [State::Deleted, State::Deleted, State::Sealed, State::Open];
    assert_eq!(states(&engine), expected);
    let kinds: Vec<_> = engine.events(before, 100).expect("events");
    let kinds: Vec<_> = kinds.iter().map(|event| (event.kind, event.by.is_empty())).collect();
    assert_eq!(kinds[1..], [("blocks-retired", true), ("blocks-deleted", true)], "an event comes before its effect");
    for day in ["day=2026-11-01", "day=2026-11-02"] {
        let files = std::fs::read_dir(world.path().join("blocks/rides").join(day)).map_or(0, |files| files.count());
        assert_eq!(files, 0, "{day}");
    }
    let old = engine.charge(&principal("mia"), charge_request("old", days(1..=2), "1"));
    assert!(old.is_err(), "what is deleted is not charged");
    assert!(
        engine.charge(&principal("mia"), charge_request("new", days(3..=3), "1")).is_ok(),
        "a block within its retention"
    );
    let length = engine.log_length().expect("a log");
    engine.work(at("2026-12-03") + 120_000).expect("worked");
    assert_eq!(engine.log_length().expect("a log"), length, "once");
    engine.work(at("2027-01-01")).expect("worked");
    assert_eq!(states(&engine), [State::Deleted; 4], "also a block that was never sealed");
    engine.close().expect("closed");
    assert_eq!(states(&world.open()), [State::Deleted; 4]);
    let doctor = sage_engine::doctor::Doctor::examine(&world.path(), &world.options).expect("a snapshot");
    assert_eq!(doctor.findings(), []);
}

#[test]
fn a_rolled_back_directory_grants_nothing_until_an_officer_acknowledges_it() {
    let world = World::new();
    world.with_rides(5).close().expect("closed");
    let copy = world.beside("copy");
    copy_folder(&world.path(), &copy);
    let engine = world.open();
    count(&engine, "spent since", None);
    engine.close().expect("closed");
    std::fs::remove_dir_all(world.path()).expect("removed");
    std::fs::rename(&copy, world.path()).expect("put back");
    let Opened::Fenced(log) = sage_engine::Engine::open(&world.path(), &world.options).expect("readable") else {
        panic!("an old log was taken for the newest");
    };
    let (present, known) = log.heads();
    assert!(known.is_some_and(|known| present.length < known.head.length));
    let engine = log.acknowledge(&principal("ada")).expect("acknowledged");
    engine.close().expect("closed");
    world.open();
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

#[test]
fn a_start_from_a_snapshot_is_a_start_from_the_first_record() {
    let world = World::new();
    let engine = world.with_rides(50);
    count(&engine, "before", None);
    engine.checkpoint().expect("a snapshot");
    engine.retire(&principal("ada"), "rides", &days(1..=1)).expect("retired");
    world.ingest_csv(&engine, "b2", &rides(4..=5, 10)).expect("a batch");
    let see = |engine: &sage_engine::Engine| {
        let look = engine.snapshot().expect("a snapshot");
        (look.streams(), look.blocks("rides"))
    };
    let seen = see(&engine);
    engine.close().expect("closed");
    let file = world.path().join("snapshot");
    let kept = std::fs::read(&file).expect("a snapshot");
    assert_eq!(see(&world.open()), seen);

    // A damaged snapshot costs time and nothing else.
    for index in (0..kept.len()).step_by(41) {
        let mut bytes = kept.clone();
        bytes[index] ^= 1;
        std::fs::write(&file, &bytes).expect("written");
        assert_eq!(see(&world.open()), seen, "byte {index}");
    }
    std::fs::write(&file, &kept[..kept.len() / 2]).expect("written");
    assert_eq!(see(&world.open()), seen, "cut");

    // So does a snapshot of another directory.
    let other = World::new();
    let engine = other.with_rides(1);
    engine.checkpoint().expect("a snapshot");
    engine.close().expect("closed");
    std::fs::copy(other.path().join("snapshot"), &file).expect("copied");
    assert_eq!(see(&world.open()), seen, "foreign");
    std::fs::write(&file, kept).expect("put back");
    let engine = world.open();
    assert_eq!(see(&engine), seen);
    let again = engine.charge(&principal("mia"), charge_request("before", days(1..=3), "8"));
    assert!(matches!(again, Err(EngineError::Served(_))), "keys are remembered");
}
