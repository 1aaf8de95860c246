//! The engine's measurements, for `cargo xtask bench engine`, which starts PostgreSQL beside them.
//!
//! A measurement is an entry of the table: a name, a unit, and a function that gives the number, and where
//! there is a peer also the peer's, measured in turns with ours so that both see the same disk. One JSON object
//! a line is printed. With names as arguments only those run. The directory is made in `SAGE_BENCH_DIRECTORY`, which
//! has to be on a real disk; `SAGE_BENCH_POSTGRES` is the socket directory of a server with default durability
//! and `SAGE_BENCH_PGBENCH` its load program; without them our numbers stand alone.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sage_engine::log::{BoxedLog, Directory, GroupCommit, HeadCheck, Heads};
use sage_engine::{Engine, EngineOptions, Opened};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Head, Log,
    Mechanism, MemoryLog, Policy, Record, Request, RequestKey, Rule, Sigma, StreamId,
};

struct Measurement {
    name: &'static str,
    unit: &'static str,
    measure: fn(&Path) -> Outcome,
}

/// Our number, and the peer's.
struct Outcome {
    ours: f64,
    peer: Option<f64>,
}

const fn entry(name: &'static str, unit: &'static str, measure: fn(&Path) -> Outcome) -> Measurement {
    Measurement { name, unit, measure }
}

const MEASUREMENTS: &[Measurement] = &[
    entry("durable_1", "charges/s", |folder| durable(folder, 1)),
    entry("durable_8", "charges/s", |folder| durable(folder, 8)),
    entry("durable_64", "charges/s", |folder| durable(folder, 64)),
    entry("durable_10000_blocks", "charges/s", |folder| alone(folder, 64, BLOCKS)),
    entry("durable_1000_clients", "charges/s", |folder| alone(folder, 1000, WINDOW)),
    entry("flush_share", "commits/s", flush_share),
    entry("replay_1e6", "s", replay),
    entry("snapshot_1e6", "s", snapshot),
];

/// Blocks of the stream, and of a charge.
const BLOCKS: u32 = 10_000;
const WINDOW: u32 = 100;

/// Turns that ours and the peer's take; the number is the median.
const TURNS: usize = 5;
const TURN: Duration = Duration::from_millis(1500);

/// A group commit with one stream under the rule that new streams have.
struct World {
    group_commit: GroupCommit<BoxedLog>,
    keys: AtomicU64,
    _directory: tempfile::TempDir,
}

impl World {
    fn new(folder: &Path) -> Self {
        let directory = tempfile::tempdir_in(folder).expect("a folder to write to");
        let mut gate = open(directory.path());
        furnish(&mut gate);
        let Ok(HeadCheck::Sound(sound)) = Heads::none().check(gate) else { panic!("nothing was exported") };
        let world =
            Self { group_commit: GroupCommit::new(sound, || 0), keys: AtomicU64::new(0), _directory: directory };
        // The write-ahead log grows to its size once; what is measured is the long run.
        for _ in 0..500 {
            let _answer = world.group_commit.charge(world.request(WINDOW)).expect("a healthy log");
        }
        world
    }

    fn request(&self, window: u32) -> Request {
        request(self.keys.fetch_add(1, Ordering::Relaxed), window)
    }

    /// So many clients, each with one charge after the other.
    fn charges_each_second(&self, clients: usize, window: u32, time: Duration) -> f64 {
        let stop = AtomicBool::new(false);
        let count = AtomicU64::new(0);
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let answer = self.group_commit.charge(self.request(window)).expect("a healthy log");
                        assert!(matches!(answer, ChargeOutcome::Granted(_)), "everything fits");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
        });
        count.into_inner() as f64 / start.elapsed().as_secs_f64()
    }
}

fn open(directory: &Path) -> Gate<BoxedLog> {
    Directory::open(directory).expect("a free directory").gate().expect("a whole chain")
}

fn furnish<L: Log>(gate: &mut Gate<L>) {
    let ceiling = Ceiling {
        epsilon: Epsilon::ceiling("1").expect("a ceiling"),
        delta: Delta::ceiling("1e-6").expect("a ceiling"),
    };
    let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
    let stream = gate.create_stream(0, "rides", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, (0..BLOCKS).map(|block| format!("hour={block}")).collect()).expect("blocks");
}

