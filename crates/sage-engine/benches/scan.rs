//! Measurements of reading and of the generator, for `cargo xtask bench engine` and `cargo xtask bench learn`.
//!
//! One JSON object a line is printed: `name`, `ours`, `peer`, `unit`. The peer of `scan` is plain DataFusion on the same
//! files, with the same filter and expressions, on two threads. That of `group_by_mean` is DuckDB on the same files and
//! rows, without noise, on two threads. Both run in the same run in a process that is already warm;
//! `SAGE_BENCH_PYTHON` is a Python that has them. With names as arguments only those run.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, TimestampMicrosecondType};
use object_store::local::LocalFileSystem;
use parquet::arrow::ArrowWriter;
use sage_engine::blocks::{LANE_COLUMN, Part};
use sage_engine::generate::{Day, Taxi, write};
use sage_engine::read::{
    Batch, Expression, Query, Row, Source, SummaryPlan, SummaryRetention, Unit, open, open_summed, prepare,
};
use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, BlockId, Blocks, Ceiling, ChargeOutcome, ContextId, Contribution, Cost, Delta, Epsilon,
    Filter, Gate, Lane, Mechanism, MemoryLog, Permit, Policy, Request, RequestKey, Rows, Rule, StreamId, TableNoise,
};
use sage_learn::statistics::GroupBy;
use tempfile::TempDir;

const STREAM: &str = "taxi";
/// Four weeks of hourly blocks.
const HOURS: u64 = 672;
const FILTER: &str = "distance < 100 AND duration BETWEEN 1 AND 9000";
const COLUMNS: [&str; 3] = ["CAST(duration AS DOUBLE) / 9000.0", "distance * 1.609", "extract(hour from pickup)"];

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| word == name);
    if wanted("scan") {
        scan();
    }
    if wanted("generate_taxi") {
        generate_taxi();
    }
    if wanted("group_by_mean") {
        group_by_mean();
    }
}

/// The mean speed of every hour of the day.
const SPEED: &str = "CASE WHEN duration > 0 THEN distance * 3600 / duration END";
const TOP_SPEED: f64 = 100.0;

const MEANS: &str = "\
import duckdb, sys, time
base = duckdb.connect()
base.execute('SET threads = 2')
best = 1e9
for _ in range(9):
    start = time.perf_counter()
    found = base.execute(sys.argv[1]).fetchall()
    best = min(best, time.perf_counter() - start)
assert len(found) == 24, found
print(best)
";

