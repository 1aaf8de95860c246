//! A released model that is tested again: on newer blocks only, with an alarm that only a pass ends.

use sage_engine::adapt::Outcome;
use sage_engine::{Engine, ReleaseView};

use crate::city::{City, LINE, frugal, principal};
use crate::loops::{describe, pass_hours};

/// The pipeline that tests the released line again, with this target.
fn again(name: &str, target: &str) -> String {
    let (label, rest) = LINE.split_once("window").expect("a window");
    let (_, validate) = rest.split_once("[validate]").expect("a target");
    let label = label.replace("duration-line", name);
    let filter = "filter = \"distance > 0 AND duration BETWEEN 60 AND 9000\"";
    let train = "[train]\nkind = \"release\"\nrelease = \"duration-line@1\"";
    // A wrong verdict has a probability of one in a million.
    let validate = validate.replace("target = 0.1", &format!("{target}\nconfidence = 0.999999"));
    format!(
        "{label}window = {{ min = 2 }}\n{filter}\n{train}\n[validate]{validate}\n[budget]\nepsilon0 = \"1\"\n[adapt]\nattempts = 1\n"
    )
}

fn released(engine: &Engine) -> ReleaseView {
    engine.release_named("duration-line@1").expect("released")
}

fn has_event(engine: &Engine, kind: &str, run: u64) -> bool {
    let events = engine.events(0, usize::MAX).expect("the log");
    events.iter().any(|event| event.kind == kind && event.run == Some(run))
}

#[test]
fn a_failed_test_raises_an_alarm_that_only_a_pass_ends() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let line = LINE.replace("target = 0.1\n", "target = 0.5\n");
    engine.submit_at(&mia, &frugal(&line), 0).expect("submitted");
    pass_hours(&city, &engine, 1..8);
    assert_eq!(engine.run(1).and_then(|run| run.outcome()), Some(Outcome::Accepted));
    assert_eq!(released(&engine).failing, None);
    let blocks =
        |run: u64| engine.run(run).expect("a run").attempts.iter().flat_map(|one| one.blocks.clone()).collect();
    let trained: Vec<(String, String)> = blocks(1);
    let newest = trained.iter().map(|(_, last)| last.clone()).max().expect("blocks");

    let submit =
        |name: &str, target: &str| engine.submit_at(&mia, &frugal(&again(name, target)), 0).expect("submitted");
    let failed = submit("check-one", "target = 0.00001");
    pass_hours(&city, &engine, 8..12);
    let run = engine.run(failed).expect("a run");
    assert!(run.outcome().is_some_and(|outcome| outcome != Outcome::Accepted), "{}", describe(&run));
    let tested: Vec<(String, String)> = blocks(failed);
    assert!(!tested.is_empty() && tested.iter().all(|(first, _)| *first > newest), "{tested:?}, after {newest}");
    assert_eq!(released(&engine).failing, Some(failed));
    assert!(has_event(&engine, "retest-failed", failed) && !has_event(&engine, "retest-passed", failed));

    // A test that is stopped proves nothing, and another failure keeps the first run.
    let stopped = submit("check-two", "target = 0.5");
    engine.stop_run(&mia, stopped).expect("stopped");
    assert_eq!(released(&engine).failing, Some(failed));
    let failed_again = submit("check-three", "target = 0.00001");
    pass_hours(&city, &engine, 12..16);
    assert!(has_event(&engine, "retest-failed", failed_again) && !has_event(&engine, "retest-failed", stopped));
    assert_eq!(released(&engine).failing, Some(failed));

    let passed = submit("check-four", "target = 0.5");
    pass_hours(&city, &engine, 16..20);
    let run = engine.run(passed).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    assert!(has_event(&engine, "retest-passed", passed));
    assert_eq!(released(&engine).failing, None);

    // The state is a fold of the log.
    let last = submit("check-five", "target = 0.00001");
    pass_hours(&city, &engine, 20..24);
    assert_eq!(released(&engine).failing, Some(last));
    engine.close().expect("closed");
    assert_eq!(released(&city.open()).failing, Some(last));
}
