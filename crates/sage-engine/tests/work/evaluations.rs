//! Views of a run: what it waits for, and the loss of its attempts.

use sage_engine::EngineError;
use sage_engine::release::Kind;

use crate::city::{City, LINE, SPEED, frugal, principal};
use crate::loops::HOUR;

#[test]
fn a_waiting_run_states_what_it_waits_for() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let run = engine.submit(&principal("mia"), &frugal(LINE)).expect("submitted");
    let waiting = engine.waiting(run).expect("a run").expect("it waits");
    let four_weeks = engine.run(run).expect("a run").submitted + 28 * 24 * HOUR;
    assert_eq!((waiting.blocks, waiting.admit, waiting.sealed, waiting.deadline), (4, 0, 0, Some(four_weeks)));
    let preview = engine.preview(&principal("mia"), &frugal(LINE)).expect("a preview");
    assert_eq!(waiting.epsilon, preview.first, "what it waits for is what was shown beforehand");
    city.seal_before(&engine, "2026-01-01T03:00");
    let waiting = engine.waiting(run).expect("a run").expect("it waits");
    assert_eq!((waiting.blocks, waiting.admit, waiting.sealed), (4, 3, 3));
    city.seal_before(&engine, "2026-01-02");
    engine.work(1).expect("no error");
    assert_eq!(engine.run(run).expect("a run").status(), "accepted");
    assert_eq!(engine.waiting(run).expect("a run"), None);
    assert!(matches!(engine.waiting(9), Err(EngineError::NoRun(9))));
}

#[test]
fn the_loss_of_an_attempt_equals_its_receipt() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    for text in [LINE, SPEED] {
        engine.submit(&principal("mia"), &frugal(text)).expect("submitted");
    }
    engine.work(1).expect("no error");
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
fn reservations_are_shown_while_a_run_waits() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-01T03:00");
    let sealed = |engine: &sage_engine::Engine| engine.set_aside("taxi").expect("a stream")[..3].to_vec();
    assert_eq!(sealed(&engine), [[0, 0]; 3], "no run waits");
    let run = engine.submit(&principal("mia"), &frugal(LINE)).expect("submitted");
    assert_eq!(sealed(&engine), [[1000, 1000]; 3], "one who waits has everything");
    let shares = engine.set_aside("taxi").expect("a stream");
    assert_eq!(shares.len(), engine.snapshot().expect("a snapshot").blocks("taxi").expect("blocks").len());
    assert_eq!(shares[3], [0, 0], "an open block has no reservations");
    let first = engine.snapshot().expect("a snapshot").blocks("taxi").expect("blocks")[0].key.clone();
    engine.retire(&principal("ada"), "taxi", std::slice::from_ref(&first)).expect("retired");
    assert_eq!(sealed(&engine), [[0, 0], [1000, 1000], [1000, 1000]]);
    engine.stop_run(&principal("mia"), run).expect("stopped");
    assert_eq!(sealed(&engine), [[0, 0]; 3]);
    assert!(matches!(engine.set_aside("none"), Err(EngineError::NoStream(_))));
}

#[test]
fn a_block_knows_who_read_it() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-01T04:00");
    let run = engine.submit(&principal("mia"), &frugal(SPEED)).expect("submitted");
    engine.work(1).expect("no error");
    let attempts = engine.run(run).expect("a run").attempts;
    let (_, newest) = attempts[0].blocks.last().expect("blocks");
    let on: Vec<(u64, usize)> = (0..attempts.len()).map(|index| (run, index)).collect();
    assert_eq!(engine.attempts_on("taxi", newest), on, "every attempt reads the newest block");
    assert_eq!(engine.attempts_on("taxi", "hour=2026-01-01T09"), []);
    assert_eq!(engine.attempts_on("none", newest), []);
}

#[test]
fn a_log_that_was_changed_on_the_disk_is_found_while_it_is_in_use() {
    let city = City::new(2_000);
    let engine = city.with_rides("4");
    let head = engine.snapshot().expect("a snapshot").head();
    assert_eq!(engine.verify_log().expect("sound"), head);
    let store = rusqlite::Connection::open(city.path().join("log.db")).expect("a database");
    for (change, back) in [
        ("UPDATE record SET time = time + 1 WHERE number = 1", "UPDATE record SET time = time - 1 WHERE number = 1"),
        ("UPDATE record SET number = 1000 WHERE number = 1", "UPDATE record SET number = 1 WHERE number = 1000"),
    ] {
        store.execute_batch(change).expect("a change");
        let message = engine.verify_log().expect_err("found").to_string();
        assert!(message.contains("record 1 of the log is not what was written"), "{change}: {message}");
        store.execute_batch(back).expect("a change");
        assert_eq!(engine.verify_log().expect("sound again"), head);
    }
}

#[test]
fn files_that_were_changed_are_not_handed_out() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-02");
    engine.submit(&principal("mia"), &frugal(SPEED)).expect("submitted");
    engine.work(1).expect("no error");
    let release = engine.release_named("speed-by-vendor").expect("a release");
    assert_eq!(engine.release_files(&release).expect("files").len(), 3);
    let file = city.path().join("releases").join(&release.digest).join("receipt.json");
    std::fs::write(file, "{}").expect("changed");
    let refused = engine.release_files(&release).expect_err("changed files").to_string();
    assert!(refused.contains("were changed after the release"), "{refused}");
}
