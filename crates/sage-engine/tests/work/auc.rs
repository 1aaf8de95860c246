//! `metric = "auc"`: from the pipeline file to a verdict.

use sage_engine::AttemptOutcome;
use sage_engine::adapt::Outcome;
use sage_engine::pipeline::Pipeline;

use crate::city::{City, frugal, principal};
use crate::loops::{describe, pass_hours};

/// A wrong verdict has a probability of one in a million.
const LONG_RIDES: &str = r#"
[pipeline]
name = "long-rides"
stream = "taxi"
label = { truth = "duration > 600" }
window = { min = "8h" }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
features = [{ column = "distance", scale = [0, 8] }]
[train]
kind = "logistic"
rows = 3500
[validate]
metric = "auc"
target = 0.55
bins = 16
confidence = 0.999999
[budget]
epsilon0 = "2"
"#;

#[test]
fn a_ranking_is_tested_from_its_pipeline_file_to_a_verdict() {
    let pipeline = Pipeline::parse(LONG_RIDES).expect("a pipeline");
    assert!(pipeline.to_text().contains("metric = \"auc\"\ntarget = 0.55\nbins = 16\n"), "{}", pipeline.to_text());
    assert_eq!(pipeline.clone().checked(), Ok(pipeline));
    for (from, to, why) in [
        ("target = 0.55", "target = 0.5", "above 0.5 and below 1"),
        ("target = 0.55", "target = 1", "above 0.5 and below 1"),
        ("target = 0.55", "better_than = \"constant\"", "has a target"),
        ("bins = 16", "bins = 1", "a whole number from 2 to 1024"),
        ("bins = 16", "bins = 2.5", "a whole number from 2 to 1024"),
        ("target = 0.55", "target = 0.55\nbound = 1.0", "not a loss"),
        ("target = 0.55", "target = 0.55\nreject = true", "rejection is available"),
        ("\"auc\"", "\"accuracy\"", "it is a key of another metric"),
    ] {
        let error = Pipeline::parse(&LONG_RIDES.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }

    let city = City::new(120_000);
    let engine = city.with_rides("16");
    let blind = LONG_RIDES.replace("long-rides", "blind").replace(
        "{ column = \"distance\", scale = [0, 8] }",
        "{ sql = \"0 * distance\", name = \"nothing\", scale = [0, 1] }",
    );
    for text in [LONG_RIDES, &blind] {
        engine.submit_at(&principal("mia"), &frugal(text), 0).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    pass_hours(&city, &engine, 1..24);
    for run in engine.runs() {
        assert_eq!(run.outcome() == Some(Outcome::Accepted), run.pipeline == "long-rides", "{}", describe(&run));
        let judged = run.attempts.iter().filter_map(|one| match &one.outcome {
            Some(AttemptOutcome::Judged(report)) => Some(report),
            _ => None,
        });
        for report in judged {
            assert!(report.explanation.contains("the area under the ROC curve"), "{}", report.explanation);
            let constant = report.best_constant.expect("the area of a constant");
            assert_eq!((constant.low, constant.value, constant.high), (Some(0.5), Some(0.5), Some(0.5)));
            assert!(!report.explanation.contains("Warning"), "{}", report.explanation);
        }
    }
    let release = engine.release_named("long-rides").expect("released");
    let files = engine.release_files(&release).expect("its files");
    let has = |text: &str| files.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(text));
    assert!(has("area under the ROC curve") && has("at least 0.55"));
}
