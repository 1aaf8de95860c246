//! Roles, and the number of officers that a change needs.

use sage_engine::{EngineError, PolicyOutcome};

use crate::world::{RIDES, World, charge_request, days, principal, rides};

#[test]
fn roles_come_from_the_streams_file() {
    let world = World::new();
    let engine = world.with_rides(5);
    let denied = |outcome: Result<(), EngineError>| matches!(outcome, Err(EngineError::NotInRole { .. }));
    for name in ["mia", "dan", "eve"] {
        assert!(denied(engine.retire(&principal(name), "rides", &days(1..=1))), "{name} retires");
        assert!(denied(engine.delete(&principal(name), "rides", &days(1..=1))), "{name} deletes");
        assert!(denied(engine.approve_policy(&principal(name), "rides", "")), "{name} approves");
        assert!(denied(engine.change_stream(&principal(name), RIDES).map(drop)), "{name} changes");
    }
    for name in ["ada", "dan", "eve"] {
        let charged = engine.charge(&principal(name), charge_request(name, days(1..=1), "1"));
        assert!(denied(charged.map(drop)), "{name} charges");
    }
    for name in ["ada", "mia", "eve"] {
        assert!(denied(engine.seal(&principal(name), "rides", &days(1..=1))), "{name} seals");
        let file = world.beside("eve.csv");
        std::fs::write(&file, rides(5..=5, 1)).expect("a file");
        let ingested = engine.ingest(&principal(name), "rides", "x", sage_engine::ingest::Source::path(&file));
        assert!(denied(ingested.map(drop)), "{name} ingests");
    }
    let other = RIDES.replace("\"rides\"", "\"others\"");
    assert!(denied(engine.create_stream(&principal("mia"), &other)), "not an officer of it");
}

#[test]
fn loosening_takes_two_and_tightening_one() {
    ["basic", "strong", "renyi"].into_iter().for_each(policy_moves_under);
}

fn policy_moves_under(filter: &str) {
    let world = World::new();
    let engine = world.open();
    let file = RIDES.replace("filter = \"basic\"", &format!("filter = \"{filter}\""));
    engine.create_stream(&principal("ada"), &file).expect("a stream");
    world.ingest_csv(&engine, "b1", &rides(1..=3, 5)).expect("a batch");
    engine.seal(&principal("dan"), "rides", &days(1..=3)).expect("sealed");
    let (ada, bob) = (principal("ada"), principal("bob"));
    let with = |epsilon: &str| file.replace("epsilon = \"20\"", &format!("epsilon = \"{epsilon}\""));
    let ceiling = || {
        let view = engine.snapshot().expect("a snapshot").stream("rides").expect("the stream");
        view.promise.split("e^").nth(1).and_then(|rest| rest.split(',').next().map(str::to_owned)).expect("a promise")
    };
    assert_eq!(engine.change_stream(&ada, &file).expect("read"), PolicyOutcome::Same, "{filter}");
    assert_eq!(engine.change_stream(&ada, &with("10")).expect("read"), PolicyOutcome::InForce);
    assert_eq!(ceiling(), "10");
    assert_eq!(engine.change_stream(&ada, &with("16")).expect("read"), PolicyOutcome::Waits);
    assert_eq!(ceiling(), "10");
    let proposal =
        engine.snapshot().expect("a snapshot").stream("rides").expect("the stream").proposal.expect("it waits");
    let alone = engine.approve_policy(&ada, "rides", &proposal.digest);
    assert!(matches!(alone, Err(EngineError::NothingToApprove(_))), "not alone");
    engine.approve_policy(&bob, "rides", &proposal.digest).expect("two officers");
    assert_eq!(ceiling(), "16");
    assert!(engine.approve_policy(&bob, "rides", &proposal.digest).is_err(), "once");
    assert_eq!(engine.change_stream(&bob, &with("8")).expect("read"), PolicyOutcome::InForce);
    assert_eq!(ceiling(), "8");
    // The new ceiling refuses a charge that the old one admitted.
    assert!(engine.charge(&principal("mia"), charge_request("much", days(1..=1), "15")).is_err());
    drop(engine);
    let view = world.open().snapshot().expect("a snapshot").stream("rides").expect("the stream");
    assert!(view.promise.contains("e^8,"), "{}", view.promise);
}

/// Regression: one officer alone could end the interval of published results, on which the stream's users rely.
#[test]
fn showing_results_earlier_takes_two() {
    let world = World::new();
    let engine = world.open();
    let (ada, bob) = (principal("ada"), principal("bob"));
    let with = |keys: &str| RIDES.replace("retention", &format!("{keys}\nretention"));
    let held = "answers = \"at-interval\"\ndisclosure_interval = \"1h\"";
    engine.create_stream(&ada, &with("disclosure_interval = \"1h\"")).expect("a stream");
    assert_eq!(engine.change_stream(&ada, &with(held)).expect("read"), PolicyOutcome::InForce, "tighter");
    assert_eq!(engine.change_stream(&ada, &with(&held.replace("1h", "2h"))).expect("read"), PolicyOutcome::InForce);
    let file = || engine.snapshot().expect("a snapshot").stream("rides").expect("the stream");
    for earlier in [
        "disclosure_interval = \"2h\"",
        "answers = \"at-interval\"\ndisclosure_interval = \"1h\"",
        "answers = \"at-interval\"",
        "",
    ] {
        assert_eq!(engine.change_stream(&ada, &with(earlier)).expect("read"), PolicyOutcome::Waits, "{earlier}");
        assert!(file().file.contains("at-interval") && file().file.contains("2h"), "{}", file().file);
    }
    let digest = file().proposal.expect("it waits").digest;
    assert!(engine.approve_policy(&ada, "rides", &digest).is_err(), "not alone");
    engine.approve_policy(&bob, "rides", &digest).expect("two officers");
    assert!(!file().file.contains("at-interval"), "{}", file().file);
    // If results are shown at once, the interval concerns users without a role, and one officer is enough.
    assert_eq!(
        engine.change_stream(&ada, &with("disclosure_interval = \"1h\"")).expect("read"),
        PolicyOutcome::InForce
    );
    assert_eq!(engine.change_stream(&ada, RIDES).expect("read"), PolicyOutcome::InForce);
    drop(engine);
    assert_eq!(world.open().change_stream(&ada, RIDES).expect("read"), PolicyOutcome::Same, "the log is read again");
}

#[test]
fn the_schema_of_existing_rows_cannot_change() {
    let world = World::new();
    let engine = world.with_rides(5);
    for (from, to) in [
        ("max = 100.0", "max = 200.0"),
        ("1d", "1h"),
        ("test_share = 0.5", "test_share = 0.4"),
        ("filter = \"basic\"", "filter = \"renyi\""),
    ] {
        let changed = RIDES.replace(from, to);
        assert_ne!(changed, RIDES);
        let refused = engine.change_stream(&principal("ada"), &changed);
        assert!(matches!(refused, Err(EngineError::Change(_) | EngineError::OtherPolicy(_))), "{to}");
        assert!(engine.create_stream(&principal("ada"), &changed).is_err(), "{to}");
    }
    let wider = RIDES.replace("[\"mia\"]", "[\"mia\", \"max\"]");
    assert_eq!(engine.change_stream(&principal("ada"), &wider).expect("read"), PolicyOutcome::InForce);
    assert!(engine.charge(&principal("max"), charge_request("now", days(1..=1), "1")).is_ok());
}
