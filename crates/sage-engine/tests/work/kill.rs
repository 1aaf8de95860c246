//! The worker is killed repeatedly: it resumes where it was, spends nothing twice and releases nothing twice.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sage_engine::adapt::{End, Outcome};
use sage_engine::doctor::Doctor;
use sage_engine::{AttemptOutcome, Engine, EngineOptions, Epsilon, Opened, RunView};

use crate::city::{COUNT, City, LINE, NETWORK, SPEED, frugal, principal};
use crate::loops::{describe, pass_hours, spent};

/// A charged attempt is performed as charged, even if its price has changed since: here because a census has counted
/// the blocks, as a later release might for other reasons. Regression: it was requested again under the same key at the
/// new price, which the ledger rightly refused as another request.
#[test]
fn a_charged_attempt_is_performed_as_it_was_charged() {
    let city = City::new(60_000);
    let counted = "census = { epsilon = \"1\", horizon = 8 }\nblocks = {";
    let file =
        sage_engine::generate::TAXI.replacen("blocks = {", counted, 1).replace("epsilon = \"1.0\"", "epsilon = \"16\"");
    let engine = city.with_file(&file);
    // The declared number of rows differs from the census.
    for text in [&NETWORK.replace("rows = 3500", "rows = 1000"), LINE] {
        engine.submit_at(&principal("mia"), &frugal(text), 0).expect("submitted");
    }
    city.seal_before(&engine, "2026-01-01T06:00");
    for run in [1, 2] {
        let job = engine.next_job(1).expect("no error").expect("an attempt is charged");
        assert_eq!(job.run(), run);
    }
    let charged = spent(&engine);
    engine.count_sealed("taxi").expect("counted");
    let counted = spent(&engine);
    assert!(counted > charged, "counts cost");
    engine.close().expect("closed");
    let engine = city.open();
    for run in [1, 2] {
        let job = engine.next_job(2).expect("no error").expect("the attempt that was charged");
        assert_eq!((job.run(), job.attempt().serial), (run, 1));
        engine.perform(job).expect("no error");
        let run = engine.run(run).expect("a run");
        assert!(matches!(run.attempts[0].outcome, Some(AttemptOutcome::Judged(_))), "{}", describe(&run));
    }
    assert_eq!(spent(&engine), counted, "nothing is charged twice");
}

/// The environment variable that marks the child process.
const DIRECTORY: &str = "SAGE_WORK_DIRECTORY";

/// Not a test by itself: the work of the child processes.
#[test]
fn act_as_child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let Ok(Opened::Ready(engine)) = Engine::open(Path::new(&directory), &EngineOptions::default()) else {
        panic!("a sound directory")
    };
    let sealed = engine.snapshot().expect("a snapshot").stream("taxi").expect("the stream").blocks[1].1 as u64;
    // The hour continues from the last sealed block, so that a child finds the state that the last one left.
    for hour in sealed.max(1)..HOURS {
        seal(&engine, hour);
        engine.work(hour).expect("no error");
    }
    println!("done");
}

const HOURS: u64 = 24;

fn seal(engine: &Engine, hour: u64) {
    let time = sage_engine::stream::parse_time(&format!("2026-01-01T{hour:02}:00")).expect("a time");
    let over = engine.open_before("taxi", time).expect("a stream");
    if !over.is_empty() {
        engine.seal(&principal("dan"), "taxi", &over).expect("sealed");
    }
}

/// Starts a child, kills it after a delay, and returns whether it was finished before.
fn killed(directory: &Path, after: Duration) -> bool {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "kill::act_as_child", "--nocapture"]).env(DIRECTORY, directory);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("this program again");
    let mut output = child.stdout.take().expect("piped");
    let listener = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text.contains("done"))
    });
    let end = Instant::now() + after;
    while Instant::now() < end && child.try_wait().expect("a child of ours").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The child may have exited already.
    let _ = child.kill();
    child.wait().expect("a child of ours");
    listener.join().expect("no panic").unwrap_or(false)
}

/// A pseudo-random number, from a seed that failures report.
fn random_below(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn the_loop_can_be_killed_at_any_time() {
    let rounds = if std::env::var_os("SAGE_SOAK").is_some() { 200 } else { 25 };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let mut random = seed;
    let mut kills = 0;
    while kills < rounds {
        let city = City::new(110_000);
        let engine = city.with_rides("6");
        for text in [LINE, NETWORK, SPEED, COUNT] {
            engine.submit_at(&principal("mia"), &frugal(text), 0).expect("submitted");
        }
        engine.close().expect("closed");
        let mut done = false;
        while !done && kills < rounds {
            // Opening takes a few milliseconds; most kills hit the work after it.
            done = killed(&city.path(), Duration::from_millis(20 + random_below(&mut random, 400)));
            kills += 1;
            check(&city, seed);
        }
        while !killed(&city.path(), Duration::from_secs(60)) {}
        finished(&city, seed);
    }
    println!("{kills} kills, seed {seed}");
}

/// The invariants after every kill.
fn check(city: &City, seed: u64) {
    let doctor = Doctor::examine(&city.path(), &city.options).expect("a sound log");
    let left: Vec<String> = doctor.repair().expect("repaired").iter().map(ToString::to_string).collect();
    assert!(left.is_empty(), "seed {seed}: {left:?}");
    let engine = city.open();
    assert!(spent(&engine) <= Epsilon::ceiling("6").expect("a number"), "seed {seed}");
    let mut released = BTreeMap::new();
    for run in engine.runs() {
        each_attempt_once(&run, seed);
        let accepted = run.outcome() == Some(Outcome::Accepted);
        *released.entry(run.pipeline.clone()).or_insert(0) += usize::from(accepted);
    }
    for release in engine.releases() {
        let left = released.get_mut(&release.name).filter(|left| **left > 0);
        *left.unwrap_or_else(|| panic!("seed {seed}: {} was released and not accepted", release.name)) -= 1;
    }
    assert!(released.values().all(|left| *left == 0), "seed {seed}: accepted and not released: {released:?}");
}

/// Choices are numbered without gaps, all but the last have ended, and each report belongs to its attempt.
fn each_attempt_once(run: &RunView, seed: u64) {
    for (index, one) in run.attempts.iter().enumerate() {
        assert_eq!(one.attempt.serial, index as u64 + 1, "seed {seed}: {}", describe(run));
        let last = index + 1 == run.attempts.len();
        assert!(last || one.outcome.is_some(), "seed {seed}: {}", describe(run));
        if let Some(AttemptOutcome::Judged(report)) = &one.outcome {
            assert_eq!((report.run, report.serial), (run.number, one.attempt.serial), "seed {seed}");
        }
    }
}

/// After the last start every run has ended.
fn finished(city: &City, seed: u64) {
    check(city, seed);
    let engine = city.open();
    pass_hours(city, &engine, HOURS..HOURS + 1);
    for run in engine.runs() {
        // Kills cost budget, so a run may have reached its limits instead; it must not hang.
        let under_way = run.attempts.last().is_some_and(|last| last.outcome.is_none());
        assert!(!under_way, "seed {seed}: {}", describe(&run));
        let lost = run.attempts.iter().filter(|one| matches!(one.outcome, Some(AttemptOutcome::Lost(_)))).count();
        // A run that was planned at three kills in a row is considered their cause.
        let crashed = run.outcome() == Some(Outcome::Stopped(End::Crashed));
        assert!(run.outcome() == Some(Outcome::Accepted) || lost > 0 || crashed, "seed {seed}: {}", describe(&run));
    }
    engine.close().expect("closed");
    crate::real::audited(&city.path());
}
