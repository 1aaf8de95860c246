//! Attempts say how far they are, in public steps, and end when their time is over or their memory would not do.

use std::time::Duration;

use sage_engine::adapt::{End, Limit, Outcome};
use sage_engine::run::Stage;
use sage_engine::{AttemptLimits, AttemptOutcome, Engine, EngineError, Epsilon, Places, ProgressView};

use crate::city::{City, LINE, NETWORK, SPEED, somebody};
use crate::loops::{spent, told};

fn of_run(engine: &Engine, run: u64) -> Vec<ProgressView> {
    engine.progress(0, usize::MAX).into_iter().filter(|one| one.run == run).collect()
}

#[test]
fn an_attempt_says_where_it_is() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let mia = somebody("mia");
    for text in [NETWORK, LINE, SPEED] {
        engine.submit_at(&mia, text, 0).expect("submitted");
    }
    city.seal_before(&engine, "2026-01-02");
    let before = engine.log_length().expect("a log");
    engine.work(1).expect("nothing fails");
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

/// What is told of an attempt is the same whatever its rows are: one whose filter leaves none says the same.
#[test]
fn progress_tells_nothing_of_rows() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let mia = somebody("mia");
    let nobody = NETWORK.replace("distance > 0", "distance > 100000").replace("duration-network", "nobody");
    let runs = [NETWORK, &nobody].map(|text| engine.submit_at(&mia, text, 0).expect("submitted"));
    city.seal_before(&engine, "2026-01-01T04:00");
    engine.work(1).expect("nothing fails");
    let said = runs.map(|run| {
        let first = of_run(&engine, run).into_iter().filter(|one| one.attempt == 1);
        first.map(|one| (one.stage, one.percent)).collect::<Vec<_>>()
    });
    assert_eq!(said[0], said[1]);
    assert!(said[0].len() > 10, "{said:?}");
}

#[test]
fn an_attempt_over_its_time_is_stopped_and_told_of() {
    let mut city = City::new(40_000);
    let time = Some(Duration::ZERO);
    city.places = Places { limits: AttemptLimits { time, memory_bytes: None }, ..Places::default() };
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    engine.submit_at(&somebody("mia"), NETWORK, 0).expect("submitted");
    engine.work(1).expect("nothing fails");
    let run = engine.run(1).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Limit(Limit::Time))), "{}", told(&run));
    assert_eq!(run.attempts.len(), 1, "the next would take as long, and is not paid for");
    let Some(AttemptOutcome::Lost(reason)) = &run.attempts[0].outcome else { panic!("{}", told(&run)) };
    assert!(reason.contains("its time was over"), "{reason}");
    assert!(spent(&engine) > Epsilon::ZERO, "it had read rows");
    let kinds: Vec<&str> = engine.events(0, 10_000).expect("events").iter().map(|event| event.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "burnt").count(), 1);
    assert!(engine.releases().is_empty());
}

/// A run that somebody stops does not go on to the end of its training.
#[test]
fn a_stopped_run_ends_at_a_step() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    let long = NETWORK.replace("epochs = 2", "epochs = 1000");
    engine.submit_at(&somebody("mia"), &long, 0).expect("submitted");
    let job = engine.next_job(1).expect("nothing fails").expect("an attempt");
    engine.stop_run(&somebody("mia"), 1).expect("stopped");
    engine.perform(job).expect("nothing fails");
    let steps = of_run(&engine, 1).iter().filter(|one| one.percent.is_some()).count();
    assert!(steps <= 1, "{:?}", of_run(&engine, 1));
    assert_eq!(engine.run(1).expect("a run").status(), "cancelled");
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_is_charged() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let mia = somebody("mia");
    let with = |text: &str, megabytes: u32| format!("{text}\n[limits]\nmemory_megabytes = {megabytes}\n");
    let wide = NETWORK.replace("layers = [16]", "layers = [4096, 4096]");
    for text in [with(&wide, 500), with(&NETWORK.replace("rows = 3500", "rows = 900000000"), 500)] {
        for refused in [engine.preview(&mia, &text).err(), engine.submit_at(&mia, &text, 0).err()] {
            let Some(EngineError::Plan(why)) = refused else { panic!("{refused:?}") };
            let why = why.to_string();
            assert!(why.contains("million bytes of memory") && why.contains("memory_megabytes"), "{why}");
        }
    }
    engine.preview(&mia, &with(&wide, 5000)).expect("enough");
    // The first window fits, the one that it would grow to does not.
    let growing = NETWORK.replace("rows = 3500", "rows = 2000000").replace("target = 0.1", "target = 0.000001");
    let growing = growing.replace("epochs = 2", "epochs = 0.01");
    let run = engine.submit_at(&mia, &with(&growing, 300), 0).expect("the first window fits");
    city.seal_before(&engine, "2026-01-01T09:00");
    engine.work(1).expect("nothing fails");
    let run = engine.run(run).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Limit(Limit::Memory))), "{}", told(&run));
    assert_eq!(run.attempts.len(), 1, "{}", told(&run));
}
