//! Hints for waiting runs, from public and released data.

use sage_engine::Hint;

use crate::city::{COUNT, City, LINE, SPEED, frugal, principal};

#[test]
fn a_waiting_run_states_the_number_of_blocks_it_needs() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let run = engine.submit_at(&principal("mia"), &frugal(LINE), 0).expect("submitted");
    let quick = engine.submit_at(&principal("mia"), &frugal(COUNT), 0).expect("submitted");
    assert_eq!(engine.hints(run).expect("a run"), [Hint::Blocks(4)]);
    city.seal_before(&engine, "2026-01-01T03:00");
    assert_eq!(engine.hints(run).expect("a run"), [Hint::Blocks(1)]);
    engine.work(1).expect("no error");
    assert_eq!(engine.hints(quick).expect("a run"), [], "it was accepted");
}

/// A reservation of an earlier run is named as the obstacle, until that run leaves.
#[test]
fn a_reservation_of_another_run_is_named() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let all = "\n[budget]\nepsilon0 = \"4\"\n";
    let wide = SPEED.replace("min = 2", "min = 40");
    let first = engine.submit_at(&mia, &frugal(&format!("{wide}{all}")), 0).expect("submitted");
    city.seal_before(&engine, "2026-01-01T03:00");
    let run = engine.submit_at(&mia, &frugal(&format!("{COUNT}{all}")), 0).expect("submitted");
    assert_eq!(engine.work(1).expect("no error"), 0, "there is not enough for both");
    assert_eq!(engine.hints(run).expect("a run"), [Hint::Share]);
    let waiting = engine.waiting(run).expect("a run").expect("it waits");
    assert_eq!((waiting.blocks, waiting.admit, waiting.free), (1, 3, 0));
    engine.stop_run(&mia, first).expect("stopped");
    assert_eq!(engine.hints(run).expect("a run"), [], "it runs when the loop comes to it");
    assert_eq!(engine.work(2).expect("no error"), 1);
}

#[test]
fn limits_and_reached_targets_are_named() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let precise = |name: &str, window: &str, rest: &str| {
        let text = SPEED.replace("speed-by-vendor", name).replace("target = 4.0", "target = 0.0001");
        let text = text.replace("window = { min = 2 }", &format!("window = {{ min = 2{window} }}"));
        engine.submit_at(&mia, &frugal(&format!("{text}\n{rest}\n")), 0).expect("submitted")
    };
    let small = precise("small", ", max = 4", "[budget]\nepsilon0 = \"0.5\"\nepsilon_max = \"0.5\"");
    let few = precise("few", "", "[adapt]\nattempts = 1");
    let still =
        precise("still", "", "[budget]\nepsilon0 = \"0.5\"\nepsilon_max = \"0.9\"\n[adapt]\ndata_doublings = 1");
    city.seal_before(&engine, "2026-01-02");
    engine.work(1).expect("no error");
    let target = |run: u64| {
        let all = engine.hints(run).expect("a run");
        let Some(Hint::Target(met)) = all.last().copied() else { panic!("{all:?}") };
        // The same from the released report.
        let run = engine.run(run).expect("a run");
        let report = run.last_report().expect("a report");
        let half = |one: &sage_engine::run::Interval| {
            let (low, value, high) =
                (one.low.expect("a limit"), one.value.expect("a value"), one.high.expect("a limit"));
            (high - value).max(value - low)
        };
        let widest = report.estimates.iter().map(half).fold(0.0, f64::max);
        assert!((met - widest).abs() < 1e-9 && met > 0.0001, "{met} {widest}");
        all[..all.len() - 1].to_vec()
    };
    assert_eq!(target(small), [Hint::Window(4), Hint::Budget]);
    assert_eq!(target(few), [Hint::Attempts(1)]);
    assert_eq!(target(still), [Hint::Doublings(1), Hint::Budget]);
}
