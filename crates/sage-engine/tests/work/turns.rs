//! A turn of the loop costs what changed, not what waits: counted in runs that are looked at.

use sage_engine::adapt::Outcome;
use sage_engine::allocate::{Scheduler, Unlock};
use sage_engine::{Engine, Places};

use crate::city::{COUNT, City, SPEED, principal};
use crate::loops::HOUR;

/// How many wait.
const WAITING: u64 = 2000;

/// How many runs are looked at while something is done.
fn looks(engine: &Engine, work: impl FnOnce()) -> u64 {
    let before = engine.evaluations();
    work();
    engine.evaluations() - before
}

#[test]
fn runs_whose_situation_did_not_change_are_not_looked_at() {
    let city = City::new(30_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    city.seal_before(&engine, "2026-01-01T01:00");
    // Each wants more blocks than there are.
    let patient = SPEED.replace("window = { min = 2 }", "window = { min = 40 }");
    for number in 0..WAITING - 1 {
        let own = patient.replace("speed-by-vendor", &format!("waits-{number}"));
        engine.submit_at(&mia, &own, 0).expect("submitted");
    }
    // One of them gives up after a while.
    let late = format!("{}\n[adapt]\ntimeout = \"2h\"\n", patient.replace("speed-by-vendor", "late"));
    let late = engine.submit_at(&mia, &late, 0).expect("submitted");
    let work = |time: u64| {
        engine.work(time).expect("nothing fails");
    };
    assert_eq!(looks(&engine, || work(1)), WAITING, "all are new");
    assert_eq!(looks(&engine, || (1..100).for_each(work)), 0, "nothing happened in a hundred turns");

    // Who comes later is looked at alone. It reads two blocks, and there is one.
    let quick = COUNT.replace("stream = \"taxi\"", "stream = \"taxi\"\nwindow = { min = 2 }");
    let quick = engine.submit_at(&mia, &format!("{quick}[budget]\nepsilon0 = \"0.001\"\n"), 0).expect("submitted");
    assert_eq!(looks(&engine, || work(100)), 1);

    // A block is news for everybody, once. The one that is tried now, and leaves, is looked at when its turn comes;
    // what it leaves is budget, and the others lack blocks.
    city.seal_before(&engine, "2026-01-01T02:00");
    let seen = looks(&engine, || work(101));
    assert_eq!(engine.run(quick).expect("a run").outcome(), Some(Outcome::Accepted));
    assert!((WAITING + 1..=WAITING + 3).contains(&seen), "{seen}");
    assert_eq!(looks(&engine, || (102..150).for_each(work)), 0);

    // A time that comes is news for the one who waited for it.
    assert_eq!(looks(&engine, || work(2 * HOUR)), 1);
    assert_eq!(engine.run(late).expect("a run").status(), "timed out");
    assert_eq!(looks(&engine, || work(2 * HOUR + 1)), 0);

    // After a restart everybody is new again.
    engine.close().expect("closed");
    let engine = city.open();
    let work = |time: u64| {
        engine.work(time).expect("nothing fails");
    };
    assert_eq!(looks(&engine, || work(3 * HOUR)), WAITING - 1);
    assert_eq!(looks(&engine, || work(3 * HOUR + 1)), 0);
}

/// Where all can go on at once, each turn looks at the one whose turn it is.
#[test]
fn those_who_wait_for_their_turn_are_not_looked_at_again() {
    const READY: u64 = 60;
    let city = City::new(30_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    for number in 0..READY {
        engine.submit_at(&mia, &COUNT.replace("rides", &format!("rides-{number}")), 0).expect("submitted");
    }
    city.seal_before(&engine, "2026-01-01T01:00");
    assert_eq!(looks(&engine, || drop(engine.next_job(1).expect("nothing fails"))), READY);
    let job = |engine: &Engine| engine.next_job(1).expect("nothing fails").expect("an attempt");
    // The second turn: the first is under way and nobody's allocation became larger.
    let mut second = None;
    assert!(looks(&engine, || second = Some(job(&engine))) <= 2);
    assert_eq!(second.expect("an attempt").run(), 2);
}

/// Where time brings a block's budget within reach, a pipeline begins as soon as some block has had enough of it, though
/// newer ones have not, and nothing but the clock has moved.
#[test]
fn time_lets_pipelines_begin_where_it_unlocks() {
    // A first attempt asks for a 64th, which four hours bring.
    let scheduler = Scheduler::DominantShare(Unlock::OverTime(256 * HOUR));
    let mut city = City::new(30_000);
    city.places = Places { scheduler, ..Places::default() };
    let engine = city.with_rides("4");
    engine.submit_at(&principal("mia"), COUNT, 0).expect("submitted");
    let attempts = |engine: &Engine| engine.run(1).expect("a run").attempts.len();
    for hour in 0..4 {
        city.seal_before(&engine, &format!("2026-01-01T{hour:02}:00"));
        engine.work(hour * HOUR).expect("nothing fails");
        assert_eq!(attempts(&engine), 0, "at hour {hour} no block is old enough");
    }
    for hour in 4..7 {
        engine.work(hour * HOUR).expect("nothing fails");
    }
    let run = engine.run(1).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted));
    engine.close().expect("closed");
    // What was sealed before a start has no age that anybody knows, and is not waited for.
    let engine = city.open();
    let again = engine.submit_at(&principal("mia"), &COUNT.replace("\"rides\"", "\"again\""), 0).expect("submitted");
    engine.work(7 * HOUR).expect("nothing fails");
    assert_eq!(engine.run(again).expect("a run").outcome(), Some(Outcome::Accepted));
}
