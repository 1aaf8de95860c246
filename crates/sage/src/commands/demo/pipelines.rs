//! The five pipelines of the demonstration, as ordinary pipeline files.
//!
//! The targets have a wide margin: with the rides of the demonstration each is met within the year, except with
//! negligible probability.

pub(super) const STREAM: &str = "taxi";
/// The users and their roles in the stream file of the synthetic rides.
pub(super) const OFFICER: &str = "ada";
pub(super) const WORKER: &str = "dan";
pub(super) const ENGINEER: &str = "mia";

/// The models of the demonstration, which predict at the end.
pub(super) const MODELS: [&str; 2] = ["duration-line", "duration-network"];

const LINE: &str = r#"
[pipeline]
name = "duration-line"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 1] }
window = { min = "14d" }
filter = "distance > 0 AND duration BETWEEN 60 AND 3600"
features = [
  { column = "distance", scale = [0, 15] },
  { column = "distance", name = "how_far", bucket = [0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
  { sql = "extract(dow from pickup)", name = "weekday", onehot = 7 },
  { column = "payment", onehot = ["card", "cash"] },
]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 0.0185
bound = 0.25
[adapt]
strategy = "frugal"
timeout = "52w"
"#;

const NETWORK: &str = r#"
[pipeline]
name = "duration-network"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 1] }
window = { min = "28d" }
filter = "distance > 0 AND duration BETWEEN 60 AND 3600"
features = [
  { column = "distance", bucket = [0.5, 1, 1.5, 2, 3, 4, 6, 8, 12] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
  { sql = "extract(dow from pickup)", name = "weekday", onehot = 7 },
  { column = "payment", onehot = ["card", "cash"] },
]
[train]
kind = "mlp"
layers = [16]
rows = ROWS
[validate]
metric = "mse"
target = 0.0235
bound = 0.25
[adapt]
strategy = "frugal"
timeout = "52w"
"#;

const SPEED: &str = r#"
[pipeline]
name = "NAME"
stream = "taxi"
window = { min = "7d" }
filter = "duration > 60"
[train]
kind = "statistic"
statistic = "group_mean"
of = "3600 * distance / duration"
by = "BY"
keys = KEYS
bounds = [0, 60]
[validate]
metric = "precision"
target = TARGET
[adapt]
strategy = "frugal"
timeout = "52w"
"#;

/// The mean speed by a part of the time, with every line within the target.
fn speed(name: &str, by: &str, keys: u32, target: f64) -> String {
    let text = SPEED.replace("NAME", name).replace("BY", by);
    text.replace("KEYS", &keys.to_string()).replace("TARGET", &format!("{target:.2}"))
}

/// All five, for a number of rides per day. With fewer rides the noise is larger, so the targets are adjusted.
pub(super) fn pipelines(rides: u64) -> [String; 5] {
    let within = |miles_an_hour: f64| miles_an_hour / (rides.max(1) as f64).sqrt();
    // Nine of ten rides are for training, and the filter excludes some of them.
    let rows = (rides * 85 / 100).max(1).to_string();
    [
        LINE.to_owned(),
        NETWORK.replace("ROWS", &rows),
        speed("speed-by-hour", "extract(hour from pickup)", 24, within(360.0)),
        speed("speed-by-weekday", "extract(dow from pickup)", 7, within(80.0)),
        speed("speed-by-week-of-month", "floor((extract(day from pickup) - 1) / 7)", 5, within(110.0)),
    ]
}
