//! Measurements of ingest, for `cargo xtask bench engine`.
//!
//! A year of synthetic rides in one Parquet file goes into hourly blocks, durably, through the engine. The peer is
//! DuckDB's partitioned COPY of the same file on two threads, which does not wait for the disk; both take
//! turns. `SAGE_BENCH_PYTHON` is a Python with duckdb; without it our number stands alone. The directories are
//! made in `SAGE_BENCH_DIRECTORY`, which has to be on a real disk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use sage_engine::generate::{TAXI, Taxi, write};
use sage_engine::ingest::Source;
use sage_engine::{Engine, EngineOptions, IngestOutcome, Opened, Principal};

const RIDES: u64 = 5_000_000;
const TURNS: usize = 3;

const COPY: &str = "\
import duckdb, sys
source, target = sys.argv[1:]
base = duckdb.connect()
base.execute('SET threads = 2')
base.execute(f\"\"\"COPY (SELECT *, strftime(pickup, '%Y-%m-%dT%H') AS hour FROM '{source}')
    TO '{target}' (FORMAT parquet, PARTITION_BY (hour))\"\"\")
";

fn main() {
    let base = std::env::var_os("SAGE_BENCH_DIRECTORY").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(base).expect("a folder to write to");
    let (start, end) = ("2026-01-01".parse().expect("a day"), "2027-01-01".parse().expect("a day"));
    let taxi = Taxi::until(RIDES, start, end, 1).expect("rides");
    let rides = folder.path().join("rides");
    let source = write(&taxi, &rides, Some(1)).expect("written").files.remove(0);
    let python = std::env::var_os("SAGE_BENCH_PYTHON");
    let mut best = [f64::INFINITY; 2];
    for turn in 0..TURNS {
        best[0] = best[0].min(ours(&source, &folder.path().join(format!("ours-{turn}"))));
        if let Some(python) = &python {
            let target = folder.path().join(format!("peer-{turn}"));
            best[1] = best[1].min(peer(Path::new(python), &source, &target));
        }
    }
    let [ours, peer] = best.map(|seconds| RIDES as f64 / seconds);
    let theirs = if python.is_some() { format!(r#","peer":{peer:.0}"#) } else { String::new() };
    println!(r#"{{"name":"ingest_taxi","ours":{ours:.0}{theirs},"unit":"rows/s"}}"#);
}

/// Seconds from the file to a batch that the log names.
fn ours(source: &Path, directory: &Path) -> f64 {
    let Ok(Opened::Ready(engine)) = Engine::open(directory, &EngineOptions::default()) else {
        panic!("a new directory")
    };
    let principal = |name| Principal::named(name).expect("a name");
    engine.create_stream(&principal("ada"), TAXI).expect("a stream");
    let start = Instant::now();
    let outcome = engine.ingest(&principal("dan"), "taxi", "all", Source::path(source)).expect("a batch");
    let taken = start.elapsed().as_secs_f64();
    assert!(matches!(outcome, IngestOutcome::Ingested(report) if report.read == RIDES));
    taken
}

fn peer(python: &Path, source: &Path, target: &Path) -> f64 {
    let start = Instant::now();
    let mut copy = Command::new(python);
    // It draws a bar where our numbers go.
    copy.args(["-c", COPY]).args([source, target]).stdout(Stdio::null());
    assert!(copy.status().expect("DuckDB runs").success(), "DuckDB copied the file");
    start.elapsed().as_secs_f64()
}
