//! `better_than = "constant"`: a model that is no better than the best constant prediction is not accepted.

use sage_engine::adapt::Outcome;
use sage_engine::pipeline::Pipeline;
use sage_engine::{AttemptOutcome, RunView};

use crate::city::{City, LINE, frugal, principal};
use crate::loops::{describe, pass_hours};

/// Two classes, of which one is rare: predicting the frequent one is nearly always right.
const RARE: &str = r#"
[pipeline]
name = "rare"
stream = "taxi"
label = { truth = "duration > 120" }
window = { min = "4h" }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
features = [{ sql = "0 * distance", name = "nothing", scale = [0, 1] }]
[train]
kind = "logistic"
batch = 512
epochs = 2
learning_rate = 0.5
rows = 3500
[validate]
metric = "accuracy"
target = 0.7
"#;

fn explanations(run: &RunView) -> Vec<String> {
    let judged = run.attempts.iter().filter_map(|one| match &one.outcome {
        Some(AttemptOutcome::Judged(report)) => Some(report.explanation.clone()),
        _ => None,
    });
    judged.collect()
}

/// A model without information meets a loose target as a constant does, and is not better than the best constant.
#[test]
fn a_constant_meets_a_target_but_not_the_comparison_with_the_best_constant() {
    let city = City::new(120_000);
    // With so much budget, noise alone makes no model better than the best constant.
    let engine = city.with_rides("16");
    let blind = LINE.replace("duration-line", "blind").replace(
        "{ column = \"distance\", scale = [0, 30] },",
        "{ sql = \"0 * distance\", name = \"nothing\", scale = [0, 1] },",
    );
    let start = blind.find("  { sql = \"extract(hour").expect("a feature");
    let end = blind.find("]\n[train]").expect("the end of the features");
    let blind = format!("{}{}", &blind[..start], &blind[end..]);
    let blind = blind.replace("target = 0.1\n", "target = 0.5\n");
    let versus = |text: &str, target: &str, name: &str| {
        assert!(text.contains(target), "{text}");
        let own = text.replace(target, "better_than = \"constant\"");
        let own = own.replacen("name = \"", &format!("name = \"{name}-"), 1);
        format!("{own}[adapt]\nattempts = 4\n")
    };
    let texts = [
        blind.clone(),
        // A target that a constant meets for any rows.
        RARE.replace("target = 0.7", "target = 0.5"),
        versus(&blind, "target = 0.5", "constant"),
        versus(RARE, "target = 0.7", "constant"),
    ];
    for text in &texts {
        engine.submit_at(&principal("mia"), &frugal(text), 0).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    pass_hours(&city, &engine, 1..24);
    let runs = engine.runs();
    for (run, accepted) in runs.iter().zip([true, true, false, false]) {
        assert_eq!(run.outcome() == Some(Outcome::Accepted), accepted, "{}", describe(run));
        let compares = run.pipeline.starts_with("constant-");
        let said = explanations(run);
        let last = said.last().unwrap_or_else(|| panic!("{}", describe(run)));
        assert_eq!(last.contains("Warning: some constant"), run.pipeline == "rare", "{last}");
        for one in said {
            assert_eq!(one.contains("mean loss less that of the best constant"), compares, "{one}");
        }
    }
}

/// The value of the best constant is beside the model's in the report, on the receipt and on the card, for every learner;
/// a model that sees nothing has a warning; and the next plan with such a target has one too.
#[test]
fn a_release_says_what_the_best_constant_reaches() {
    let city = City::new(120_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    // A wrong limit has a probability of one in a million.
    let sure = |text: &str| text.replace("[validate]\n", "[validate]\nconfidence = 0.999999\n");
    let blind = sure(&RARE.replace("target = 0.7", "target = 0.6"));
    let line = sure(LINE).replace("target = 0.1\n", "target = 0.5\n");
    assert_eq!(engine.preview(&mia, &blind).expect("a plan").warnings, Vec::<String>::new());
    for text in [&blind, &line] {
        engine.submit_at(&mia, &frugal(text), 0).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    pass_hours(&city, &engine, 1..24);
    for run in engine.runs() {
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
        let Some(AttemptOutcome::Judged(report)) = run.attempts.last().and_then(|last| last.outcome.clone()) else {
            panic!("{}", describe(&run));
        };
        let constant = report.best_constant.unwrap_or_else(|| panic!("{}", describe(&run)));
        assert!(constant.low <= constant.value && constant.value <= constant.high, "{constant:?}");
        assert!(report.explanation.contains("The same metric of the best constant prediction"), "{report:?}");
        if run.pipeline == "rare" {
            assert!(report.explanation.contains("Warning: this does not show"), "{report:?}");
        }
        let release = engine.release_named(&run.pipeline).expect("released");
        let files = engine.release_files(&release).expect("its files");
        let text = |name: &str| {
            let file = files.iter().find(|(own, _)| own == name).map(|(_, bytes)| String::from_utf8_lossy(bytes));
            file.unwrap_or_else(|| panic!("no {name}")).into_owned()
        };
        assert!(text("README.md").contains("The best constant prediction: "), "{}", text("README.md"));
        let receipt: serde_json::Value = serde_json::from_str(&text("receipt.json")).expect("JSON");
        assert_eq!(receipt["best_constant"]["high"].as_f64(), constant.high);
        assert_eq!(receipt["estimate"]["low"].as_f64(), report.estimates[0].low);
    }
    // The share of the frequent class is close to one, whatever the noise within these limits.
    let [warning] = &engine.preview(&mia, &blind).expect("a plan").warnings[..] else { panic!("one warning") };
    assert!(warning.contains("according to run 1") && warning.contains("the target 0.6"), "{warning}");
    let certain = blind.replace("target = 0.6", "target = 0.5");
    let [warning] = &engine.preview(&mia, &certain).expect("a plan").warnings[..] else { panic!("one warning") };
    assert!(warning.contains("whatever the rows are"), "{warning}");
}

#[test]
fn the_comparison_is_refused_where_the_mean_does_not_determine_the_constant() {
    let constant = LINE.replace("target = 0.1", "better_than = \"constant\"\nmargin = 0.01");
    let pipeline = Pipeline::parse(&constant).expect("a pipeline");
    assert_eq!(pipeline.clone().checked(), Ok(pipeline));
    for (from, to) in [
        ("metric = \"mse\"", "metric = \"absolute\""),
        ("kind = \"ridge\"", "kind = \"release\"\nrelease = \"plain@1\""),
    ] {
        let text = constant.replace(from, to);
        // A released model brings its own features.
        let text = match text.find("features = [").filter(|_| to.contains("release")) {
            Some(start) => format!("{}{}", &text[..start], &text[text.find("[train]").expect("a table")..]),
            None => text,
        };
        let error = Pipeline::parse(&text).expect_err(to).to_string();
        assert!(error.contains("better_than") && error.contains("mse, log_loss or accuracy"), "{to}: {error}");
    }
}
