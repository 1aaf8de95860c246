//! Pipelines submitted together all end, and their loss stays within the policy.

use sage_engine::adapt::{End, Outcome, Verdict};
use sage_engine::{AttemptOutcome, Engine, EngineError, Epsilon, RunView};

use crate::city::{COUNT, City, LINE, NETWORK, SPEED, frugal, principal};

pub(crate) fn spent(engine: &Engine) -> Epsilon {
    engine.snapshot().expect("a snapshot").stream("taxi").expect("the stream").spent
}

/// A description of a run for failure messages.
pub(crate) fn describe(run: &RunView) -> String {
    let tries: Vec<String> = run.attempts.iter().map(|one| format!("{:?}", one.outcome)).collect();
    format!("{} is {}: {tries:#?}", run.pipeline, run.status())
}

/// Seals hour after hour and runs the loop after each.
pub(crate) fn pass_hours(city: &City, engine: &Engine, hours: std::ops::Range<u64>) {
    for hour in hours {
        city.seal_before(engine, &format!("2026-01-{:02}T{:02}:00", 1 + hour / 24, hour % 24));
        engine.work(hour * HOUR).expect("no error");
    }
}

pub(crate) const HOUR: u64 = 3_600_000;

#[test]
fn pipelines_submitted_together_are_all_released() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let runs = [LINE, NETWORK, SPEED, COUNT].map(|text| engine.submit_at(&mia, &frugal(text), 0).expect("submitted"));
    assert_eq!(runs, [1, 2, 3, 4]);
    assert_eq!(engine.work(1).expect("no error"), 0, "no block is sealed yet");
    pass_hours(&city, &engine, 1..24);
    for run in engine.runs() {
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
        assert_eq!(run.last_verdict(), Some(Verdict::Accept));
    }
    assert!(spent(&engine) <= Epsilon::ceiling("4").expect("a number"), "{}", spent(&engine));
    assert!(spent(&engine) > Epsilon::ZERO);
    let releases = engine.releases();
    assert_eq!(releases.len(), 4);
    let model = engine.release_named("duration-line").expect("released");
    let predictor = engine.predictor(&model).expect("a model");
    let names: Vec<&str> = predictor.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["pickup", "payment", "distance"], "neither the label nor the values beside the row");
    let statistic = engine.statistic(&engine.release_named("speed-by-vendor@1").expect("released")).expect("a table");
    assert_eq!(statistic.lines.len(), 2);
    assert!(statistic.lines.iter().all(|line| line.low <= line.value && line.value <= line.high), "{statistic:?}");
    engine.close().expect("closed");
    crate::real::audited(&city.path());
}