/// Private means of 24 groups from Parquet, the charge and the noise included.
fn group_by_mean() {
    let folder = TempDir::new().expect("a folder");
    let taxi = Taxi::new(HOURS * 8_448, first_day(), 1).expect("a stream");
    let parts = write_blocks(&taxi, folder.path(), 24);
    let mut yard = Yard::new(&parts);
    let store = LocalFileSystem::new_with_prefix(folder.path()).expect("a store");
    let parts = parts.into_iter().enumerate().map(|(block, part)| (BlockId(block as u32), part));
    let source = Source::new(yard.gate.ledger(), STREAM, parts, Arc::new(store)).expect("parts of the blocks");
    let column = |(name, sql): (&str, &str)| Expression { name: name.to_owned(), sql: sql.to_owned() };
    let columns = [("hour", "extract(hour from pickup)"), ("speed", SPEED)].map(column).to_vec();
    let query = Query { filter: None, columns };
    let epsilon = Epsilon::cost("0.1").expect("a loss");
    let group = GroupBy { keys: 24, bounds: (0.0, TOP_SPEED), noise: TableNoise::Laplace(epsilon) };
    let mut best = f64::INFINITY;
    let value = |row: Row<'_>| Some((row.integer(0)? as u32, row.number(1)?));
    for _ in 0..9 {
        let start = Instant::now();
        let prepared = prepare(&Taxi::schema(), &query).expect("allowed");
        let permit = yard.permit_for(&Cost::new(group.mechanisms()).expect("a cost"));
        let noise = SecureNoise::new().expect("randomness");
        let sum = |permit: &_, part, rows: &[Batch]| {
            Ok(group.summarise(Contribution::ONE, permit, part, rows, value)?.into_iter().collect())
        };
        let sums = SummaryPlan { lanes: &Lane::BOTH, sum: &sum, keep: SummaryRetention::Discard };
        let opened = open_summed(permit, noise, &source, &prepared, &Unit::Row, &|batch| batch, &sums);
        let mut session = opened.expect("reads");
        let groups = group.run(&mut session, Lane::Train, 0.05, value);
        assert_eq!(black_box(groups.expect("covered")).len(), 24);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let files = folder.path().join(STREAM).join("**").join("*.parquet");
    let means = format!(
        "SELECT extract(hour from pickup) AS hour, avg(least(greatest({SPEED}, 0), {TOP_SPEED})) \
         FROM read_parquet('{}', hive_partitioning = false) WHERE NOT {LANE_COLUMN} AND pickup IS NOT NULL GROUP BY 1",
        files.display()
    );
    print_rates("group_by_mean", taxi.rows() as f64, best, measured_peer(MEANS, &[&means]));
}

fn first_day() -> Day {
    "2026-03-02".parse().expect("a day")
}

/// Rows a second, written to Parquet and all.
fn generate_taxi() {
    let rows = 12_000_000;
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let folder = TempDir::new().expect("a folder");
        let start = Instant::now();
        let taxi = Taxi::new(rows, first_day(), 1).expect("a stream");
        write(&taxi, folder.path(), None).expect("written");
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(r#"{{"name":"generate_taxi","ours":{:.0},"unit":"rows/s"}}"#, rows as f64 / best);
}

/// Granted blocks with a filter and three expressions.
fn scan() {
    let folder = TempDir::new().expect("a folder");
    let taxi = Taxi::new(HOURS * 4_224, first_day(), 1).expect("a stream");
    let parts = write_blocks(&taxi, folder.path(), 1);
    let mut yard = Yard::new(&parts);
    let store = LocalFileSystem::new_with_prefix(folder.path()).expect("a store");
    let parts = parts.into_iter().enumerate().map(|(block, part)| (BlockId(block as u32), part));
    let source = Source::new(yard.gate.ledger(), STREAM, parts, Arc::new(store)).expect("parts of the blocks");
    let column = |(index, sql): (usize, &&str)| Expression { name: format!("c{index}"), sql: (*sql).to_owned() };
    let query = Query { filter: Some(FILTER.to_owned()), columns: COLUMNS.iter().enumerate().map(column).collect() };
    let mut ours = || {
        let prepared = prepare(&Taxi::schema(), &query).expect("allowed");
        let noise = SecureNoise::new().expect("randomness");
        let session = open(yard.permit(), noise, &source, &prepared, &Unit::Row).expect("reads");
        let rows = session.into_attested().unwrap_or_else(|_| panic!("the access mode is attested"));
        Lane::BOTH.iter().flat_map(|&lane| rows.lane(lane)).map(Rows::count).sum::<usize>()
    };
    let mut best = f64::INFINITY;
    let mut found = 0;
    for _ in 0..7 {
        let start = Instant::now();
        found = black_box(ours());
        best = best.min(start.elapsed().as_secs_f64());
    }
    let text = format!("SELECT {} FROM rows WHERE {FILTER}", COLUMNS.join(", "));
    let files = folder.path().join(STREAM);
    let peer = measured_peer(SCAN, &[&text, &files.display().to_string(), &found.to_string()]);
    print_rates("scan", taxi.rows() as f64, best, peer);
}

const SCAN: &str = "\
import datafusion, sys, time
config = datafusion.SessionConfig().with_target_partitions(2)
context = datafusion.SessionContext(config)
context.register_parquet('rows', sys.argv[2], file_extension='.parquet')
best = 1e9
for _ in range(7):
    start = time.perf_counter()
    found = sum(batch.num_rows for batch in context.sql(sys.argv[1]).collect())
    best = min(best, time.perf_counter() - start)
assert found == int(sys.argv[3]), 'both read the same rows'
print(best)
";

/// The best time of a peer in seconds, if there is a Python that has it.
fn measured_peer(program: &str, arguments: &[&str]) -> Option<f64> {
    let python = std::env::var_os("SAGE_BENCH_PYTHON")?;
    let output = Command::new(python).args(["-c", program]).args(arguments).output().expect("the peer runs");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(text.parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

/// Prints the rows a second of both.
fn print_rates(name: &str, rows: f64, ours: f64, peer: Option<f64>) {
    let theirs = peer.map(|peer| format!(r#","peer":{:.0}"#, rows / peer)).unwrap_or_default();
    println!(r#"{{"name":"{name}","ours":{:.0}{theirs},"unit":"rows/s"}}"#, rows / ours);
}

/// A gate with a block for every part.
struct Yard {
    gate: Gate<MemoryLog>,
    blocks: u32,
    requests: u32,
}

impl Yard {
    fn new(parts: &[Part]) -> Self {
        let ceiling = Ceiling {
            epsilon: Epsilon::ceiling("1000").expect("a ceiling"),
            delta: Delta::ceiling("1e-6").expect("a ceiling"),
        };
        let filter = Filter::new(Rule::Basic, ceiling).expect("a filter");
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
        let stream = gate.create_stream(0, STREAM, Policy::single(filter, AccessModes::AttestedToo)).expect("a stream");
        gate.add_blocks(0, stream, parts.iter().map(|part| part.block.clone()).collect()).expect("blocks");
        Self { gate, blocks: parts.len() as u32, requests: 0 }
    }

    /// Leave to read all the blocks, and to count what was read.
    fn permit(&mut self) -> Permit {
        let cost = Cost::new(vec![Mechanism::Pure { epsilon: Epsilon::cost("0.1").expect("a loss") }]);
        let cost = cost.expect("a cost");
        let access = AccessMode::Attested { author: "bench".to_owned(), reason: "to count synthetic rows".to_owned() };
        self.charged([Some(cost.clone()), Some(cost)], access)
    }

    /// Leave to read the train lane of all the blocks.
    fn permit_for(&mut self, cost: &Cost) -> Permit {
        self.charged([Some(cost.clone()), None], AccessMode::Enforced)
    }

    fn charged(&mut self, costs: [Option<Cost>; 2], access: AccessMode) -> Permit {
        self.requests += 1;
        let request = Request {
            key: RequestKey::from_text(&self.requests.to_string()),
            stream: StreamId(0),
            context: ContextId(0),
            blocks: Blocks::range(0, self.blocks - 1).expect("blocks"),
            costs,
            access,
            purpose: "bench".to_owned(),
        };
        let answer = self.gate.charge(0, vec![request]).expect("the log takes it").remove(0);
        let ChargeOutcome::Granted(grant) = answer else { panic!("not granted: {answer:?}") };
        self.gate.start(0, grant).expect("starts")
    }
}

/// Writes the rides of every so many hours as a part: the train lane's row group, then the test lane's.
fn write_blocks(taxi: &Taxi, folder: &Path, hours: i64) -> Vec<Part> {
    let rides: Vec<RecordBatch> = taxi.batches().collect();
    let rides = arrow::compute::concat_batches(&Taxi::schema(), &rides).expect("one schema");
    let times = rides.column(0).as_primitive::<TimestampMicrosecondType>();
    let hour_at = |row: usize| times.is_valid(row).then(|| times.value(row) / 3_600_000_000 / hours);
    let mut parts = Vec::new();
    let mut first = 0;
    while first < rides.num_rows() {
        let Some(hour) = hour_at(first) else {
            first += 1;
            continue;
        };
        let same = |&row: &usize| hour_at(row).is_none_or(|other| other == hour);
        let count = (first..rides.num_rows()).take_while(same).count();
        parts.push(write_part(&rides.slice(first, count), hour, folder));
        first += count;
    }
    parts
}

fn write_part(rides: &RecordBatch, hour: i64, folder: &Path) -> Part {
    let mut fields: Vec<Field> = rides.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new(LANE_COLUMN, DataType::Boolean, false));
    let schema = Arc::new(Schema::new(fields));
    let mut part = Part { block: format!("hour={hour}"), file: "part.parquet".to_owned(), digest: [0; 32] };
    let path = folder.join(part.path(STREAM));
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
    let mut writer = ArrowWriter::try_new(File::create(&path).expect("a file"), Arc::clone(&schema), None);
    let writer = writer.as_mut().expect("a writer");
    for lane in [false, true] {
        let of_lane: Vec<bool> = (0..rides.num_rows()).map(|row| (row % 10 == 9) == lane).collect();
        let rows = filter_record_batch(rides, &BooleanArray::from(of_lane)).expect("a lane for each row");
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(BooleanArray::from(vec![lane; rows.num_rows()])) as ArrayRef);
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns).expect("rows")).expect("written");
        writer.flush().expect("flushed");
    }
    writer.finish().expect("finished");
    part.digest = *blake3::hash(&std::fs::read(&path).expect("the file is there")).as_bytes();
    part
}
