//! Attempts report their progress in public steps, and end at their time limit or if their memory is too large.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sage_engine::adapt::{End, Limit, Outcome};
use sage_engine::run::Stage;
use sage_engine::{AttemptLimits, AttemptOutcome, Engine, EngineError, EngineOptions, Epsilon, ProgressView};

use crate::city::{City, LINE, NETWORK, SPEED, frugal, principal};
use crate::loops::{describe, spent};

fn of_run(engine: &Engine, run: u64) -> Vec<ProgressView> {
    engine.progress(0, usize::MAX).into_iter().filter(|one| one.run == run).collect()
}

#[test]
fn an_attempt_reports_its_stage() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    for text in [NETWORK, LINE, SPEED] {
        engine.submit_at(&mia, &frugal(text), 0).expect("submitted");
    }
    city.seal_before(&engine, "2026-01-02");
    let before = engine.log_length().expect("a log");
    engine.work(1).expect("no error");
    let events = engine.events(before, 10_000).expect("events");
    assert!(events.iter().all(|event| event.kind != "progress"), "the log has none of it");
    let stages = |run: u64| -> Vec<(Stage, Option<u8>)> {
        let first = of_run(&engine, run).into_iter().filter(|one| one.attempt == 1);
        first.map(|one| (one.stage, one.percent)).collect()
    };
    let network = stages(1);
    assert_eq!(network[..3], [(Stage::Charged, None), (Stage::Reading, None), (Stage::Training, None)], "{network:?}");
    let steps: Vec<u8> = network.iter().filter_map(|(_, percent)| *percent).collect();
    assert_eq!(steps, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90], "tenths of the planned steps, each once");
    assert_eq!(network[network.len() - 2..], [(Stage::Validating, None), (Stage::Releasing, None)]);
    let all = [Stage::Charged, Stage::Reading, Stage::Training, Stage::Validating, Stage::Releasing];
    for run in [2, 3] {
        assert_eq!(stages(run), all.map(|stage| (stage, None)), "without steps there is no share of them");
    }
    let everything = engine.progress(0, usize::MAX);
    assert!(everything.iter().zip(0..).all(|(one, number)| one.number == number), "numbered without gaps");
    assert_eq!(engine.progress_length(), everything.len() as u64);
    assert_eq!(engine.progress(3, 2), everything[3..5]);
    assert!(engine.progress(engine.progress_length(), 9).is_empty());
}

/// The progress of an attempt does not depend on its rows: an attempt whose filter excludes all rows reports the same.
#[test]
fn progress_reveals_nothing_about_rows() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let empty = NETWORK.replace("distance > 0", "distance > 100000").replace("duration-network", "empty");
    let runs = [NETWORK, &empty].map(|text| engine.submit_at(&mia, &frugal(text), 0).expect("submitted"));
    city.seal_before(&engine, "2026-01-01T04:00");
    engine.work(1).expect("no error");
    let reported = runs.map(|run| {
        let first = of_run(&engine, run).into_iter().filter(|one| one.attempt == 1);
        first.map(|one| (one.stage, one.percent)).collect::<Vec<_>>()
    });
    assert_eq!(reported[0], reported[1]);
    assert!(reported[0].len() > 10, "{reported:?}");
}

/// The duration of an attempt depends on rows, so an attempt over its time limit fails like any other one without a
/// result: the reason names no time, and the run ends by the rule for failed attempts, not with a verdict.
#[test]
fn an_attempt_over_its_time_is_burnt_without_a_verdict() {
    let mut city = City::new(40_000);
    let time = Some(Duration::from_micros(100));
    city.options = EngineOptions { limits: AttemptLimits { time, memory_bytes: None }, ..EngineOptions::default() };
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    // The number of its rows is not public, so there is no estimate.
    engine.submit_at(&principal("mia"), &frugal(SPEED), 0).expect("submitted");
    engine.work(1).expect("no error");
    let run = engine.run(1).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Failing)), "{}", describe(&run));
    for attempt in &run.attempts {
        let Some(AttemptOutcome::Lost(reason)) = &attempt.outcome else { panic!("{}", describe(&run)) };
        assert!(reason.starts_with("it ended without a result"), "{reason}");
        assert!(!reason.chars().any(|sign| sign.is_ascii_digit()), "{reason}");
    }
    assert!(spent(&engine) > Epsilon::ZERO, "it had read rows");
    let kinds: Vec<&str> = engine.events(0, 10_000).expect("events").iter().map(|event| event.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "burnt").count(), run.attempts.len());
    assert!(engine.releases().is_empty());
}

/// If a stream publishes results at intervals, attempts end at intervals too, and their stages are not shown.
#[test]
fn an_attempt_ends_at_an_interval() {
    let mut city = City::new(20_000);
    city.options = EngineOptions { interval: Some(Duration::from_secs(2)), ..EngineOptions::default() };
    let file = sage_engine::generate::TAXI.replace("[policy]", "answers = \"at-interval\"\n\n[policy]");
    let engine = city.with_file(&file);
    city.seal_before(&engine, "2026-01-02");
    engine.submit_at(&principal("mia"), &frugal(crate::city::COUNT), 0).expect("submitted");
    engine.work(1).expect("no error");
    assert_eq!(engine.run(1).expect("a run").outcome(), Some(Outcome::Accepted));
    let events = engine.events(0, 10_000).expect("events");
    let interval = |kind: &str| events.iter().find(|event| event.kind == kind).expect(kind).time / 2_000;
    assert!(interval("released") > interval("charged"), "released within the interval in which it was computed");
    assert!(of_run(&engine, 1).is_empty(), "stages of the attempt are not shown");
}

