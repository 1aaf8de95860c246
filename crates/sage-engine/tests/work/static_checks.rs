//! Mistakes that do not depend on rows are refused before anything is charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sage_engine::adapt::{End, Outcome};
use sage_engine::learners::{FitError, FittedModel, Fitting, Learner, LearnerKind, Targets, TrainingBudget, register};
use sage_engine::plan::{Inputs, PlanRefusal};
use sage_engine::{AttemptOutcome, Engine, Lane, Mechanism, Session};
use sage_learn::encode::{Encoded, Example};
use sage_learn::statistics::Mean;
use sage_model::bundle::{Activation, Fields, Graph, Layer, Link, Shape, Weights};

use crate::city::{COUNT, City, LINE, NETWORK, SPEED, principal};
use crate::loops::{HOUR, describe, pass_hours, spent};

/// Refuses a pipeline in `plan` and in `submit`, with this text, and without a run or a charge.
fn assert_refused(engine: &Engine, text: &str, words: &[&str]) {
    let before = spent(engine);
    let runs = engine.runs().len();
    let mia = principal("mia");
    let planned = engine.preview(&mia, text).map(|_| ()).expect_err(text).to_string();
    let submitted = engine.submit_at(&mia, text, 0).map(|_| ()).expect_err(text).to_string();
    assert_eq!(planned, submitted);
    for word in words {
        assert!(planned.contains(word), "{word:?} is not in {planned:?}");
    }
    assert_eq!((engine.runs().len(), spent(engine)), (runs, before));
}

#[test]
fn types_that_do_not_fit_their_encoder_are_refused() {
    let city = City::new(1_000);
    let engine = city.with_rides("4");
    let distance = "{ column = \"distance\", scale = [0, 30] }";
    let payment = "{ column = \"payment\", onehot = [\"card\", \"cash\"] }";
    for (from, to, words) in [
        (
            distance,
            "{ column = \"payment\", name = \"p\", scale = [0, 30] }",
            ["p: `scale` needs a number", "is a text"],
        ),
        (distance, "{ column = \"payment\", name = \"p\", bucket = [1, 2] }", ["p: `bucket` needs a number", "onehot"]),
        (payment, "{ column = \"payment\", name = \"p\", hash = 64 }", ["p: `hash` needs a whole number", "onehot"]),
        (payment, "{ column = \"payment\", name = \"p\", onehot = 4 }", ["p: `onehot` with these", "is a text"]),
        (payment, "{ column = \"distance\", name = \"p\", onehot = [\"card\"] }", ["needs a text", "is a number"]),
        (
            "group_mean = \"3600 * distance / duration\"",
            "group_mean = \"payment\"",
            ["`group_mean` needs", "is a text"],
        ),
    ] {
        assert!(LINE.contains(from), "{from}");
        assert_refused(&engine, &LINE.replace(from, to), &words);
    }
    let label = LINE.replace(
        "label = { sql = \"duration / 3600\", bounds = [0, 2.5] }",
        "label = { sql = \"payment\", bounds = [0, 2.5] }",
    );
    assert_refused(&engine, &label, &["label: ", "it needs numbers"]);
    let statistic = r#"
[pipeline]
name = "mean-payment"
stream = "taxi"
window = { min = "4h" }
[train]
kind = "statistic"
statistic = "mean"
of = "payment"
bounds = [0, 2.5]
"#;
    assert_refused(&engine, statistic, &["of: the statistic needs a number", "is a text"]);
}

#[test]
fn models_that_are_too_large_are_refused() {
    let city = City::new(1_000);
    let engine = city.with_rides("4");
    let wide = LINE.replace(
        "{ column = \"distance\", scale = [0, 30] }",
        "{ sql = \"extract(second from pickup)\", name = \"wide\", hash = 1000000 }",
    );
    assert_refused(&engine, &wide, &["features: the features have 1000", "at most 4095", "kind = \"mlp\""]);
    let deep = NETWORK.replace("layers = [16]", "layers = [65536, 65536, 65536]");
    assert_refused(&engine, &deep, &["train: "]);
}

