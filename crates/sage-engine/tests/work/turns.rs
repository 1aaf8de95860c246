//! The cost of a scheduling round depends on what changed, not on how many runs wait: counted in evaluated runs.

use sage_engine::adapt::Outcome;
use sage_engine::allocate::{Scheduler, Unlock};
use sage_engine::{Engine, EngineOptions};

use crate::city::{COUNT, City, SPEED, frugal, principal};
use crate::loops::HOUR;

/// The number of waiting runs.
const WAITING: u64 = 2000;

/// The number of runs that are evaluated during some work.
fn evaluations(engine: &Engine, work: impl FnOnce()) -> u64 {
    let before = engine.evaluations();
    work();
    engine.evaluations() - before
}

#[test]
fn unchanged_runs_are_not_evaluated() {
    let city = City::new(30_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    city.seal_before(&engine, "2026-01-01T01:00");
    // Each run needs more blocks than there are.
    let patient = SPEED.replace("window = { min = 2 }", "window = { min = 40 }");
    for number in 0..WAITING - 1 {
        let own = patient.replace("speed-by-vendor", &format!("waits-{number}"));
        engine.submit_at(&mia, &frugal(&own), 0).expect("submitted");
    }
    // One run has a timeout.
    let late = format!("{}\n[adapt]\ntimeout = \"2h\"\n", patient.replace("speed-by-vendor", "late"));
    let late = engine.submit_at(&mia, &frugal(&late), 0).expect("submitted");
    let work = |time: u64| {
        engine.work(time).expect("no error");
    };
    assert_eq!(evaluations(&engine, || work(1)), WAITING, "all are new");
    assert_eq!(evaluations(&engine, || (1..100).for_each(work)), 0, "nothing changed in a hundred rounds");

    // A new run is evaluated alone. It reads two blocks, and there is one.
    let quick = COUNT.replace("stream = \"taxi\"", "stream = \"taxi\"\nwindow = { min = 2 }");
    let quick =
        engine.submit_at(&mia, &frugal(&format!("{quick}[budget]\nepsilon0 = \"0.001\"\n")), 0).expect("submitted");
    assert_eq!(evaluations(&engine, || work(100)), 1);

    // A new block makes every run eligible, once. The run that makes an attempt and leaves is evaluated in its round;
    // it frees budget, and the others lack blocks.
    city.seal_before(&engine, "2026-01-01T02:00");
    let seen = evaluations(&engine, || work(101));
    assert_eq!(engine.run(quick).expect("a run").outcome(), Some(Outcome::Accepted));
    assert!((WAITING + 1..=WAITING + 3).contains(&seen), "{seen}");
    assert_eq!(evaluations(&engine, || (102..150).for_each(work)), 0);

    // A deadline wakes only the run that waits for it.
    assert_eq!(evaluations(&engine, || work(2 * HOUR)), 1);
    assert_eq!(engine.run(late).expect("a run").status(), "timed out");
    assert_eq!(evaluations(&engine, || work(2 * HOUR + 1)), 0);

    // After a restart every run is evaluated again.
    engine.close().expect("closed");
    let engine = city.open();
    let work = |time: u64| {
        engine.work(time).expect("no error");
    };
    assert_eq!(evaluations(&engine, || work(3 * HOUR)), WAITING - 1);
    assert_eq!(evaluations(&engine, || work(3 * HOUR + 1)), 0);
}

/// If all runs can continue, each round evaluates the run that is scheduled.
#[test]
fn runs_waiting_for_their_round_are_not_evaluated_again() {
    const READY: u64 = 60;
    let city = City::new(30_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    for number in 0..READY {
        engine.submit_at(&mia, &frugal(&COUNT.replace("rides", &format!("rides-{number}"))), 0).expect("submitted");
    }
    city.seal_before(&engine, "2026-01-01T01:00");
    assert_eq!(evaluations(&engine, || drop(engine.next_job(1).expect("no error"))), READY);
    let job = |engine: &Engine| engine.next_job(1).expect("no error").expect("an attempt");
    // The second round: the first run is active, and no allocation has grown.
    let mut second = None;
    assert!(evaluations(&engine, || second = Some(job(&engine))) <= 2);
    assert_eq!(second.expect("an attempt").run(), 2);
}

/// If time unlocks budget, a pipeline begins as soon as some block has enough, although newer blocks have not, and only
/// the clock has moved.
#[test]
fn time_lets_pipelines_begin_where_it_unlocks() {
    // A first attempt needs a 64th, which four hours unlock.
    let scheduler = Scheduler::DominantShare(Unlock::OverTime(256 * HOUR));
    let mut city = City::new(30_000);
    city.options = EngineOptions { scheduler, ..EngineOptions::default() };
    let engine = city.with_rides("4");
    engine.submit_at(&principal("mia"), &frugal(COUNT), 0).expect("submitted");
    let attempts = |engine: &Engine| engine.run(1).expect("a run").attempts.len();
    for hour in 0..4 {
        city.seal_before(&engine, &format!("2026-01-01T{hour:02}:00"));
        engine.work(hour * HOUR).expect("no error");
        assert_eq!(attempts(&engine), 0, "at hour {hour} no block is old enough");
    }
    for hour in 4..7 {
        engine.work(hour * HOUR).expect("no error");
    }
    let run = engine.run(1).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted));
    engine.close().expect("closed");
    // The age of a block sealed before a start is unknown, so it is unlocked at once.
    let engine = city.open();
    let again =
        engine.submit_at(&principal("mia"), &frugal(&COUNT.replace("\"rides\"", "\"again\"")), 0).expect("submitted");
    engine.work(7 * HOUR).expect("no error");
    assert_eq!(engine.run(again).expect("a run").outcome(), Some(Outcome::Accepted));
}