/// A length of intervals of which one ends in some seconds and the next one much later.
fn interval_that_ends_soon() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let ends_soon = |length: &u64| (5..=10).contains(&(length - now % length));
    Duration::from_secs((60..6_000).find(ends_soon).expect("one of so many lengths ends soon"))
}

/// Regression: a process killed while an attempt waited for its interval counted as a crash of the run.
#[test]
fn an_attempt_that_waits_for_its_interval_is_not_under_way() {
    let mut city = City::new(20_000);
    city.options = EngineOptions { interval: Some(interval_that_ends_soon()), ..EngineOptions::default() };
    let file = sage_engine::generate::TAXI.replace("[policy]", "answers = \"at-interval\"\n\n[policy]");
    let engine = city.with_file(&file);
    city.seal_before(&engine, "2026-01-02");
    engine.submit_at(&principal("mia"), &frugal(crate::city::COUNT), 0).expect("submitted");
    let job = engine.next_job(1).expect("no error").expect("an attempt");
    let working = engine.path().join("working");
    let waits = std::thread::scope(|scope| {
        let performing = scope.spawn(|| engine.perform(job));
        let mut waits = false;
        while !performing.is_finished() {
            waits |= std::fs::read_to_string(&working).is_ok_and(|text| text.starts_with("1 - "));
            std::thread::sleep(Duration::from_millis(2));
        }
        performing.join().expect("no panic").expect("no error");
        waits
    });
    assert!(waits, "it was under way until the interval was over");
    assert_eq!(engine.run(1).expect("a run").outcome(), Some(Outcome::Accepted));
}

/// A stopped run does not continue to the end of its training.
#[test]
fn a_stopped_run_ends_at_a_step() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    let long = NETWORK.replace("epochs = 2", "epochs = 1000");
    engine.submit_at(&principal("mia"), &frugal(&long), 0).expect("submitted");
    let job = engine.next_job(1).expect("no error").expect("an attempt");
    engine.stop_run(&principal("mia"), 1).expect("stopped");
    engine.perform(job).expect("no error");
    let steps = of_run(&engine, 1).iter().filter(|one| one.percent.is_some()).count();
    assert!(steps <= 1, "{:?}", of_run(&engine, 1));
    assert_eq!(engine.run(1).expect("a run").status(), "cancelled");
}

#[test]
fn attempts_over_the_memory_limit_are_refused_before_the_charge() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let with = |text: &str, megabytes: u32| format!("{text}\n[limits]\nmemory_megabytes = {megabytes}\n");
    let wide = NETWORK.replace("layers = [16]", "layers = [4096, 4096]");
    for text in [with(&wide, 500), with(&NETWORK.replace("rows = 3500", "rows = 900000000"), 500)] {
        for refused in [engine.preview(&mia, &text).err(), engine.submit_at(&mia, &frugal(&text), 0).err()] {
            let Some(EngineError::Plan(why)) = refused else { panic!("{refused:?}") };
            let why = why.to_string();
            assert!(why.contains("million bytes of memory") && why.contains("memory_megabytes"), "{why}");
        }
    }
    engine.preview(&mia, &with(&wide, 5000)).expect("enough");
    // The first window fits, the one that it would grow to does not.
    let growing = NETWORK.replace("rows = 3500", "rows = 2000000").replace("target = 0.1", "target = 0.000001");
    let growing = growing.replace("epochs = 2", "epochs = 0.01");
    let run = engine.submit_at(&mia, &frugal(&with(&growing, 300)), 0).expect("the first window fits");
    city.seal_before(&engine, "2026-01-01T09:00");
    engine.work(1).expect("no error");
    let run = engine.run(run).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Limit(Limit::Memory))), "{}", describe(&run));
    assert_eq!(run.attempts.len(), 1, "{}", describe(&run));
}

/// Regression: an attempt whose estimated time exceeds the limit was charged up to three times before the run gave up.
#[test]
fn attempts_over_the_time_limit_are_refused_before_the_charge() {
    let mia = principal("mia");
    let with = |text: &str, time: &str| format!("{text}\n[limits]\ntime = \"{time}\"\n");
    let long = NETWORK.replace("epochs = 2", "epochs = 100000").replace("rows = 3500", "rows = 350000");
    let growing = NETWORK.replace("rows = 3500", "rows = 100000000").replace("target = 0.1", "target = 0.000001");
    let growing = with(&growing.replace("epochs = 2", "epochs = 0.001"), "20m");
    // The estimate uses the declared number of rows, not the true one.
    let seen = [40_000, 60_000].map(|rides| {
        let city = City::new(rides);
        let engine = city.with_rides("4");
        let [preview, submitted] = [
            engine.preview(&mia, &with(&long, "1h")).map(|_| ()),
            engine.submit_at(&mia, &frugal(&with(&long, "1h")), 0).map(|_| ()),
        ]
        .map(|refused| {
            let Err(EngineError::Plan(why)) = refused else { panic!("{refused:?}") };
            why.to_string()
        });
        assert!(preview.contains("seconds by its public sizes") && preview.contains("--attempt-time"), "{preview}");
        engine.preview(&mia, &with(NETWORK, "1m")).expect("enough");
        // The first window fits, the one that it would grow to does not.
        let run = engine.submit_at(&mia, &frugal(&growing), 0).expect("the first window fits");
        city.seal_before(&engine, "2026-01-01T09:00");
        engine.work(1).expect("no error");
        let run = engine.run(run).expect("a run");
        assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Limit(Limit::Time))), "{}", describe(&run));
        let kinds: Vec<&str> = engine.events(0, 10_000).expect("events").iter().map(|event| event.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "charged").count(), run.attempts.len(), "{kinds:?}");
        assert_eq!(run.attempts.len(), 1, "{}", describe(&run));
        (preview, submitted, run.status())
    });
    assert_eq!(seen[0], seen[1]);
}
