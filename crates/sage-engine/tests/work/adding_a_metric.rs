//! A metric of another crate: registered, selected in a pipeline file, and measured until there is a verdict.

use std::sync::Arc;

use sage_engine::AttemptOutcome;
use sage_engine::adapt::Outcome;
use sage_engine::metrics::{Measured, Metric, MetricKind, MetricTaken, MetricTest, register};
use sage_engine::pipeline::Pipeline;

use crate::city::{City, frugal, principal};
use crate::loops::{describe, pass_hours};

/// The mean cost of wrong classes: a false alarm costs 1, a miss costs `weight`.
#[derive(Debug)]
struct MissCost {
    weight: f64,
}

const KIND: MetricKind = MetricKind {
    name: "miss_cost",
    title: "mean cost of wrong classes",
    heading: "cost of wrong classes",
    measured: Measured::Classes,
    keys: &["weight"],
    parse: |keys| {
        let weight = keys.number("weight", "a number from 1 to 100", None, |weight| (1.0..=100.0).contains(&weight))?;
        Ok(Arc::new(MissCost { weight }))
    },
};

impl Metric for MissCost {
    fn kind(&self) -> &'static MetricKind {
        &KIND
    }

    fn write_keys(&self, out: &mut String) {
        out.push_str(&format!("weight = {:?}\n", self.weight));
    }

    fn test(&self) -> MetricTest {
        MetricTest::MeanLoss { bound: self.weight }
    }

    fn loss(&self, label: f64, predicted: f64, _: f64) -> f64 {
        match (label >= 0.5, predicted >= 0.5) {
            (true, false) => self.weight,
            (false, true) => 1.0,
            _ => 0.0,
        }
    }
}

const LONG_RIDES: &str = r#"
[pipeline]
name = "long-rides"
stream = "taxi"
label = { truth = "duration > 60" }
window = { min = "4h" }
filter = "distance > 0 AND duration BETWEEN 30 AND 9000"
features = [{ column = "distance", scale = [0, 30] }]
[train]
kind = "logistic"
batch = 512
epochs = 2
learning_rate = 0.5
rows = 3500
[validate]
metric = "miss_cost"
target = 2.5
weight = 4.0
"#;

#[test]
fn a_registered_metric_runs_from_its_pipeline_file_to_a_verdict() {
    assert!(Pipeline::parse(LONG_RIDES).is_err(), "it is not registered yet");
    register(KIND).expect("a new name");
    assert_eq!(register(KIND), Err(MetricTaken("miss_cost")));
    assert_eq!(register(MetricKind { name: "accuracy", ..KIND }), Err(MetricTaken("accuracy")));
    let pipeline = Pipeline::parse(LONG_RIDES).expect("a pipeline");
    let keys = "metric = \"miss_cost\"\ntarget = 2.5\nweight = 4.0\ntest = \"kl\"\n";
    assert!(pipeline.to_text().contains(keys), "{}", pipeline.to_text());
    assert_eq!(pipeline.clone().checked(), Ok(pipeline));
    for (from, to, why) in [
        ("weight = 4.0", "weight = 0.5", "a number from 1 to 100"),
        ("weight = 4.0", "weigt = 4.0", "did you mean `weight`"),
        ("weight = 4.0", "weight = 4.0\nbound = 1.0", "it is a key of another metric"),
        ("metric = \"miss_cost\"", "metric = \"accuracy\"", "it is a key of another metric"),
        ("target = 2.5", "target = 5", "below `bound`"),
        ("weight = 4.0", "weight = 4.0\nreject = true", "rejection is available"),
    ] {
        let error = Pipeline::parse(&LONG_RIDES.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }

    let city = City::new(120_000);
    let engine = city.with_rides("4");
    engine.submit_at(&principal("mia"), &frugal(LONG_RIDES), 0).expect("submitted");
    pass_hours(&city, &engine, 1..24);
    let run = engine.runs().pop().expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    let Some(AttemptOutcome::Judged(report)) = run.attempts.last().and_then(|last| last.outcome.clone()) else {
        panic!("{}", describe(&run));
    };
    assert!(report.explanation.contains("the mean loss, cut at 4,"), "{}", report.explanation);
    let release = engine.release_named("long-rides").expect("released");
    let files = engine.release_files(&release).expect("its files");
    let has = |text: &str| files.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(text));
    assert!(has("mean cost of wrong classes") && has("at most 2.5"));
    engine.close().expect("closed");
    // The log contains the pipeline file, and opening the directory parses it again.
    assert_eq!(city.open().runs().len(), 1);
}
