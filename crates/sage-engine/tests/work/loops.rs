//! Pipelines submitted together come to an end, and what they lose stays within the policy.

use sage_engine::adapt::{Outcome, Verdict};
use sage_engine::{Engine, Epsilon};

use crate::city::{COUNT, City, LINE, NETWORK, SPEED, somebody};

fn spent(engine: &Engine) -> Epsilon {
    engine.snapshot().expect("a snapshot").stream("taxi").expect("the stream").spent
}

#[test]
fn pipelines_submitted_together_are_all_released() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let mia = somebody("mia");
    let runs: Vec<u64> =
        [LINE, NETWORK, SPEED, COUNT].map(|text| engine.submit(&mia, text).expect("submitted")).to_vec();
    assert_eq!(runs, [1, 2, 3, 4]);
    assert_eq!(engine.work(1).expect("nothing fails"), 0, "no block is sealed yet");
    for hour in 1..24 {
        city.seal_before(&engine, &format!("2026-01-01T{hour:02}:00"));
        engine.work(hour).expect("nothing fails");
    }
    for run in engine.runs() {
        let told: Vec<String> = run.attempts.iter().map(|one| format!("{:?}", one.outcome)).collect();
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{} {}: {told:#?}", run.pipeline, run.status());
        assert_eq!(run.last_verdict(), Some(Verdict::Accept));
    }
    assert!(spent(&engine) <= Epsilon::ceiling("4").expect("a number"), "{}", spent(&engine));
    assert_eq!(engine.releases().len(), 4);
}