#[test]
fn a_count_is_that_of_all_rows() {
    let city = City::new(20_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-02-01");
    let all = COUNT.replace("stream = \"taxi\"", "stream = \"taxi\"\nwindow = { min = 5 }");
    let blocks = engine.snapshot().expect("a snapshot").blocks("taxi").expect("the stream").len();
    let all = all.replace("min = 5", &format!("min = {blocks}"));
    engine.submit_at(&principal("mia"), &frugal(&all), 0).expect("submitted");
    engine.work(1).expect("no error");
    let counted = engine.statistic(&engine.release_named("rides").expect("released")).expect("a number");
    let line = &counted.lines[0];
    let (low, high) = (line.low.expect("a limit"), line.high.expect("a limit"));
    // The true value is outside with probability 1/20, and this far outside with probability 10^-9.
    let margin = 4.0 * (high - low);
    assert!((low - margin..=high + margin).contains(&20_000.0), "{line:?}");
}

/// A label that no feature predicts: the seconds of the time, from the payment.
const HOPELESS: &str = r#"
[pipeline]
name = "seconds"
stream = "taxi"
label = { sql = "extract(second from pickup)", bounds = [0, 60] }
features = [{ column = "payment", onehot = ["card", "cash"] }]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 1.0
bound = 3600.0
reject = true
"#;

#[test]
fn an_unreachable_target_is_rejected() {
    let city = City::new(120_000);
    // With a quarter of this budget, the certificate of a day's rows is hidden by noise in one run of hundreds.
    let engine = city.with_rides("40");
    engine.submit_at(&principal("mia"), &frugal(HOPELESS), 0).expect("submitted");
    pass_hours(&city, &engine, 1..28);
    let run = engine.run(1).expect("the run");
    assert_eq!(run.outcome(), Some(Outcome::Rejected), "{}", describe(&run));
    assert!(engine.releases().is_empty());
}

/// A label that no feature predicts, for any learner: whether the second is odd, from the payment.
const HOPELESS_CLASS: &str = r#"
[pipeline]
name = "odd-seconds"
stream = "taxi"
label = { truth = "extract(second from pickup) % 2 = 1" }
features = [{ column = "payment", onehot = ["card", "cash"] }]
[train]
kind = "logistic"
rows = 3800
epochs = 1
[validate]
metric = "accuracy"
target = 0.9
reject = true
"#;

#[test]
fn an_accuracy_out_of_reach_is_rejected() {
    let city = City::new(120_000);
    let engine = city.with_rides("10");
    let number = "\"cash\"] }, { column = \"distance\", scale = [0, 100] }";
    let numbers = HOPELESS_CLASS.replace("\"cash\"] }", number);
    let refused = engine.submit_at(&principal("mia"), &frugal(&numbers), 0).expect_err("a number among the features");
    assert!(refused.to_string().contains("features that are all categorical"), "{refused}");
    let run = engine.submit_at(&principal("mia"), &frugal(HOPELESS_CLASS), 0).expect("submitted");
    pass_hours(&city, &engine, 1..28);
    let run = engine.run(run).expect("the run");
    assert_eq!(run.outcome(), Some(Outcome::Rejected), "{}", describe(&run));
    assert!(describe(&run).contains("no classifier that sees these features"), "{}", describe(&run));
    assert!(engine.releases().is_empty());
}

#[test]
fn a_run_ends_when_it_is_stopped_late_or_at_its_limits() {
    let city = City::new(40_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let precise = |name: &str, adapt: &str| {
        let text = SPEED.replace("speed-by-vendor", name).replace("target = 4.0", "target = 0.001");
        engine.submit_at(&mia, &frugal(&format!("{text}\n[adapt]\n{adapt}\n")), 0).expect("submitted")
    };
    let (stopped, late, few) =
        (precise("stopped", ""), precise("late", "timeout = \"3h\""), precise("few", "attempts = 2"));
    pass_hours(&city, &engine, 1..6);
    engine.stop_run(&mia, stopped).expect("stopped");
    assert!(matches!(engine.stop_run(&mia, stopped), Err(EngineError::RunOver(_))));
    assert!(matches!(engine.stop_run(&principal("dan"), late), Err(EngineError::NotInRole { .. })));
    pass_hours(&city, &engine, 6..8);
    let ended = |run: u64| engine.run(run).expect("a run").outcome();
    assert_eq!(ended(stopped), Some(Outcome::Stopped(End::Cancelled)));
    assert_eq!(ended(late), Some(Outcome::Stopped(End::TimedOut)));
    assert!(matches!(ended(few), Some(Outcome::Stopped(End::Limit(_)))));
    assert_eq!(engine.run(few).expect("a run").attempts.len(), 2);
    assert!(engine.releases().is_empty());
}

#[test]
fn a_periodic_pipeline_runs_again_on_new_blocks() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let daily = COUNT.replace("stream = \"taxi\"", "stream = \"taxi\"\nevery = \"2h\"");
    engine.submit_at(&principal("mia"), &frugal(&daily), 0).expect("submitted");
    pass_hours(&city, &engine, 1..8);
    let versions: Vec<u32> = engine.releases().iter().map(|release| release.version).collect();
    assert_eq!(versions, [1, 2, 3, 4]);
    // One block was sealed since; afterwards the clock alone adds none.
    for later in [100, 200, 300] {
        engine.work(later * HOUR).expect("no error");
        assert_eq!(engine.releases().len(), 5);
    }
}

#[test]
fn a_better_model_replaces_the_champion() {
    let city = City::new(120_000);
    let engine = city.with_rides("10");
    let mia = principal("mia");
    // A small clipping bound needs fewer rows to detect the difference of losses.
    let line = LINE.replace("bound = 1.0", "bound = 0.25");
    let challenger = line.replace("target = 0.1", "better_than = \"plain@champion\"");
    assert!(matches!(engine.submit_at(&mia, &frugal(&challenger), 0), Err(EngineError::NoRelease(_))));
    let plain = line
        .replace("duration-line", "plain")
        .replace("  { column = \"distance\", scale = [0, 30] },\n", "")
        .replace("target = 0.1", "target = 0.2");
    engine.submit_at(&mia, &frugal(&plain), 0).expect("submitted");
    pass_hours(&city, &engine, 1..10);
    let champion =
        engine.release_named("plain").unwrap_or_else(|_| panic!("{}", describe(&engine.run(1).expect("a run"))));
    engine.move_alias(&mia, &champion, "champion").expect("named");
    let other = challenger.replace("duration / 3600", "duration / 1800");
    assert!(matches!(engine.submit_at(&mia, &frugal(&other), 0), Err(EngineError::OtherLabel(_))));
    engine.submit_at(&mia, &frugal(&challenger), 0).expect("submitted");
    pass_hours(&city, &engine, 10..28);
    let run = engine.run(2).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    // No such model is better by nearly the whole bound.
    let far = challenger
        .replace("plain@champion\"", "plain@champion\"\nmargin = 0.2")
        .replace("\"duration-line\"", "\"far\"");
    let again = engine.submit_at(&mia, &frugal(&format!("{far}\n[adapt]\nattempts = 3\n")), 0).expect("submitted");
    engine.work(28 * HOUR).expect("no error");
    let far = engine.run(again).expect("a run");
    assert!(!far.attempts.is_empty() && far.outcome() != Some(Outcome::Accepted), "{}", describe(&far));
}

/// The champion is withdrawn while a challenger runs: its attempts fail before they read rows.
#[test]
fn failed_attempts_are_reported_and_end_the_run() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    engine
        .submit_at(&mia, &frugal(&LINE.replace("duration-line", "plain").replace("= 0.1", "= 0.5")), 0)
        .expect("submitted");
    pass_hours(&city, &engine, 1..6);
    let champion =
        engine.release_named("plain").unwrap_or_else(|_| panic!("{}", describe(&engine.run(1).expect("a run"))));
    let before = spent(&engine);
    let challenger = LINE.replace("target = 0.1", "better_than = \"plain@1\"");
    let run = engine.submit_at(&mia, &frugal(&challenger), 0).expect("submitted");
    engine.withdraw(&mia, &champion, "a test").expect("withdrawn");
    assert!(matches!(engine.release_named("plain@1"), Err(EngineError::Withdrawn(..))));
    pass_hours(&city, &engine, 6..12);
    let run = engine.run(run).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Failing)), "{}", describe(&run));
    assert_eq!(run.attempts.len(), 3);
    for one in &run.attempts {
        assert!(matches!(&one.outcome, Some(AttemptOutcome::Lost(reason)) if reason.contains("withdrawn")), "{one:?}");
    }
    assert_eq!(spent(&engine), before, "nothing was read, and nothing was spent");
}

