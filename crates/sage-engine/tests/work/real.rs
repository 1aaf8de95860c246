//! A year of real taxi rides, if available, replayed by time: a linear model, a network and three statistics are
//! submitted together and all end, and an independent program confirms the loss.

use std::path::PathBuf;
use std::process::Command;

use sage_engine::adapt::Outcome;
use sage_engine::ingest::Source;
use sage_engine::stream::parse_time;
use sage_engine::{Engine, EngineOptions, Epsilon, Opened};

use crate::city::{frugal, principal};
use crate::loops::describe;

const STREAM: &str = include_str!("../../../sage-store/tests/ingest/taxi.toml");
const SECONDS: &str = "extract(epoch from lpep_dropoff_datetime) - extract(epoch from lpep_pickup_datetime)";

/// Daily blocks, and a principal for each role.
fn stream() -> String {
    let roles = "privacy-officer = [\"ada\"]\ndata-engineer = [\"dan\"]\nml-engineer = [\"mia\"]";
    STREAM.replace("{ time = \"1h\" }", "{ time = \"1d\" }").replace("privacy-officer = [\"ada\"]", roles)
}

fn model(name: &str, train: &str, target: &str) -> String {
    format!(
        "[pipeline]\nname = \"{name}\"\nstream = \"taxi-green\"\nwindow = {{ min = \"28d\" }}\n\
         label = {{ sql = \"({SECONDS}) / 9000\", bounds = [0, 1] }}\n\
         filter = \"trip_distance > 0 AND {SECONDS} BETWEEN 60 AND 9000\"\n\
         features = [\n  {{ column = \"trip_distance\", scale = [0, 20] }},\n  \
         {{ sql = \"extract(hour from lpep_pickup_datetime)\", name = \"hour\", onehot = 24 }},\n  \
         {{ sql = \"extract(dow from lpep_pickup_datetime)\", name = \"day\", onehot = 7 }},\n]\n\
         [train]\n{train}\n[validate]\nmetric = \"mse\"\ntarget = {target}\nbound = 1.0\n"
    )
}

fn speed(name: &str, by: &str, keys: u32) -> String {
    format!(
        "[pipeline]\nname = \"{name}\"\nstream = \"taxi-green\"\nwindow = {{ min = \"14d\" }}\n\
         filter = \"{SECONDS} BETWEEN 60 AND 9000\"\n[train]\nkind = \"statistic\"\nstatistic = \"group_mean\"\n\
         of = \"3600 * trip_distance / ({SECONDS})\"\nby = \"{by}\"\nkeys = {keys}\nbounds = [0, 60]\n\
         [validate]\nmetric = \"precision\"\ntarget = 25.0\n"
    )
}

#[test]
fn a_year_of_rides_is_learned_from_as_it_passes() {
    let Some(data) = std::env::var_os("SAGE_DATA") else {
        println!("left out: SAGE_DATA names no folder with real rows");
        return;
    };
    let folder = tempfile::tempdir().expect("a directory");
    let directory = folder.path().join("sage");
    let Ok(Opened::Ready(engine)) = Engine::open(&directory, &EngineOptions::default()) else {
        panic!("a new directory")
    };
    engine.create_stream(&principal("ada"), &stream()).expect("a stream");
    let rows = Source::path(PathBuf::from(data).join("taxi_green_2023.parquet"));
    engine.ingest(&principal("dan"), "taxi-green", "2023", rows).expect("a batch");
    let steps = "kind = \"mlp\"\nlayers = [32]\nrows = 1900";
    for text in [
        model("duration-line", "kind = \"ridge\"", "0.01"),
        model("duration-network", steps, "0.02"),
        speed("speed-by-hour", "extract(hour from lpep_pickup_datetime)", 24),
        speed("speed-by-day", "extract(dow from lpep_pickup_datetime)", 7),
        speed("speed-by-week", "floor((extract(day from lpep_pickup_datetime) - 1) / 7)", 5),
    ] {
        engine.submit_at(&principal("mia"), &frugal(&text), 0).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    for week in 1..=52_i64 {
        let start = parse_time("2023-01-01").expect("a time");
        let over = engine.open_before("taxi-green", start + week * 7 * 86_400_000_000).expect("a stream");
        if !over.is_empty() {
            engine.seal(&principal("dan"), "taxi-green", &over).expect("sealed");
        }
        engine.work(week.unsigned_abs()).expect("no error");
        let spent = engine.snapshot().expect("a snapshot").stream("taxi-green").expect("the stream").spent;
        assert!(spent <= Epsilon::ceiling("1").expect("a number"), "week {week}: {spent}");
    }
    for run in engine.runs() {
        println!("{} after {} attempts: {}", run.pipeline, run.attempts.len(), run.status());
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    }
    assert_eq!(engine.releases().len(), 5);
    engine.close().expect("closed");
    audited(&directory);
}

/// The independent auditor, which reads only the log, finds no problem.
pub(crate) fn audited(directory: &std::path::Path) {
    let auditor = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/audit.py");
    let audit = Command::new("python3").arg(auditor).arg(directory).output().expect("a Python");
    let output = format!("{}{}", String::from_utf8_lossy(&audit.stdout), String::from_utf8_lossy(&audit.stderr));
    assert!(audit.status.success(), "{output}");
}
