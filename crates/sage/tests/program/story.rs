//! From rows to predictions, by commands only.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::workdir::{Workdir, project};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn rides_become_a_model_that_predicts() {
    let (workdir, stored) = Workdir::with_rides("150_000");
    let plan = workdir.json("plan examples/duration.toml --as mia");
    assert_eq!((&plan["pipeline"], &plan["starts_now"]), (&"taxi-duration".into(), &true.into()));
    assert!(plan["runs_left"].as_u64() > Some(1), "{plan}");
    assert!(workdir.good("plan examples/duration.toml --as mia").contains("reads 12 blocks"));
    assert!(workdir.good("runs").contains("no run yet"), "a plan is no run");

    let output = workdir.run("submit examples/duration.toml --wait --as mia");
    assert_eq!((output.out.as_str(), output.code), ("1\n", Some(0)), "{}", output.err);
    assert!(output.err.contains("run 1 (taxi-duration), attempt 1: epsilon "), "{}", output.err);
    assert!(output.err.contains(": accept: the mean loss"), "{}", output.err);
    let why = workdir.good("explain 1");
    for said in ["accepted", "attempt 1", "against a target of mean squared error of at most 0.02", "hour=2026-01-0"] {
        assert!(why.contains(said), "{said}: {why}");
    }
    let run = workdir.json("explain 1");
    assert_eq!((&run["status"], &run["release"]), (&"accepted".into(), &"taxi-duration@1".into()), "{run}");
    let last = run["attempts"].as_array().and_then(|attempts| attempts.last()).expect("an attempt");
    assert_eq!(last["verdict"], "accept", "{last}");

    assert!(workdir.good("models list").contains("taxi-duration@1  model"));
    let shown = workdir.good("models show taxi-duration");
    assert!(shown.contains("# taxi-duration") && shown.contains("\"filter\": \"renyi\""), "{shown}");
    assert!(workdir.good("models pull taxi-duration@1 model").contains("model.onnx"));
    assert!(workdir.path("model/features/usual_speed.parquet").exists());
    workdir.fails("models pull taxi-duration@1 model", 1, "is not empty, and nothing in it is overwritten");
    workdir.good("models alias taxi-duration@1 champion --as mia");
    assert_eq!(workdir.json("models list")[0]["aliases"], serde_json::json!(["champion"]));

    let budget = workdir.good("budget taxi --for examples/duration.toml --as mia");
    assert!(budget.contains("more runs like taxi-duration"), "{budget}");
    assert!(budget.contains("more or less changes the probability"), "{budget}");
    workdir.good("models withdraw taxi-duration@1 --reason outdated --as mia");
    workdir.fails("predict taxi-duration@1 examples/rides.csv", 14, "was withdrawn: outdated");
    assert!(workdir.good("models list").contains("withdrawn: outdated"));
    assert!(workdir.good("doctor").contains("nothing is wrong"));
    let said = workdir.said.borrow();
    assert!(!crate::shows(&said, &stored.to_string()), "the output contains the number of rows");
}