/// A released table is a free input of another pipeline, and a released model is validated again on new blocks.
#[test]
fn releases_are_reused() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    engine.submit_at(&mia, &frugal(&SPEED.replace("target = 4.0", "target = 12.0")), 0).expect("submitted");
    pass_hours(&city, &engine, 1..8);
    let table = engine
        .release_named("speed-by-vendor")
        .unwrap_or_else(|_| panic!("{}", describe(&engine.run(1).expect("a run"))));
    let with = |release: &str| {
        let feature = format!("  {{ release = \"{release}\", by = \"vendor - 1\" }},\n]\n[train]");
        LINE.replace("]\n[train]", &feature)
    };
    let moving = engine.submit_at(&mia, &frugal(&with("speed-by-vendor@latest")), 0).expect_err("an alias can move");
    assert!(moving.to_string().contains("named with its version"), "{moving}");
    assert!(engine.submit_at(&mia, &frugal(&with("nothing@1")), 0).is_err());
    engine.submit_at(&mia, &frugal(&with(&format!("speed-by-vendor@{}", table.version))), 0).expect("submitted");
    pass_hours(&city, &engine, 8..20);
    let run = engine.run(2).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    let model = engine.predictor(&engine.release_named("duration-line").expect("released")).expect("a model");
    assert!(model.columns().iter().any(|column| column.name == "vendor"), "the table is part of the graph");

    let again = |target: &str| {
        let (label, rest) = LINE.split_once("window").expect("a window");
        let (_, validate) = rest.split_once("[validate]").expect("a target");
        let label = label.replace("duration-line", &format!("check-{}", target.len()));
        let filter = "filter = \"distance > 0 AND duration BETWEEN 60 AND 9000\"";
        let train = "[train]\nkind = \"release\"\nrelease = \"duration-line@1\"";
        let validate = validate.replace("target = 0.1", target);
        format!("{label}window = {{ min = 4 }}\n{filter}\n{train}\n[validate]{validate}")
    };
    let before = spent(&engine);
    let good = engine.submit_at(&mia, &frugal(&again("target = 0.2")), 0).expect("submitted");
    let bad = engine.submit_at(&mia, &frugal(&format!("{}\n[adapt]\nattempts = 2\n", again("target = 0.00001"))), 0);
    pass_hours(&city, &engine, 20..28);
    let good = engine.run(good).expect("a run");
    assert_eq!(good.outcome(), Some(Outcome::Accepted), "{}", describe(&good));
    assert!(good.last_report().is_some_and(|report| report.release.is_none()), "nothing new leaves");
    let bad = engine.run(bad.expect("submitted")).expect("a run");
    assert!(!bad.attempts.is_empty() && bad.outcome() != Some(Outcome::Accepted), "{}", describe(&bad));
    assert_eq!(engine.releases().len(), 2);
    assert!(spent(&engine) >= before);
}