/// The noise of a count is known before anything is read.
#[test]
fn targets_below_the_noise_are_refused() {
    let city = City::new(1_000);
    let engine = city.with_rides("4");
    let target = |target: &str, most: &str| {
        format!(
            "{COUNT}\n[validate]\nmetric = \"precision\"\ntarget = {target}\n[budget]\nepsilon0 = 0.01\nepsilon_max = {most}\n"
        )
    };
    assert!(!COUNT.contains("[validate]") && !COUNT.contains("[budget]"), "{COUNT}");
    assert_refused(&engine, &target("1", "0.02"), &["validate.target: 1 cannot be reached", "epsilon_max"]);
    engine.preview(&principal("mia"), &target("1000000", "0.02")).expect("a target that the noise allows");
}

/// Every kind of pipeline of these tests passes its rehearsal, which reads no rows: there are none.
#[test]
fn a_rehearsal_needs_no_rows() {
    let city = City::new(1_000);
    let engine = city.with_rides("4");
    for text in [LINE, NETWORK, SPEED, COUNT] {
        engine.preview(&principal("mia"), text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }
    assert!(engine.runs().is_empty());
}

/// Whether [`Broken`] fails.
static FAILS: AtomicBool = AtomicBool::new(false);

/// A constant model, whose training fails while [`FAILS`] is set.
#[derive(Debug)]
struct Broken;

const KIND: LearnerKind = LearnerKind { name: "broken", keys: &[], parse: |_| Ok(Arc::new(Broken)) };

impl Learner for Broken {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn write_keys(&self, _: &mut String) {}

    fn targets(&self) -> Targets {
        Targets::Numbers
    }

    fn mechanisms(&self, _: &Inputs, budget: &TrainingBudget<'_>) -> Result<Vec<Mechanism>, PlanRefusal> {
        Ok(Mean { bounds: (0.0, 1.0), noise: budget.table_noise(1)? }.mechanisms())
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
        if FAILS.load(Ordering::SeqCst) {
            return Err(FitError::new("the learner is broken"));
        }
        let noise = fitting.table_noise(0).ok_or_else(|| FitError::new("the charge is not one of a table"))?;
        let mean = Mean { bounds: (0.0, 1.0), noise };
        mean.run(session, Lane::Train, 0.05, |row| f64::from(row.label)).map_err(FitError::new)?;
        Ok(Box::new(Zero { inputs: fitting.inputs.encoding().layout().inputs() as usize }))
    }
}

struct Zero {
    inputs: usize,
}

impl FittedModel for Zero {
    fn predictor(&self) -> Box<dyn Fn(&Example<'_>) -> f64 + '_> {
        Box::new(|_| 0.0)
    }

    fn graph(self: Box<Self>, fields: Fields, _: Option<(f64, f64)>) -> Result<Graph, FitError> {
        let layer = Layer { weights: vec![0.0; self.inputs], bias: vec![0.0] };
        let shape = Shape { outputs: 1, activation: Activation::Identity };
        let weights = Weights { embeddings: Vec::new(), layers: vec![layer], arrays: Vec::new() };
        fields.with_layers(vec![shape], weights, Link::Identity).map_err(FitError::new)
    }
}

/// Regression: a pipeline whose training always fails was charged three times.
#[test]
fn a_failing_training_is_refused_or_charged_once() {
    register(KIND).expect("a new name");
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    let text = LINE.replace("kind = \"ridge\"", "kind = \"broken\"");
    FAILS.store(true, Ordering::SeqCst);
    assert_refused(&engine, &text, &["rehearsal: an attempt fails on synthetic rows", "the learner is broken"]);
    FAILS.store(false, Ordering::SeqCst);
    let run = engine.submit_at(&principal("mia"), &text, 0).expect("it passes its rehearsal");
    FAILS.store(true, Ordering::SeqCst);
    pass_hours(&city, &engine, 1..12);
    engine.work(12 * HOUR).expect("no error");
    let run = engine.run(run).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Failing)), "{}", describe(&run));
    let outcomes: Vec<_> = run.attempts.iter().map(|one| one.outcome.clone()).collect();
    let [Some(AttemptOutcome::Lost(reason))] = &outcomes[..] else { panic!("{}", describe(&run)) };
    assert_eq!(reason, "the learner is broken");
}
