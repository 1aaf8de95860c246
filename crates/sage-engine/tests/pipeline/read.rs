//! Valid pipeline files and the pipelines they describe.

use std::sync::Arc;

use sage_engine::adapt::{Limits, Mode, RiskSchedule, Strategy, Units};
use sage_engine::learners::{DpSgd, Hyperparameters, NetworkLearner, RateSchedule, RidgeLearner, RidgeTerm};
use sage_engine::metrics::{Accuracy, Metric, SquaredError};
use sage_engine::pipeline::{
    Adaptation, Bounds, Extent, Feature, Goal, Keys, Label, Missing, Pipeline, RowTransport, Source, Statistic,
    TestBound, Train,
};
use sage_engine::stream::Width;

fn metric(metric: impl Metric) -> Arc<dyn Metric> {
    Arc::new(metric)
}

pub(crate) const TAXI: &str = r#"
[pipeline]
name = "taxi-duration"
stream = "taxi"
label = "duration"
window = { min = "7d", max = "90d" }
filter = "distance > 0"
every = "1d"
features = [
  { column = "distance", scale = [0, 100] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
  { group_mean = "speed", by = "hour", keys = 24, bounds = [0, 100] },
]

[train]
kind = "ridge"

[validate]
metric = "mse"
target = 0.0024
bound = 1.0
confidence = 0.95

[budget]
epsilon0 = 0.05
epsilon_max = 0.5
delta = 1e-7
split = { features = 0.1, train = 0.8, validate = 0.1 }
"#;

pub(crate) const CLICKS: &str = r#"
[pipeline]
name = "clicks"
stream = "ads"
context = "north"
label = { truth = "clicked = 'yes'" }
window = { min = 4 }
[[pipeline.features]]
column = "site \"x\""
hash = 1024
name = "site"
[[pipeline.features]]
column = "device"
onehot = ["phone", "tablet"]
[[pipeline.features]]
sql = "ln(1 + price)"
name = "price"
bucket = [0.5, 1, 2.5]
[[pipeline.features]]
cross = ["site", "device"]
hash = 4096
[[pipeline.features]]
cross = ["device", "price"]
name = "both"

[train]
kind = "mlp"
layers = [64, 16]
epochs = 2.5
batch = 512
learning_rate = 0.01
schedule = { factor = 0.5, every = 100 }
momentum = 0.9
clip = 2

[validate]
metric = "accuracy"
better_than = "clicks@champion"
margin = 0.01

[adapt]
strategy = "conserve"
mode = "aggressive"
risk = "even"
attempts = 8
data_doublings = 3
timeout = "2w"
"#;

pub(crate) const MEDIAN: &str = r#"
[pipeline]
name = "median-distance"
stream = "taxi"
[train]
kind = "statistic"
statistic = "quantile"
of = "distance"
bounds = [0, 100]
at = [0.5, 0.9]
[validate]
metric = "precision"
target = 0.5
"#;

pub(crate) const OWN: &str = r#"
[pipeline]
name = "own-code"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
[train]
command = ["python", "train.py", "--deep"]
time_limit = "2h"
[validate]
metric = "absolute"
target = 0.1
bound = 2.5
test = "empirical-bernstein"
"#;

pub(crate) const ALL: [&str; 4] = [TAXI, CLICKS, MEDIAN, OWN];

fn read(text: &str) -> Pipeline {
    Pipeline::parse(text).expect("a pipeline")
}

fn week() -> Width {
    Width::parse("7d").expect("a week")
}

#[test]
fn a_ridge_regression_is_read_in_the_users_words() {
    let taxi = read(TAXI);
    assert_eq!((taxi.name.as_str(), taxi.stream.as_str()), ("taxi-duration", "taxi"));
    assert_eq!(taxi.label, Some(Label::Column("duration".to_owned())));
    assert_eq!((taxi.window.min, taxi.window.max), (Extent::Time(week()), Width::parse("90d").map(Extent::Time)));
    assert_eq!((taxi.filter.as_deref(), taxi.every), (Some("distance > 0"), Some(Width::DAY)));
    let bounds = Bounds::new(0.0, 100.0).expect("bounds");
    let names: Vec<&str> = taxi.features.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["distance", "hour", "speed_by_hour"]);
    assert_eq!(
        taxi.features.get("distance"),
        Some(&Feature::Scale { of: Source::Column("distance".to_owned()), bounds, missing: Missing::LeftOut })
    );
    assert!(taxi.features.depend_on_rows());
    assert_eq!(taxi.train, Train::Model(Arc::new(RidgeLearner { term: RidgeTerm::Adaptive })));
    let validate = taxi.validate.expect("a target");
    assert_eq!((validate.metric, validate.goal), (metric(SquaredError { bound: 1.0 }), Goal::Target(0.0024)));
    assert_eq!((validate.confidence, validate.test), (0.95, TestBound::KullbackLeibler));
    let budget = taxi.budget;
    let texts = [budget.epsilon0, budget.epsilon_max].map(|epsilon| epsilon.expect("it is there").to_string());
    assert_eq!(texts, ["0.05", "0.5"]);
    assert_eq!(budget.delta.map(|delta| delta.to_string()).as_deref(), Some("0.0000001"));
    let shares = budget.shares;
    let shares = [shares.features, shares.train, shares.reject, shares.validate].map(|share| share.to_string());
    assert_eq!(shares, ["0.1", "0.8", "0", "0.1"]);
    assert_eq!(taxi.adaptation, Adaptation::DEFAULT);
}

