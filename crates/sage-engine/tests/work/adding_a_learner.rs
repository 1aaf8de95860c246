//! A learner of another crate: registered, selected in a pipeline file, trained, released and used for prediction.

use std::sync::Arc;

use sage_engine::adapt::Outcome;
use sage_engine::learners::{
    FitError, FittedModel, Fitting, KindTaken, Learner, LearnerKind, Targets, TrainingBudget, register,
};
use sage_engine::pipeline::Pipeline;
use sage_engine::plan::{Inputs, PlanRefusal};
use sage_engine::serve::Cell;
use sage_engine::{Engine, Lane, Mechanism, Session};
use sage_learn::encode::{Encoded, Example};
use sage_learn::statistics::Mean;
use sage_model::bundle::{Activation, Fields, Graph, Layer, Link, Shape, Weights};

use crate::city::{City, frugal, principal};
use crate::loops::{describe, pass_hours};

/// Predicts the private mean of the label for every row.
#[derive(Debug)]
struct MeanLearner {
    /// The prediction if no row has a label, from 0 to 1.
    prior: f64,
}

const KIND: LearnerKind = LearnerKind {
    name: "mean",
    keys: &["prior"],
    parse: |keys| {
        let fits = |prior: f64| (0.0..=1.0).contains(&prior);
        Ok(Arc::new(MeanLearner { prior: keys.number("prior", "a number from 0 to 1", Some(0.5), fits)? }))
    },
};

impl Learner for MeanLearner {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn write_keys(&self, out: &mut String) {
        out.push_str(&format!("prior = {:?}\n", self.prior));
    }

    fn targets(&self) -> Targets {
        Targets::Numbers
    }

    fn mechanisms(&self, _: &Inputs, budget: &TrainingBudget<'_>) -> Result<Vec<Mechanism>, PlanRefusal> {
        let noise = budget.table_noise(1)?;
        Ok(Mean { bounds: (0.0, 1.0), noise }.mechanisms())
    }

    fn matches_charge(&self, _: &Inputs, charged: &[Mechanism]) -> bool {
        charged.len() == 1
    }

    fn memory_bytes(&self, _: &Inputs) -> f64 {
        0.0
    }

    fn training_seconds(&self, _: &Inputs, rows: f64) -> f64 {
        1e-6 * rows
    }

    fn fit(&self, session: &mut Session<Encoded>, fitting: &Fitting<'_>) -> Result<Box<dyn FittedModel>, FitError> {
        let noise = fitting.table_noise(0).ok_or_else(|| FitError::new("the charge is not one of a table"))?;
        let mean = Mean { bounds: (0.0, 1.0), noise };
        let estimate = mean.run(session, Lane::Train, 0.05, |row| f64::from(row.label)).map_err(FitError::new)?;
        let inputs = fitting.inputs.encoding().layout().inputs() as usize;
        Ok(Box::new(Constant { value: estimate.value.unwrap_or(self.prior), inputs }))
    }
}

/// The fitted model: one number, whatever the inputs.
struct Constant {
    value: f64,
    inputs: usize,
}

impl FittedModel for Constant {
    fn predictor(&self) -> Box<dyn Fn(&Example<'_>) -> f64 + '_> {
        Box::new(|_| self.value)
    }

    fn graph(self: Box<Self>, fields: Fields, label: Option<(f64, f64)>) -> Result<Graph, FitError> {
        let (low, high) = label.unwrap_or((0.0, 1.0));
        let layer = Layer { weights: vec![0.0; self.inputs], bias: vec![(low + self.value * (high - low)) as f32] };
        let shape = Shape { outputs: 1, activation: Activation::Identity };
        let weights = Weights { embeddings: Vec::new(), layers: vec![layer], arrays: Vec::new() };
        fields.with_layers(vec![shape], weights, Link::Identity).map_err(FitError::new)
    }
}

const MEAN: &str = r#"
[pipeline]
name = "duration-mean"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
window = { min = "4h" }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
features = [{ column = "distance", scale = [0, 30] }]
[train]
kind = "mean"
prior = 0.25
[validate]
metric = "mse"
target = 0.5
bound = 1.0
"#;

/// The same mean as a statistic.
const STATISTIC: &str = r#"
[pipeline]
name = "mean-duration"
stream = "taxi"
window = { min = "4h" }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
[train]
kind = "statistic"
statistic = "mean"
of = "duration / 3600"
bounds = [0, 2.5]
"#;

fn predicted(engine: &Engine, distance: f64) -> f32 {
    let predictor = engine.predictor(&engine.release_named("duration-mean").expect("released")).expect("a model");
    let names: Vec<&str> = predictor.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["distance"]);
    predictor.rows(&[vec![Cell::Number(distance)]]).expect("a prediction")[0]
}

#[test]
fn a_registered_learner_runs_from_its_pipeline_file_to_a_prediction() {
    assert!(Pipeline::parse(MEAN).is_err(), "it is not registered yet");
    register(KIND).expect("a new name");
    assert_eq!(register(KIND), Err(KindTaken("mean")));
    assert_eq!(register(LearnerKind { name: "command", ..KIND }), Err(KindTaken("command")));
    let pipeline = Pipeline::parse(MEAN).expect("a pipeline");
    assert!(pipeline.to_text().contains("kind = \"mean\"\nprior = 0.25\n"), "{}", pipeline.to_text());
    assert_eq!(pipeline.clone().checked(), Ok(pipeline));
    for (from, to, why) in [
        ("prior = 0.25", "prior = 2", "a number from 0 to 1"),
        ("prior = 0.25", "priors = 0.25", "did you mean `prior`"),
        ("metric = \"mse\"", "metric = \"log_loss\"", "\"mse\" or \"absolute\""),
    ] {
        let error = Pipeline::parse(&MEAN.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }

    let city = City::new(120_000);
    let engine = city.with_rides("4");
    for text in [MEAN, STATISTIC] {
        engine.submit_at(&principal("mia"), &frugal(text), 0).expect("submitted");
    }
    pass_hours(&city, &engine, 1..24);
    for run in engine.runs() {
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    }
    let released = engine.release_named("mean-duration").expect("released");
    let expected = engine.statistic(&released).expect("a number").lines[0].value.expect("a mean");
    let found = predicted(&engine, 3.0);
    assert!((f64::from(found) - expected).abs() < 0.05, "{found} {expected}");
    assert_eq!(found, predicted(&engine, 20.0));
    engine.close().expect("closed");
    // The log contains the pipeline file, and opening the directory parses it again.
    assert_eq!(predicted(&city.open(), 3.0), found);
}
