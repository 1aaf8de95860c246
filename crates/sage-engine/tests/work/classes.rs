//! Labels with several classes, from the pipeline file to predictions by class name.

use std::collections::BTreeMap;

use sage_engine::adapt::Outcome;
use sage_engine::serve::Cell;
use sage_engine::{Engine, RunView};
use tempfile::TempDir;

use crate::city::principal;
use crate::loops::describe;
use crate::teams::with_rows;

const STREAM: &str = r#"
[stream]
name = "rides"
unit = "event"
time = "at"
blocks = { time = "1d" }

[policy]
epsilon = "16"
delta = "1e-6"
filter = "renyi"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "at"
type = "time"

[[columns]]
name = "x"
type = "number"
min = 0.0
max = 1.0

[[columns]]
name = "payment"
type = "category"
categories = ["card", "cash", "it's free", "lost"]
nullable = true
"#;

/// The classes follow from `x`. Half of the rows have no class: their payment is null or not listed.
fn rides() -> (TempDir, Engine) {
    let folder = tempfile::tempdir().expect("a directory");
    let mut lines = "at,x,payment\n".to_owned();
    for row in 0..40_000_u32 {
        let x = f64::from(row * 37 % 1000) / 1000.0;
        let class = ["card", "cash", "it's free"][(x * 3.0) as usize];
        let payment = if row % 2 == 0 { class } else { ["lost", ""][(row / 2 % 2) as usize] };
        lines.push_str(&format!("2026-11-01T10:00:00Z,{x},{payment}\n"));
    }
    let engine = with_rows(folder.path(), STREAM, "rides", &lines);
    (folder, engine)
}

const LABEL: &str = "{ column = \"payment\", classes = [\"cash\", \"card\", \"it's free\"] }";

fn pipeline(name: &str, label: &str, train: &str, validate: &str) -> String {
    format!(
        "[pipeline]\nname = \"{name}\"\nstream = \"rides\"\nlabel = {label}\n\
         features = [{{ column = \"x\", bucket = [0.3333, 0.6667] }}]\n[train]\n{train}\n[validate]\n{validate}\n\
         [budget]\nepsilon0 = \"2\"\nepsilon_max = \"2\"\n[adapt]\nattempts = 1\n"
    )
}

fn ran(engine: &Engine, text: &str, time: u64) -> RunView {
    let run = engine.submit_at(&principal("mia"), text, time).unwrap_or_else(|error| panic!("{error}: {text}"));
    engine.work(time + 1).expect("no error");
    engine.run(run).expect("a run")
}

/// The most probable class for this value of `x`, and the probabilities by name.
fn predicted(engine: &Engine, name: &str, x: f64) -> (String, BTreeMap<String, f32>) {
    let predictor = engine.predictor(&engine.release_named(name).expect("released")).expect("a model");
    let found = predictor.rows(&[vec![Cell::Number(x)]]).expect("a prediction");
    let class = predictor.class(&found).expect("a class").to_owned();
    (class, predictor.classes().iter().cloned().zip(found).collect())
}

/// The classes are separable and the budget is large, so models are far better than their targets. The noise of a test has a
/// deviation of some ten rows and would have to move more than three hundred of the two thousand tested ones for another
/// verdict; that of a training would have to outweigh the six thousand rows of each bucket. Of 32 units some see each
/// bucket, however they begin. Rows without a listed class are left out: counted as any class they would halve the
/// accuracy.
#[test]
fn classes_are_learned_tested_and_predicted_by_name() {
    let (_folder, engine) = rides();
    let accuracy = "metric = \"accuracy\"\ntarget = 0.8";
    let better = "metric = \"log_loss\"\nbetter_than = \"constant\"\nmargin = 0.1\nbound = 3.0";
    let champion = "metric = \"log_loss\"\nbetter_than = \"again@1\"\nmargin = 2.5\nbound = 3.0";
    let (logistic, mlp) = ("kind = \"logistic\"\nrows = 18000", "kind = \"mlp\"\nlayers = [32]\nrows = 18000");
    for (index, (name, train, validate)) in
        [("line", logistic, accuracy), ("again", logistic, better), ("net", mlp, accuracy)].into_iter().enumerate()
    {
        let run = ran(&engine, &pipeline(name, LABEL, train, validate), 10 * index as u64);
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{name}: {}", describe(&run));
        for (x, class) in [(0.1, "card"), (0.5, "cash"), (0.9, "it's free")] {
            let (found, chances) = predicted(&engine, name, x);
            assert_eq!(found, class, "{name}: {chances:?}");
            assert!((chances.values().sum::<f32>() - 1.0).abs() < 1e-5, "{chances:?}");
        }
    }
    // No model is better than a good one by most of the bound.
    let run = ran(&engine, &pipeline("worse", LABEL, logistic, champion), 40);
    assert_ne!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
}

#[test]
fn labels_with_classes_are_checked_before_anything_is_charged() {
    let (_folder, engine) = rides();
    let accuracy = "metric = \"accuracy\"\ntarget = 0.8";
    let logistic = "kind = \"logistic\"\nrows = 18000";
    let refused = |label: &str, train: &str, validate: &str| {
        let text = pipeline("refused", label, train, validate);
        engine.preview(&principal("mia"), &text).expect_err(label).to_string()
    };
    for (label, train, validate, parts) in [
        (LABEL, "kind = \"ridge\"", "metric = \"mse\"\ntarget = 0.1\nbound = 1.0", ["regression", "label"]),
        ("{ column = \"payment\", classes = [\"card\"] }", logistic, accuracy, ["2 to 64", "classes"]),
        ("{ column = \"payment\", classes = [\"card\", \"card\"] }", logistic, accuracy, ["different", "classes"]),
        ("{ column = \"payment\" }", logistic, accuracy, ["classes", "missing"]),
        ("{ column = \"paiment\", classes = [\"card\", \"cash\"] }", logistic, accuracy, ["paiment", "payment"]),
        ("{ column = \"x\", classes = [\"0\", \"1\"] }", logistic, accuracy, ["needs a text", "is a number"]),
        ("\"payment\"", logistic, accuracy, ["classes = [...]", "payment"]),
    ] {
        let found = refused(label, train, validate);
        assert!(parts.iter().all(|part| found.contains(part)), "{label}: {found}");
    }
}