#[test]
fn a_network_is_read_in_the_users_words() {
    let clicks = read(CLICKS);
    assert_eq!(clicks.label, Some(Label::Truth("clicked = 'yes'".to_owned())));
    assert_eq!((clicks.window.min, clicks.window.max), (Extent::Blocks(4), None));
    let category_count =
        |name: &str| clicks.features.get(name).and_then(|feature| feature.category_count(&clicks.features));
    // Each list of categories has one more, for unknown and missing values.
    assert_eq!(["site", "device", "price"].map(category_count), [Some(1025), Some(3), Some(5)]);
    assert_eq!(["site_x_device", "both"].map(category_count), [Some(4096), Some(15)]);
    let schedule = RateSchedule::Stepwise { factor: 0.5, every: 100 };
    let written = Hyperparameters {
        epochs: Some(2.5),
        batch: Some(512),
        learning_rate: Some(0.01),
        schedule,
        momentum: 0.9,
        clip: Some(2.0),
        ..Hyperparameters::DERIVED
    };
    let training = DpSgd { written, ..DpSgd::DEFAULT };
    assert_eq!(clicks.train, Train::Model(Arc::new(NetworkLearner { layers: vec![64, 16], training })));
    let goal = Goal::BetterThan { alias: "clicks@champion".to_owned(), margin: 0.01 };
    assert_eq!(clicks.validate.map(|validate| (validate.metric, validate.goal)), Some((metric(Accuracy), goal)));
    let expected = Adaptation {
        strategy: Strategy::Conserve,
        mode: Mode::Aggressive,
        risk: RiskSchedule::Even,
        attempts: Some(8),
        data_doublings: 3,
        timeout: Width::parse("2w"),
    };
    assert_eq!(clicks.adaptation, expected);
    // No feature is computed from rows, so training gets the whole train lane.
    assert_eq!(clicks.budget.shares.train.to_string(), "1");
    assert_eq!(clicks.budget.shares.validate.to_string(), "1");
}

#[test]
fn statistics_and_commands_are_read_too() {
    let median = read(MEDIAN);
    let bounds = Bounds::new(0.0, 100.0).expect("bounds");
    let expected = Statistic::Quantile { of: "distance".to_owned(), bounds, at: vec![0.5, 0.9], grid: 1024 };
    assert_eq!(median.train, Train::Statistic(expected));
    assert_eq!(median.budget.shares.validate.to_string(), "0", "its validation reads only what is released");
    let own = read(OWN);
    let Train::Command { words, time_limit, .. } = own.train else { panic!("a command") };
    assert_eq!((words.len(), time_limit), (3, Width::parse("2h")));
    for (statistic, keys) in [
        ("count", ""),
        ("sum", "of = \"a\"\nbounds = [0, 1]"),
        ("mean", "of = \"a\"\nbounds = [0, 1]"),
        ("variance", "of = \"a\"\nbounds = [-1, 1]"),
        ("histogram", "by = \"a\"\nkeys = [\"x\", \"y\"]"),
        ("frequencies", "by = \"a\"\nkeys = 4"),
        ("group_mean", "of = \"a\"\nby = \"b\"\nkeys = 3\nbounds = [0, 1]"),
        ("quantile", "of = \"a\"\nbounds = [0, 1]\nat = [0.5]\ngrid = 16"),
    ] {
        let text = format!(
            "[pipeline]\nname = \"a\"\nstream = \"b\"\n[train]\nkind = \"statistic\"\nstatistic = \"{statistic}\"\n{keys}\n"
        );
        let pipeline = read(&text);
        assert!(pipeline.validate.is_none(), "a statistic needs no target");
        assert_eq!(read(&pipeline.to_text()), pipeline, "{statistic}");
    }
    let Train::Statistic(Statistic::Histogram { keys, .. }) =
        read("[pipeline]\nname='a'\nstream='b'\n[train]\nkind='statistic'\nstatistic='histogram'\nby='a'\nkeys=5")
            .train
    else {
        panic!("a histogram")
    };
    assert_eq!(keys, Keys::Count(5));
}