#[test]
fn predictions_read_two_formats_and_name_invalid_rows() {
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    let by_file = workdir.good("predict taxi-duration examples/rides.csv");
    let numbers: Vec<f64> = by_file.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(numbers.len(), 3);
    assert!(numbers[1] > numbers[0] && numbers.iter().all(|hours| (-1.0..=3.5).contains(hours)), "{numbers:?}");
    let lines = [
        r#"{"pickup": "2026-11-02T08:15:00Z", "distance": 2.5, "payment": "card", "driver": "x"}"#,
        r#"{"pickup": 1793662800, "distance": 12, "payment": "cash"}"#,
        r#"{"pickup": "1793642400", "distance": "0.8", "payment": null}"#,
    ];
    let output = workdir.with_input("predict taxi-duration - --json", &lines.join("\n"));
    let found: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(found["model"], "taxi-duration@1");
    let second: Vec<f64> = found["predictions"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert_eq!(second, numbers, "both formats say the same");
    assert!(workdir.good("predict taxi-duration --columns").contains("payment: one of \"card\", \"cash\""));

    let header = "pickup,distance,payment\n2026-11-02T08:15:00,2.5,card\n";
    for (row, said) in [
        (
            "2026-11-02T08:15:00,130,card",
            "row 2, column `distance`: \"130\" is not allowed; give a number from 0 to 100",
        ),
        ("2026-11-02T08:15:00,1,crad", "did you mean \"card\"?"),
        ("soon,1,card", "row 2, column `pickup`: \"soon\" is not allowed; give a time such as"),
        ("2026-11-02T08:15:00,,card", "row 2, column `distance`: it is empty"),
        ("2026-11-02T08:15:00", "line 3: the number of fields"),
    ] {
        let output = workdir.with_input("predict taxi-duration", &format!("{header}{row}\n"));
        assert_eq!(output.code, Some(1), "{row}");
        assert!(output.err.contains(said) && output.err.contains("--columns"), "{row}: {}", output.err);
    }
    let output = workdir.with_input("predict taxi-duration", "pickup,distance\n2026-11-02,1\n");
    assert!(output.err.contains("the header lacks columns that the model needs: payment"), "{}", output.err);
    assert!(workdir.with_input("predict taxi-duration", "").err.contains("the input is empty"));
    workdir.fails("predict taxi-fare", 14, "there is no release \"taxi-fare\"");
    workdir.fails("models show taxi-duratoin@1", 14, "did you mean taxi-duration?");
    workdir.fails("models alias taxi-duration latest --as mia", 2, "cannot name a version");
    workdir.fails("predict taxi-duration@7", 14, "there is no release");
}

#[test]
fn a_statistic_is_a_release_too() {
    let (workdir, _) = Workdir::with_rides("150_000");
    assert!(workdir.good("features list").contains("nothing is released yet"));
    workdir.good("submit examples/speed.toml --as mia");
    let worked = workdir.json("work");
    assert!(worked["attempts_performed"].as_u64() >= Some(1), "{worked}");
    assert!(workdir.good("features list").contains("speed-by-vendor@1  statistic"));
    let shown = workdir.good("models show speed-by-vendor");
    assert!(shown.contains("group_mean on stream taxi") && shown.contains("receipt of speed-by-vendor@1"), "{shown}");
    let all = workdir.json("features get speed-by-vendor");
    assert_eq!(keys(&all), BTreeSet::from(["name", "version", "statistic", "confidence", "lines"]));
    assert_eq!(all["lines"].as_array().map(Vec::len), Some(2));
    let one = workdir.json("features get speed-by-vendor@1 1");
    assert_eq!(one["lines"][0], all["lines"][1]);
    workdir.fails("features get speed-by-vendor 7", 14, "has no key \"7\"");
    workdir.fails("predict speed-by-vendor examples/rides.csv", 14, "it is a statistic");
    workdir.good("submit examples/duration.toml --wait --as mia");
    workdir.fails("features get taxi-duration", 14, "it is a model");
}

/// Checks that every key of an object is in docs/reference/commands.md.
pub(crate) fn documented(object: &Value) {
    let document = std::fs::read_to_string(project().join("docs/reference/commands.md")).expect("the document");
    for key in keys(object) {
        assert!(document.contains(&format!("`{key}`")), "docs/reference/commands.md does not say what `{key}` is");
    }
}

/// The JSON objects that programs rely on are those in docs/reference/commands.md.
#[test]
fn objects_have_the_keys_that_are_documented() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let submitted = workdir.json("submit examples/duration.toml --wait --as mia");
    let attempt = submitted["attempts"][0].clone();
    let runs = workdir.json("runs --stream taxi");
    let objects = [
        workdir.json("plan examples/duration.toml --as mia"),
        submitted,
        attempt,
        runs[0].clone(),
        workdir.json("models list")[0].clone(),
        workdir.json("models show taxi-duration"),
        workdir.json("models pull taxi-duration pulled"),
        workdir.json("predict taxi-duration examples/rides.csv"),
        workdir.json("predict taxi-duration --columns"),
        workdir.json("budget taxi --for examples/duration.toml --as mia"),
        workdir.json("work"),
    ];
    objects.iter().for_each(documented);
}
