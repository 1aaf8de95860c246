//! Two directories with the same stream, the rows of which differ in one.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use sage_engine::ingest::Source;
use sage_engine::{Engine, EngineOptions, Opened, Principal};
use tempfile::TempDir;

/// The columns are those of `sage_sql::synthetic`, and a category.
pub(crate) const STREAM: &str = r#"
[stream]
name = "people"
unit = "event"
time = "t"
blocks = { time = "1d" }
test_share = 0.3

[policy]
epsilon = "32"
delta = "1e-6"
filter = "basic"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "x"
type = "number"
min = -1e300
max = 1e300
nullable = true

[[columns]]
name = "y"
type = "number"
min = 0.0
max = 1.0
nullable = true

[[columns]]
name = "n"
type = "integer"
min = -9000000000000000000
max = 9000000000000000000
nullable = true

[[columns]]
name = "m"
type = "integer"
min = 0
max = 9
nullable = true

[[columns]]
name = "b"
type = "boolean"
nullable = true

[[columns]]
name = "name"
type = "text"
nullable = true

[[columns]]
name = "note"
type = "text"
nullable = true

[[columns]]
name = "c"
type = "category"
categories = ["Ann", "Bob", "Cid"]
nullable = true

[[columns]]
name = "t"
type = "time"

[[columns]]
name = "u"
type = "time"
nullable = true
"#;

/// A stream in which the unit of privacy is a user, with a census.
pub(crate) const USERS: &str = r#"
[stream]
name = "people"
unit = "user"
user = "who"
contribution = 3
time = "at"
blocks = { time = "1d" }
test_share = 0.3
census = { epsilon = "1", horizon = 4 }

[policy]
epsilon = "32"
delta = "1e-6"
filter = "basic"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "who"
type = "integer"
min = 0
max = 1000000
outside = "drop"

[[columns]]
name = "at"
type = "time"

[[columns]]
name = "y"
type = "number"
min = 0.0
max = 1.0

[[columns]]
name = "m"
type = "integer"
min = 0
max = 9
"#;

/// A stream that admits own code.
pub(crate) const POINTS: &str = r#"
[stream]
name = "people"
unit = "event"
time = "at"
blocks = { time = "1d" }
test_share = 0.3

[policy]
epsilon = "8"
delta = "1e-5"
access_modes = ["enforced", "attested"]

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
name = "y"
type = "number"
min = 0.0
max = 1.0
"#;

/// A reader of the log that shares no code with the engine's.
pub(crate) struct LogReader(Connection);

impl LogReader {
    fn open(directory: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self(Connection::open_with_flags(directory.join("log.db"), flags).expect("the log"))
    }

    /// The bodies of the events from a number on.
    pub(crate) fn bodies(&self, from: u64) -> Vec<Vec<u8>> {
        let select = "SELECT body FROM record WHERE number >= ?1 ORDER BY number";
        let mut select = self.0.prepare_cached(select).expect("a statement");
        let from = i64::try_from(from).expect("a number of an event");
        let rows = select.query_map([from], |row| row.get(0)).expect("rows");
        rows.map(|body| body.expect("a body")).collect()
    }
}

/// One of the two.
pub(crate) struct Side {
    // Closed before its folder is removed.
    pub(crate) log: LogReader,
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
    /// Whether the row is there.
    pub(crate) with_row: bool,
}

pub(crate) fn person(name: &str) -> Principal {
    Principal::named(name).expect("a name")
}

impl Side {
    /// A directory with the stream of this file, these rows in it, all of its blocks sealed.
    pub(crate) fn new(file: &str, options: &EngineOptions, rows: &str, with_row: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let opened = Engine::open(&folder.path().join("sage"), options).expect("a new directory");
        let Opened::Ready(engine) = opened else { panic!("the directory is new") };
        engine.create_stream(&person("ada"), file).expect("a stream");
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, rows).expect("a file");
        engine.ingest(&person("dan"), "people", "all", Source::path(&path)).expect("a batch");
        let blocks = engine.snapshot().expect("a snapshot").blocks("people").expect("the stream");
        let keys: Vec<String> = blocks.into_iter().map(|block| block.key).collect();
        engine.seal(&person("dan"), "people", &keys).expect("sealed");
        Self { log: LogReader::open(&folder.path().join("sage")), engine: *engine, folder, with_row }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sage")
    }
}

/// A stream with these rows, and one with one row more.
pub(crate) fn neighbours(file: &str, header: &str, rows: &str, more: &str) -> [Side; 2] {
    let sides = [false, true].map(|with_row| {
        let more = if with_row { more } else { "" };
        Side::new(file, &EngineOptions::default(), &format!("{header}{rows}{more}"), with_row)
    });
    let [one, two] = sides.each_ref().map(|side| crate::observe::events(side, 0));
    assert_eq!(one, two, "ingest and sealing show a row");
    sides
}

/// Neighbours of regular rows, one of which has Bob.
pub(crate) fn with_bob(rows: usize) -> [Side; 2] {
    neighbours(STREAM, crate::rows::HEADER, &crate::rows::regular(rows), crate::rows::CONSPICUOUS[0])
}
