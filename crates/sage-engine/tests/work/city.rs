//! A directory with synthetic rides that arrive hour by hour, and pipelines that learn from them.

use std::path::PathBuf;

use sage_engine::generate::{self, TAXI, Taxi};
use sage_engine::ingest::Source;
use sage_engine::stream::parse_time;
use sage_engine::{Engine, EngineOptions, Opened, Principal};
use tempfile::TempDir;

pub(crate) fn principal(name: &str) -> Principal {
    Principal::named(name).expect("a name")
}

/// The same pipeline under `strategy = "frugal"`, for tests that are about something else: its attempts follow from
/// verdicts alone, and each has twice the blocks or twice the cost of the one before.
pub(crate) fn frugal(text: &str) -> String {
    const STRATEGY: &str = "[adapt]\nstrategy = \"frugal\"\n";
    match text.contains("[adapt]\n") {
        true => text.replacen("[adapt]\n", STRATEGY, 1),
        false => format!("{text}\n{STRATEGY}"),
    }
}

/// Predicts the duration of a ride from its distance, time and payment, and the usual speed at that hour.
pub(crate) const LINE: &str = r#"
[pipeline]
name = "duration-line"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
window = { min = "4h" }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
features = [
  { column = "distance", scale = [0, 30] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
  { column = "payment", onehot = ["card", "cash"] },
  { group_mean = "3600 * distance / duration", by = "extract(hour from pickup)", name = "usual speed", keys = 24, bounds = [0, 60] },
]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 0.1
bound = 1.0
"#;

/// The same with a small network.
pub(crate) const NETWORK: &str = r#"
[pipeline]
name = "duration-network"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
window = { min = "4h" }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
features = [
  { column = "distance", scale = [0, 30] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
]
[train]
kind = "mlp"
layers = [16]
batch = 512
epochs = 2
rows = 3500
[validate]
metric = "mse"
target = 0.1
bound = 1.0
"#;

/// A group mean with a target precision.
pub(crate) const SPEED: &str = r#"
[pipeline]
name = "speed-by-vendor"
stream = "taxi"
window = { min = 2 }
filter = "duration > 60"
[train]
kind = "statistic"
statistic = "group_mean"
of = "3600 * distance / duration"
by = "vendor - 1"
keys = 2
bounds = [0, 60]
[validate]
metric = "precision"
target = 4.0
"#;

/// A count of the rides.
pub(crate) const COUNT: &str = r#"
[pipeline]
name = "rides"
stream = "taxi"
[train]
kind = "statistic"
statistic = "count"
"#;

pub(crate) struct City {
    folder: TempDir,
    pub(crate) options: EngineOptions,
}

impl City {
    /// A directory and `rides` rides, about 4,200 per hour, not yet ingested.
    pub(crate) fn new(rides: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let taxi = Taxi::new(rides, "2026-01-01".parse().expect("a day"), 3).expect("rides");
        generate::write(&taxi, &folder.path().join("rides"), None).expect("written");
        Self { folder, options: EngineOptions::default() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sage")
    }

    pub(crate) fn open(&self) -> Engine {
        match Engine::open(&self.path(), &self.options).expect("a sound directory") {
            Opened::Ready(engine) => *engine,
            Opened::Fenced(_) => panic!("the directory is not fenced"),
        }
    }

    /// The stream with this ε per hourly block; everything is ingested and nothing sealed.
    pub(crate) fn with_rides(&self, epsilon: &str) -> Engine {
        self.with_file(&TAXI.replace("epsilon = \"1.0\"", &format!("epsilon = \"{epsilon}\"")))
    }

    /// The same with this `[policy]` table.
    pub(crate) fn with_policy(&self, policy: &str) -> Engine {
        let (before, rest) = TAXI.split_once("[policy]").expect("a policy");
        let (_, after) = rest.split_once("[access]").expect("access");
        self.with_file(&format!("{before}[policy]{policy}\n[access]{after}"))
    }

    /// The stream of this file; everything is ingested and nothing sealed.
    pub(crate) fn with_file(&self, file: &str) -> Engine {
        let engine = self.open();
        engine.create_stream(&principal("ada"), file).expect("a stream");
        let source = Source::path(self.folder.path().join("rides"));
        engine.ingest(&principal("dan"), "taxi", "all", source).expect("a batch");
        engine
    }

    /// Seals the hours before this time, such as `2026-01-01T08:00`.
    pub(crate) fn seal_before(&self, engine: &Engine, time: &str) {
        let over = engine.open_before("taxi", parse_time(time).expect("a time")).expect("a stream");
        if !over.is_empty() {
            engine.seal(&principal("dan"), "taxi", &over).expect("sealed");
        }
    }
}
