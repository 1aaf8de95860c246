//! Several metrics in one pipeline: from the pipeline file to a verdict that names each of them.

use sage_engine::AttemptOutcome;
use sage_engine::adapt::Outcome;
use sage_engine::pipeline::Pipeline;

use crate::city::{City, frugal, principal};
use crate::loops::{describe, pass_hours};

/// A wrong verdict of a metric has a probability of one in a million.
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
metric = "accuracy"
target = 0.3
confidence = 0.999999
[[validate.also]]
metric = "auc"
target = 0.55
bins = 16
[[validate.also]]
metric = "log_loss"
target = 4.5
bound = 5.0
[budget]
epsilon0 = "2"
"#;

#[test]
fn all_metrics_must_be_met_and_the_verdict_names_each() {
    let pipeline = Pipeline::parse(LONG_RIDES).expect("a pipeline");
    let validate = pipeline.validate.clone().expect("targets");
    let names: Vec<&str> = validate.all().map(|one| one.metric.kind().name).collect();
    assert_eq!(names, ["accuracy", "auc", "log_loss"]);
    assert_eq!(pipeline.clone().checked(), Ok(pipeline));

    let city = City::new(120_000);
    let engine = city.with_rides("16");
    // The second metric cannot be met.
    let unmet = LONG_RIDES.replace("long-rides", "unmet").replace("target = 0.55", "target = 0.99999");
    for text in [LONG_RIDES, &unmet] {
        engine.submit_at(&principal("mia"), &frugal(text), 0).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    pass_hours(&city, &engine, 1..24);
    for run in engine.runs() {
        assert_eq!(run.outcome() == Some(Outcome::Accepted), run.pipeline == "long-rides", "{}", describe(&run));
        let judged = run.attempts.iter().filter_map(|one| match &one.outcome {
            Some(AttemptOutcome::Judged(report)) => Some(report),
            _ => None,
        });
        let mut count = 0;
        for report in judged {
            count += 1;
            assert_eq!(report.estimates.len(), 3, "{report:?}");
            for name in ["accuracy (", "area under the ROC curve (", "logarithmic loss ("] {
                assert!(report.explanation.contains(name), "{name}: {}", report.explanation);
            }
        }
        assert!(count > 0, "{}", describe(&run));
    }
    let release = engine.release_named("long-rides").expect("released");
    let files = engine.release_files(&release).expect("its files");
    let has = |text: &str| files.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(text));
    assert!(has("at least 0.3; area under the ROC curve at least 0.55; mean logarithmic loss at most 4.5"));
    engine.close().expect("closed");
    // The log contains the pipeline file, and opening the directory parses it again.
    assert_eq!(city.open().runs().len(), 2);
}

#[test]
fn further_metrics_are_checked_with_the_file() {
    for (from, to, why) in [
        (
            "metric = \"auc\"\ntarget = 0.55\nbins = 16",
            "metric = \"mse\"\ntarget = 0.55\nbound = 1",
            "for this kind of [train]",
        ),
        ("metric = \"auc\"\ntarget = 0.55\nbins = 16", "metric = \"accuracy\"\ntarget = 0.55", "has a target already"),
        ("target = 0.55", "target = 0.55\nconfidence = 0.9", "no key `validate.also[0].confidence`"),
        ("target = 0.55", "better_than = \"constant\"", "no key `validate.also[0].better_than`"),
        ("target = 0.55", "target = 0.4", "above 0.5"),
        ("target = 4.5\nbound = 5.0", "target = 4.5", "bound"),
        ("target = 0.3", "better_than = \"long-rides@1\"", "further metrics are for models with a target"),
    ] {
        assert!(LONG_RIDES.contains(from), "{from}");
        let error = Pipeline::parse(&LONG_RIDES.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
    let median = "[pipeline]\nname = \"n\"\nstream = \"taxi\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n\
                  [validate]\nmetric = \"precision\"\ntarget = 9\n[[validate.also]]\nmetric = \"precision\"\ntarget = 5\n";
    let error = Pipeline::parse(median).expect_err("a statistic").to_string();
    assert!(error.contains("further metrics are for models"), "{error}");
}
