//! A temporary directory with a small stream of rides.

use std::fmt::Write as _;
use std::path::PathBuf;

use sage_engine::ingest::Source;
use sage_engine::read::{Expression, Query};
use sage_engine::{
    AccessMode, ChargeRequest, Cost, Engine, EngineError, EngineOptions, Epsilon, IngestOutcome, Mechanism, Opened,
    Principal,
};
use tempfile::TempDir;

/// A stream of rides by day.
pub(crate) const RIDES: &str = r#"
[stream]
name = "rides"
unit = "event"
time = "pickup"
blocks = { time = "1d" }
test_share = 0.5
retention = "30d"

[policy]
epsilon = "20"
delta = "1e-6"
filter = "basic"

[access]
privacy-officer = ["ada", "bob"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "pickup"
type = "time"

[[columns]]
name = "distance"
type = "number"
min = 0.0
max = 100.0
"#;

pub(crate) struct World {
    folder: TempDir,
    pub(crate) options: EngineOptions,
}

pub(crate) fn principal(name: &str) -> Principal {
    Principal::named(name).expect("a name")
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let options = EngineOptions { heads: vec![folder.path().join("head")], ..EngineOptions::default() };
        Self { folder, options }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sage")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn open(&self) -> Engine {
        match Engine::open(&self.path(), &self.options).expect("a sound directory") {
            Opened::Ready(engine) => *engine,
            Opened::Fenced(_) => panic!("the directory is not fenced"),
        }
    }

    /// An engine with the stream of rides and `count` rows on each of three days, sealed.
    pub(crate) fn with_rides(&self, count: usize) -> Engine {
        let engine = self.open();
        engine.create_stream(&principal("ada"), RIDES).expect("a stream");
        self.ingest_csv(&engine, "b1", &rides(1..=3, count)).expect("a batch");
        engine.seal(&principal("dan"), "rides", &days(1..=3)).expect("sealed");
        engine
    }

    /// Ingests a CSV text as a batch.
    pub(crate) fn ingest_csv(&self, engine: &Engine, batch: &str, text: &str) -> Result<IngestOutcome, EngineError> {
        let file = self.folder.path().join(format!("{batch}.csv"));
        std::fs::write(&file, text).expect("a file");
        engine.ingest(&principal("dan"), "rides", batch, Source::path(&file))
    }
}

/// Rows of these days of November, with distances 1, 2, 3 and so on.
pub(crate) fn rides(days: std::ops::RangeInclusive<u32>, count: usize) -> String {
    let mut text = "pickup,distance\n".to_owned();
    for day in days {
        for index in 0..count {
            let _ = writeln!(text, "2026-11-{day:02}T{:02}:00:00Z,{}", index % 24, index % 90 + 1);
        }
    }
    text
}

pub(crate) fn days(days: std::ops::RangeInclusive<u32>) -> Vec<String> {
    days.map(|day| format!("day=2026-11-{day:02}")).collect()
}

pub(crate) fn epsilon(text: &str) -> Epsilon {
    Epsilon::cost(text).expect("a decimal")
}

/// One Laplace release on each lane.
pub(crate) fn laplace(text: &str) -> [Option<Cost>; 2] {
    let one = || Cost::new(vec![Mechanism::Laplace { epsilon: epsilon(text), count: 1 }]).expect("a cost");
    [Some(one()), Some(one())]
}

pub(crate) fn charge_request(key: &str, blocks: Vec<String>, cost: &str) -> ChargeRequest {
    ChargeRequest {
        key: key.to_owned(),
        stream: "rides".to_owned(),
        context: None,
        blocks,
        costs: laplace(cost),
        access: AccessMode::Enforced,
        purpose: "a test".to_owned(),
    }
}

pub(crate) fn query(filter: Option<&str>, columns: &[(&str, &str)]) -> Query {
    let expression = |(name, sql): &(&str, &str)| Expression { name: (*name).to_owned(), sql: (*sql).to_owned() };
    Query { filter: filter.map(str::to_owned), columns: columns.iter().map(expression).collect() }
}
