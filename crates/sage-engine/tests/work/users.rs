//! Streams of users, from a pipeline file to a release: up to `contribution` records of a user count, and a user counts once
//! in means, models and tests. ε is so large that the noise is far below the tolerances.

use std::fmt::Write as _;

use sage_engine::adapt::Outcome;
use sage_engine::run::Report;
use sage_engine::serve::Cell;
use sage_engine::{AttemptOutcome, Engine};

use crate::city::{frugal, principal};
use crate::loops::describe;
use crate::teams::with_rows;

const USERS: usize = 1_000;

/// For models, whose noise is not as small.
const MORE_USERS: usize = 10_000;

fn stream(contribution: u32) -> String {
    format!(
        r#"
[stream]
name = "visits"
unit = "user"
user = "customer"
contribution = {contribution}
blocks = {{ user_range = 10000 }}
test_share = 0.3

[policy]
epsilon = "10000"
delta = "1e-6"
filter = "basic"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "customer"
type = "integer"
min = 0
max = 9999
outside = "drop"

[[columns]]
name = "x"
type = "number"
min = 0.0
max = 1.0

[[columns]]
name = "y"
type = "number"
min = 0.0
max = 1.0

[[columns]]
name = "part"
type = "integer"
min = 0
max = 1

[[columns]]
name = "bought"
type = "boolean"
"#
    )
}

/// Every fifth user has 14 records, every fifth 4, the others 10. The values of a user are alike but for `y`, which is one
/// tenth above the line as often as below it, in both parts, and `bought`, which is true of four records out of five.
fn rows(users: usize) -> String {
    let mut csv = "customer,x,y,part,bought\n".to_owned();
    for user in 0..users {
        let count = match user % 5 {
            0 => 14,
            1 => 4,
            _ => 10,
        };
        let x = (user / 5 % 5) as f64 / 4.0;
        for record in 0..count {
            let off = if record % 2 == 0 { 0.1 } else { -0.1 };
            let y = 0.2 + 0.5 * x + off;
            let _ = writeln!(csv, "{user},{x},{y},{},{}", record / 2 % 2, record % 5 > 0);
        }
    }
    csv
}

/// Submits a pipeline, works it, and returns the report of its attempt.
fn report(engine: &Engine, name: &str, rest: &str) -> Report {
    let text = format!("[pipeline]\nname = \"{name}\"\nstream = \"visits\"\nwindow = {{ min = 1 }}\n{rest}");
    let run = engine.submit_at(&principal("mia"), &frugal(&text), 0).unwrap_or_else(|error| panic!("{name}: {error}"));
    engine.work(1).expect("no error");
    let run = engine.run(run).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{name}: {}", describe(&run));
    let judged = run.attempts.iter().find_map(|attempt| match &attempt.outcome {
        Some(AttemptOutcome::Judged(report)) => Some(report.clone()),
        _ => None,
    });
    judged.unwrap_or_else(|| panic!("{name}: {}", describe(&run)))
}

fn statistic(engine: &Engine, name: &str, body: &str) -> Vec<f64> {
    let budget = "[budget]\nepsilon0 = \"100\"\n";
    report(engine, name, &format!("{budget}[train]\nkind = \"statistic\"\n{body}"));
    let released = engine.statistic(&engine.release_named(name).expect("released")).expect("numbers");
    released.lines.iter().map(|line| line.value.expect("a number")).collect()
}

#[test]
fn statistics_count_up_to_ten_records_of_a_user() {
    for (contribution, counted) in [(10, 8_800.0), (4, 4_000.0), (14, 9_600.0), (1, 1_000.0)] {
        let folder = tempfile::tempdir().expect("a directory");
        let engine = with_rows(folder.path(), &stream(contribution), "visits", &rows(USERS));
        // Noise of scale 0.1 for every record that counts, on both lanes.
        let slack = 4.0 * f64::from(contribution);
        let count = statistic(&engine, "count", "statistic = \"count\"\n")[0];
        assert!((count - counted).abs() < slack, "{contribution}: {count}, not {counted}");
        let sum = "statistic = \"sum\"\nof = \"0.25 + 0 * x\"\nbounds = [0, 0.5]\n";
        let sum = statistic(&engine, "sum", sum)[0];
        assert!((sum - 0.25 * counted).abs() < slack, "{contribution}: {sum}, not {}", 0.25 * counted);
        let keyed = "statistic = \"histogram\"\nby = \"customer % 2\"\nkeys = 2\n";
        for half in statistic(&engine, "histogram", keyed) {
            assert!((half - 0.5 * counted).abs() < slack, "{contribution}: {half}, not {}", 0.5 * counted);
        }
    }
}

