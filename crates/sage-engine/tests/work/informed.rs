//! The informed strategy on the engine: forecasts from released reports, from submission to release.

use sage_engine::RunView;
use sage_engine::adapt::Outcome;

use crate::city::{COUNT, City, LINE, NETWORK, SPEED, principal};
use crate::loops::{describe, pass_hours, spent};

const INFORMED: &str = "[adapt]\nstrategy = \"informed\"\n";
const PRECISE_COUNT: &str = "[validate]\nmetric = \"precision\"\ntarget = 300\n";

/// The blocks of all attempts together.
fn blocks(run: &RunView) -> u32 {
    run.attempts.iter().map(|one| one.attempt.window).sum()
}

/// A model with an unlucky first attempt may still wait for rows when the day is over; the count never does.
#[test]
fn informed_pipelines_are_released_or_wait() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    for text in [LINE, NETWORK, SPEED, &format!("{COUNT}{PRECISE_COUNT}")] {
        engine.submit_at(&mia, &format!("{text}{INFORMED}"), 0).expect("submitted");
    }
    pass_hours(&city, &engine, 1..25);
    for run in engine.runs() {
        println!("{}: {} attempts on {} blocks", run.pipeline, run.attempts.len(), blocks(&run));
        let waits = run.outcome().is_none() && run.pipeline != "rides";
        assert!(waits || run.outcome() == Some(Outcome::Accepted), "{}", describe(&run));
        assert!(!run.attempts.is_empty(), "{}", describe(&run));
    }
    engine.close().expect("closed");
    crate::real::audited(&city.path());
}

/// The half-width of a count follows from its noise: one attempt is made, or none.
#[test]
fn a_count_is_not_tried_where_it_cannot_pass() {
    let city = City::new(20_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    city.seal_before(&engine, "2026-02-01");
    let impossible = PRECISE_COUNT.replace("300", "0.000001");
    let text = format!("{COUNT}{impossible}{INFORMED}").replace("\"rides\"", "\"impossible\"");
    let refused = engine.submit_at(&mia, &text, 0).expect_err("refused").to_string();
    assert!(refused.contains("cannot be reached"), "{refused}");
    assert!(engine.runs().is_empty() && spent(&engine) == sage_engine::Epsilon::ZERO);
    let text = format!("{COUNT}{PRECISE_COUNT}{INFORMED}");
    let preview = engine.preview(&mia, &text).expect("a plan");
    assert!(preview.forecast.iter().any(|line| line.blocks.is_some()), "{:?}", preview.forecast);
    let once = engine.submit_at(&mia, &text, 2).expect("submitted");
    engine.work(3).expect("no error");
    let run = engine.run(once).expect("a run");
    assert_eq!((run.outcome(), run.attempts.len()), (Some(Outcome::Accepted), 1), "{}", describe(&run));
}

/// A target that no model reaches does not use up the stream, and the report shows what is uncertain.
#[test]
fn an_unreachable_target_does_not_use_up_the_stream() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let text = LINE.replace("target = 0.1", "target = 0.001").replace("duration-line", "too-good");
    let number = engine.submit_at(&principal("mia"), &format!("{text}{INFORMED}"), 0).expect("submitted");
    pass_hours(&city, &engine, 1..25);
    let run = engine.run(number).expect("a run");
    let report = run.last_report().expect("a report");
    println!("{} after {} attempts, spent {}", run.status(), run.attempts.len(), spent(&engine));
    // Absent if the noise hides the estimate.
    let parts = report.uncertainty;
    assert!(parts.is_none_or(|parts| parts.sampling >= 0.0 && parts.noise >= 0.0), "{parts:?}");
    assert_ne!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    assert!(spent(&engine) <= sage_engine::Epsilon::ceiling("1").expect("a number"), "{}", describe(&run));
}