#[test]
fn limits_and_row_transport_are_read_and_written() {
    let plain = read(OWN);
    assert_eq!(plain.limits, sage_engine::pipeline::Limits::default());
    assert!(!plain.to_text().contains("[limits]"), "defaults are not written");
    let limited = read(&format!("{OWN}\n[limits]\ntime = \"90m\"\nmemory_megabytes = 250\n"));
    assert_eq!((limited.limits.time, limited.limits.memory_megabytes), (Width::parse("90m"), Some(250)));
    assert_eq!(read(&limited.to_text()), limited);
    let transport = |pipeline: &Pipeline| match &pipeline.train {
        Train::Command { rows, .. } => *rows,
        _ => panic!("a command"),
    };
    assert_eq!(transport(&plain), RowTransport::Parquet);
    let flight = read(&OWN.replacen("command =", "rows = \"flight\"\ncommand =", 1));
    assert_eq!(transport(&flight), RowTransport::Flight);
    assert_eq!(read(&flight.to_text()), flight);
}

#[test]
fn the_written_form_gives_the_pipeline_back() {
    for text in ALL {
        let pipeline = read(text);
        let written = pipeline.to_text();
        assert_eq!(Pipeline::parse(&written).as_ref(), Ok(&pipeline), "{written}");
        assert_eq!(read(&written).to_text(), written);
        assert_eq!(pipeline.clone().checked(), Ok(pipeline));
    }
}

/// The examples of the reference page are valid.
#[test]
fn the_examples_of_the_page_are_pipelines() {
    let page = include_str!("../../../../docs/reference/pipeline-file.md");
    let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 5);
    for example in examples {
        assert!(Pipeline::parse(example).is_ok(), "{example}\n{:?}", Pipeline::parse(example));
    }
}

#[test]
fn a_file_becomes_a_plan() {
    let plan = read(CLICKS).adaptation.plan((10, 4), (100, 50), Units::Share, 1_000).expect("a plan");
    let fortnight = 14 * 86_400_000;
    let limits =
        Limits { cost: 100, window: 50, attempts: Some(8), data_doublings: 3, deadline: Some(1_000 + fortnight) };
    assert_eq!((plan.first_cost(), plan.first_window(), *plan.limits()), (10, 4, limits));
    assert_eq!((plan.strategy(), plan.mode(), plan.risk_divisor(3)), (Strategy::Conserve, Mode::Aggressive, 8));
}

/// A pipeline built in code obeys the rules for files.
#[test]
fn pipelines_built_in_code_obey_the_rules_for_files() {
    let mut taxi = read(TAXI);
    taxi.features.0.push(taxi.features.0[0].clone());
    let error = taxi.checked().expect_err("the same name twice").to_string();
    assert!(error.contains("no other feature"), "{error}");
    let mut taxi = read(TAXI);
    taxi.label = Some(Label::Truth("tip > 0".to_owned()));
    assert!(taxi.checked().is_err());
    assert_eq!(Bounds::new(1.0, 1.0), None);
    assert_eq!(Bounds::new(f64::NAN, 1.0), None);
    assert_eq!(Bounds::new(-f64::MAX, f64::MAX), None);
}

/// The `missing` key of a numeric feature is parsed and written back.
#[test]
fn the_rule_for_missing_values_is_read_and_written() {
    let scale = "{ column = \"distance\", scale = [0, 100] }";
    for (rule, missing, written) in [
        ("", Missing::LeftOut, None),
        (", missing = \"left-out\"", Missing::LeftOut, None),
        (", missing = \"indicator\"", Missing::Indicator, Some("missing = \"indicator\"")),
        (", missing = 0", Missing::Constant(0.0), Some("missing = 0.0")),
        (", missing = 12.5", Missing::Constant(12.5), Some("missing = 12.5")),
    ] {
        let with = scale.replace(" }", &format!("{rule} }}"));
        let taxi = read(&TAXI.replace(scale, &with));
        let Some(Feature::Scale { missing: found, .. }) = taxi.features.get("distance") else { panic!("{rule}") };
        assert_eq!(*found, missing);
        let text = taxi.to_text();
        assert_eq!(text.contains("missing"), written.is_some(), "the text of a file without a rule does not change");
        assert!(written.is_none_or(|written| text.contains(written)), "{text}");
        assert_eq!(read(&text), taxi);
    }
    // One-hot features always have a category for missing values.
    assert_eq!(read(&TAXI.replace("onehot = 24", "onehot = 24, missing = \"category\"")), read(TAXI));
}