/// The tenths above and below the line cancel in every user, so the mean over users is exact on every sample of users. With
/// one record of a user, or with records that count for themselves, it would be off by more.
#[test]
fn means_count_a_user_once_with_all_records() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = with_rows(folder.path(), &stream(10), "visits", &rows(USERS));
    let even = "filter = \"customer % 5 > 0\"\n[train]\n";
    let off = "of = \"y - 0.5 * x\"\nbounds = [0, 1]\n";
    let run = |name: &str, body: &str| {
        let text = format!("{even}kind = \"statistic\"\n{body}[budget]\nepsilon0 = \"100\"\n");
        let report = report(&engine, name, &text);
        let released = engine.statistic(&engine.release_named(name).expect("released")).expect("numbers");
        (report, released.lines.iter().map(|line| line.value.expect("a mean")).collect::<Vec<f64>>())
    };
    let (report, mean) = run("mean", &format!("statistic = \"mean\"\n{off}"));
    assert!((mean[0] - 0.2).abs() < 1e-3, "{mean:?}");
    let users: f64 = report.sums[0].iter().sum();
    assert!(users < 800.0, "users count, not records: {users}");
    let (_, means) = run("means", &format!("statistic = \"group_mean\"\n{off}by = \"part\"\nkeys = 2\n"));
    assert!(means.len() == 2 && means.iter().all(|mean| (mean - 0.2).abs() < 2e-3), "{means:?}");
}

/// The labels of a user are a tenth above and below a line. A model of all records finds the line exactly.
#[test]
fn ridge_counts_all_records_and_its_test_counts_users() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = with_rows(folder.path(), &stream(10).replace("10000\"", "32\""), "visits", &rows(MORE_USERS));
    let body = "label = \"y\"\nfilter = \"customer % 5 > 0\"\nfeatures = [{ column = \"x\", scale = [0, 1] }]\n\
                [train]\nkind = \"ridge\"\n[validate]\nmetric = \"mse\"\ntarget = 0.05\nbound = 1.0\n\
                [budget]\nepsilon0 = \"8\"\n";
    let report = report(&engine, "line", body);
    let predictor = engine.predictor(&engine.release_named("line").expect("released")).expect("a model");
    for step in 0..5 {
        let x = f64::from(step) / 4.0;
        let predicted = f64::from(predictor.rows(&[vec![Cell::Number(x)]]).expect("a prediction")[0]);
        assert!((predicted - 0.2 - 0.5 * x).abs() < 1e-2, "{x}: {predicted}");
    }
    // Every user's mean loss is that of a tenth.
    let estimate = report.estimates[0].value.expect("an estimate");
    assert!((estimate - 0.01).abs() < 5e-3, "{estimate}");
    let users: f64 = report.sums[0].iter().sum();
    assert!((1_000.0..5_000.0).contains(&users), "users count in the test, not records: {users}");
}

/// Of a user's ten records eight bought: the mean loss of every user is that of the whole stream, whichever users are tested.
#[test]
fn a_logistic_model_is_tested_on_all_records() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = with_rows(folder.path(), &stream(10).replace("10000\"", "32\""), "visits", &rows(MORE_USERS));
    let body = "label = \"bought\"\nfilter = \"customer % 5 > 1\"\nfeatures = [{ column = \"x\", scale = [0, 1] }]\n\
                [train]\nkind = \"logistic\"\nrows = 4000\nbatch = 1000\nepochs = 20\nlearning_rate = 1.0\n\
                [validate]\nmetric = \"accuracy\"\ntarget = 0.6\n[budget]\nepsilon0 = \"8\"\n";
    let report = report(&engine, "buyers", body);
    let accuracy = report.estimates[0].value.expect("an estimate");
    assert!((accuracy - 0.8).abs() < 0.02, "{accuracy}");
    let users: f64 = report.sums[0].iter().sum();
    assert!((600.0..3_500.0).contains(&users), "users count in the test, not records: {users}");
    let predictor = engine.predictor(&engine.release_named("buyers").expect("released")).expect("a model");
    let predicted = predictor.rows(&[vec![Cell::Number(0.5)]]).expect("a prediction")[0];
    assert!((0.6..0.95).contains(&predicted), "eight of ten records, not those of another step: {predicted}");
}
