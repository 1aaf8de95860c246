//! What can be seen of a run without touching it: what it waits for, and what its attempts lose.

use sage_engine::EngineError;
use sage_engine::release::Kind;

use crate::city::{City, LINE, SPEED, somebody};

#[test]
fn a_waiting_run_says_for_what_and_then_waits_no_more() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let run = engine.submit(&somebody("mia"), LINE).expect("submitted");
    let waiting = engine.waiting(run).expect("a run").expect("it waits");
    assert_eq!((waiting.blocks, waiting.admit, waiting.sealed, waiting.deadline), (4, 0, 0, None));
    let preview = engine.preview(&somebody("mia"), LINE).expect("a preview");
    assert_eq!(waiting.epsilon, preview.first, "what it waits for is what was shown beforehand");
    city.seal_before(&engine, "2026-01-01T03:00");
    let waiting = engine.waiting(run).expect("a run").expect("it waits");
    assert_eq!((waiting.blocks, waiting.admit, waiting.sealed), (4, 3, 3));
    city.seal_before(&engine, "2026-01-02");
    engine.work(1).expect("nothing fails");
    assert_eq!(engine.run(run).expect("a run").status(), "accepted");
    assert_eq!(engine.waiting(run).expect("a run"), None);
    assert!(matches!(engine.waiting(9), Err(EngineError::NoRun(9))));
}

#[test]
fn what_an_attempt_loses_is_what_its_receipt_says() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    for text in [LINE, SPEED] {
        engine.submit(&somebody("mia"), text).expect("submitted");
    }
    engine.work(1).expect("nothing fails");
    for release in engine.releases() {
        let losses = engine.attempt_losses(release.run).expect("a run");
        let attempts = engine.run(release.run).expect("a run").attempts.len();
        assert_eq!(losses.len(), attempts);
        let files = engine.release_files(&release).expect("files");
        let (_, receipt) = files.iter().find(|(name, _)| name == "receipt.json").expect("a receipt");
        let receipt: serde_json::Value = serde_json::from_slice(receipt).expect("JSON");
        let lanes = receipt["epsilon"].as_array().expect("two lanes");
        let last = losses.last().copied().flatten().expect("a loss").to_string();
        assert!(lanes.iter().any(|lane| *lane == last.as_str()), "{last} is not in {receipt}");
    }
    assert_eq!(engine.releases().iter().filter(|release| release.kind == Kind::Model).count(), 1);
}

#[test]
fn files_that_were_changed_are_not_handed_out() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    engine.submit(&somebody("mia"), SPEED).expect("submitted");
    engine.work(1).expect("nothing fails");
    let release = engine.release_named("speed-by-vendor").expect("a release");
    assert_eq!(engine.release_files(&release).expect("files").len(), 3);
    let file = city.path().join("releases").join(&release.digest).join("receipt.json");
    std::fs::write(file, "{}").expect("changed");
    let refused = engine.release_files(&release).expect_err("changed files").to_string();
    assert!(refused.contains("are not those that were released"), "{refused}");
}