/// A request under this key for a window of blocks somewhere in the stream.
fn request(key: u64, window: u32) -> Request {
    let sigma = Sigma::cost("1e6").expect("a multiplier");
    let part = Mechanism::Gaussian { sigma, coordinates: 1, count: 1 };
    let dice = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let first = (dice >> 33) as u32 % (BLOCKS - window + 1);
    Request {
        key: RequestKey::from_text(&key.to_string()),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: Blocks::range(first, first + window - 1).expect("blocks"),
        costs: [Some(Cost::new(vec![part]).expect("a cost")), None],
        access: AccessMode::Enforced,
        purpose: "bench".to_owned(),
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Charges over 100 blocks with so many clients, in turns with guarded updates of 100 rows in PostgreSQL.
fn durable(folder: &Path, clients: usize) -> Outcome {
    let world = World::new(folder);
    let postgres = Postgres::find();
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(world.charges_each_second(clients, WINDOW, TURN));
        peers.extend(postgres.as_ref().map(|postgres| postgres.charges_each_second(clients)));
    }
    Outcome { ours: median(ours), peer: (!peers.is_empty()).then(|| median(peers)) }
}

/// What has no peer: it would wait for a table's worth of locks, or for a thousand server processes.
fn alone(folder: &Path, clients: usize, window: u32) -> Outcome {
    let world = World::new(folder);
    let ours = (0..TURNS).map(|_| world.charges_each_second(clients, window, TURN)).collect();
    Outcome { ours: median(ours), peer: None }
}

/// Commits of one client, in turns with the least that any store could do: 4 KiB written over and flushed.
fn flush_share(folder: &Path) -> Outcome {
    let world = World::new(folder);
    let raw = Raw::new(world._directory.path());
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..2 * TURNS {
        ours.push(world.charges_each_second(1, WINDOW, TURN / 2));
        peers.push(raw.flushes_each_second(TURN / 2));
    }
    Outcome { ours: median(ours), peer: Some(median(peers)) }
}

/// A file as large as the write-ahead log, all of it written.
struct Raw {
    file: File,
}

impl Raw {
    const PAGES: u64 = 1024;

    fn new(folder: &Path) -> Self {
        let file = OpenOptions::new().create_new(true).write(true).open(folder.join("raw")).expect("a file");
        file.write_all_at(&vec![1; Self::PAGES as usize * 4096], 0).expect("written");
        file.sync_all().expect("flushed");
        Self { file }
    }

    fn flushes_each_second(&self, time: Duration) -> f64 {
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < time {
            self.file.write_all_at(&[2; 4096], count % Self::PAGES * 4096).expect("written");
            self.file.sync_data().expect("flushed");
            count += 1;
        }
        count as f64 / start.elapsed().as_secs_f64()
    }
}

/// Seconds to open a directory whose log has a million events, from the first one on.
fn replay(folder: &Path) -> Outcome {
    start(folder, |_| ())
}

/// The same where a snapshot was kept at the end.
fn snapshot(folder: &Path) -> Outcome {
    start(folder, |engine| engine.checkpoint().expect("a healthy log"))
}

/// Seconds to open a directory whose log has a million events, after something was done at its end.
fn start(folder: &Path, finish: impl FnOnce(&Engine)) -> Outcome {
    let directory = tempfile::tempdir_in(folder).expect("a folder to write to");
    let mut log = Directory::open(directory.path()).expect("a new directory").log().expect("a log");
    for page in lives().chunks(1000) {
        let before = Head { length: page[0].number, hash: page[0].previous };
        log.append(before, page.to_vec()).expect("a healthy log");
    }
    drop(log);
    let open = || match Engine::open(directory.path(), &EngineOptions::default()).expect("a sound directory") {
        Opened::Ready(engine) => *engine,
        Opened::Fenced(_) => panic!("the directory is not fenced"),
    };
    finish(&open());
    let seconds = (0..3).map(|_| {
        let start = Instant::now();
        let engine = open();
        let taken = start.elapsed().as_secs_f64();
        assert!(engine.snapshot().expect("a look").head().length >= 1_000_000);
        taken
    });
    Outcome { ours: seconds.fold(f64::INFINITY, f64::min), peer: None }
}

/// A million events of grants that were charged, started and ended, as most are in a log.
fn lives() -> Vec<Record> {
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    furnish(&mut gate);
    let mut key = 0;
    while gate.head().length < 1_000_000 {
        let answers = gate.charge(0, (key..key + 1000).map(|key| request(key, WINDOW)));
        for answer in answers.expect("a healthy log") {
            let ChargeOutcome::Granted(grant) = answer else { panic!("everything fits") };
            let id = grant.id();
            let _permit = gate.start(0, grant).expect("waiting");
            gate.burn(0, id).expect("running");
        }
        key += 1000;
    }
    gate.into_log().records
}

/// A server beside us, with a table of as many budgets as our stream has blocks.
struct Postgres {
    sockets: PathBuf,
    pgbench: PathBuf,
    script: tempfile::NamedTempFile,
}

/// One charge is one call of a function, and one transaction: all hundred rows or none. That is one round trip
/// where a client with its own transaction would need three.
const SCHEMA: [&str; 5] = [
    "DROP TABLE IF EXISTS budget",
    "CREATE TABLE budget (block int PRIMARY KEY, spent bigint NOT NULL, cap bigint NOT NULL)",
    "INSERT INTO budget SELECT block, 0, 1000000000000 FROM generate_series(0, 9999) block",
    "VACUUM ANALYZE budget",
    "CREATE OR REPLACE FUNCTION charge(first int, last int, cost bigint) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE updated int;
    BEGIN
        UPDATE budget SET spent = spent + cost WHERE block BETWEEN first AND last AND spent + cost <= cap;
        GET DIAGNOSTICS updated = ROW_COUNT;
        IF updated <> last - first + 1 THEN RAISE EXCEPTION 'it does not fit'; END IF;
    END $$",
];

impl Postgres {
    fn find() -> Option<Self> {
        let sockets = PathBuf::from(std::env::var_os("SAGE_BENCH_POSTGRES")?);
        let pgbench = PathBuf::from(std::env::var_os("SAGE_BENCH_PGBENCH")?);
        let script = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(script.path(), "\\set first random(0, 9900)\nSELECT charge(:first, :first + 99, 1);\n")
            .expect("written");
        let server = Self { sockets, pgbench, script };
        let psql = server.pgbench.with_file_name("psql");
        let mut command = server.client(&psql);
        for statement in SCHEMA {
            command.args(["-c", statement]);
        }
        let made = command.args(["-q", "-v", "ON_ERROR_STOP=1"]).output().expect("psql");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(server)
    }

    fn client(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("-h").arg(&self.sockets).args(["-U", "sage"]).env("PGDATABASE", "postgres");
        command
    }

    fn charges_each_second(&self, clients: usize) -> f64 {
        let threads = clients.min(2).to_string();
        let mut command = self.client(&self.pgbench);
        command.args(["-n", "-M", "prepared", "--max-tries=100", "-T", "2", "-j", &threads, "-c"]);
        command.arg(clients.to_string()).arg("-f").arg(self.script.path());
        let output = command.output().expect("pgbench");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.unwrap_or_else(|| panic!("pgbench gives no rate: {said}"))
    }
}

fn main() {
    let folder = std::env::var_os("SAGE_BENCH_DIRECTORY").map_or_else(std::env::temp_dir, PathBuf::from);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    for measurement in MEASUREMENTS {
        if names.is_empty() || names.iter().any(|name| *name == measurement.name) {
            let Outcome { ours, peer } = (measurement.measure)(&folder);
            let peer = peer.map_or(String::new(), |peer| format!(r#", "peer": {peer:?}"#));
            let Measurement { name, unit, .. } = measurement;
            println!(r#"{{"name": "{name}", "ours": {ours:?}, "unit": "{unit}"{peer}}}"#);
        }
    }
}
