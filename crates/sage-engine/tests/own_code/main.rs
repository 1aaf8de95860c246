//! Programs of a pipeline's author: one that does as it should is released as attested, and each that does not is
//! contained, explained, and charged as the rules say.

use std::fmt::Write as _;
use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use sage_engine::adapt::{End, Outcome};
use sage_engine::ingest::Source;
use sage_engine::{AttemptOutcome, Engine, EngineError, Epsilon, Opened, Places, Principal, RunView};
use tempfile::TempDir;

const STREAM: &str = r#"
[stream]
name = "points"
unit = "event"
time = "at"
blocks = { time = "1h" }
test_share = 0.3

[policy]
epsilon = "8"
delta = "1e-5"
doors = ["enforced", "declared"]

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia", "max"]

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

const PIPELINE: &str = r#"
[pipeline]
name = "own"
stream = "points"
label = "y"
window = { min = 2 }
[train]
command = ["python3", "train.py"]
time_limit = "1m"
[validate]
metric = "mse"
target = 0.1
bound = 1.0
[budget]
epsilon0 = "2"
[adapt]
attempts = 2
"#;

/// Writes y = x in the form that is taken: a description and weights.
const MODEL: &str = r#"
import json, os, struct
context = json.load(open(os.environ["SAGE_CONTEXT"]))
assert context["label"] == "_label" and float(context["epsilon"]) > 0
rows = os.listdir(context["rows"])
assert rows == ["rows.parquet"], rows
assert open(os.path.join(context["rows"], rows[0]), "rb").read(4) == b"PAR1"
messages = open(os.environ["SAGE_MESSAGES"], "w")
print(json.dumps({"kind": "spent", "sigma": 50.0, "q": 0.01, "steps": 10}), file=messages, flush=True)
outline = {
    "schema": {"columns": [{"name": COLUMN, "domain": {"number": {"low": 0.0, "high": 1.0}}, "missing": "never"}], "tables": []},
    "features": [{"name": "x", "formula": {"column": COLUMN}}],
    "fields": [{"number": {"feature": "x", "low": 0.0, "high": 1.0, "shift": 0.0, "factor": 1.0, "missing": 0.0}}],
    "layers": [{"outputs": 1, "activation": "identity"}],
    "link": "identity",
}
output = os.environ["SAGE_OUTPUT"]
json.dump({"format": 1, "outline": outline}, open(output + "/graph.json", "w"))
header = json.dumps({"layer.0.bias": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                     "layer.0.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}}).encode()
header += b" " * (-len(header) % 8)
open(output + "/weights.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<ff", 0.0, 1.0))
"#;

fn somebody(name: &str) -> Principal {
    Principal::named(name).expect("a name")
}

fn engine(folder: &Path) -> Engine {
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.join("sage"), &Places::default()) else {
        panic!("a new directory")
    };
    engine.create_stream(&somebody("ada"), STREAM).expect("a stream");
    let mut csv = "at,x,y\n".to_owned();
    for place in 0..24_000 {
        let share = f64::from(place % 100) / 100.0;
        let _ = writeln!(csv, "2026-01-01T{:02}:00:00Z,{share},{share}", place % 4);
    }
    let rows = folder.join("rows.csv");
    std::fs::write(&rows, csv).expect("a file");
    engine.ingest(&somebody("dan"), "points", "all", Source::path(&rows)).expect("a batch");
    let blocks = engine.snapshot().expect("a snapshot").blocks("points").expect("the stream");
    let keys: Vec<String> = blocks.into_iter().map(|block| block.key).collect();
    engine.seal(&somebody("dan"), "points", &keys).expect("sealed");
    *engine
}

/// Submits a program and lets it be tried.
fn tried(program: &str) -> (TempDir, Engine, RunView) {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = engine(folder.path());
    let code = folder.path().join("code");
    std::fs::create_dir(&code).expect("a folder");
    std::fs::write(code.join("train.py"), program).expect("a program");
    let run = engine.submit_with(&somebody("mia"), PIPELINE, Some(&code), 0).expect("submitted");
    engine.work(1).expect("nothing fails");
    let run = engine.run(run).expect("the run");
    assert!(!engine.path().join("scratch").join("1-1").exists(), "the rows that the program saw are gone");
    (folder, engine, run)
}

fn reasons(run: &RunView) -> Vec<String> {
    let reason = |outcome: &Option<AttemptOutcome>| match outcome {
        Some(AttemptOutcome::Lost(reason)) => reason.clone(),
        other => format!("{other:?}"),
    };
    run.attempts.iter().map(|attempt| reason(&attempt.outcome)).collect()
}

fn spent(engine: &Engine) -> Epsilon {
    engine.snapshot().expect("a snapshot").stream("points").expect("the stream").spent
}

fn a_good_program_is_released_as_attested() {
    let program = MODEL.replace("COLUMN", "\"x\"") + "\nprint('for its author')\n";
    let (_folder, engine, run) = tried(&program);
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&run));
    let printed = engine.printed(&somebody("mia"), run.number).expect("hers");
    assert!(printed.iter().any(|(_, text)| text.contains("for its author")), "{printed:?}");
    for other in ["dan", "ada", "max"] {
        let refused = engine.printed(&somebody(other), run.number);
        assert!(matches!(refused, Err(EngineError::NotInRole { .. })), "{other} reads what the program printed");
    }
    let release = engine.release_named("own").expect("released");
    let files = engine.release_files(&release).expect("files");
    let receipt = files.iter().find(|(name, _)| name == "receipt.json").expect("a receipt");
    assert!(String::from_utf8_lossy(&receipt.1).contains("\"attested\""));
    let predictor = engine.predictor(&release).expect("a model");
    assert_eq!(predictor.columns().len(), 1);
}

/// What a program does, and what is said of it.
const BAD: &[(&str, &str, &str)] = &[
    ("exit", "raise SystemExit(1)", "exit code 1"),
    ("later", "raise SystemExit(75)", "tried later"),
    (
        "garbage",
        "import os\nopen(os.environ['SAGE_MESSAGES'], 'w').write('\\0garbage\\n' * 1000)\nprint('x' * 100000)",
        "left no `graph.json`",
    ),
    ("nothing", "pass", "left no `graph.json`"),
    ("killed", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
    (
        "large",
        "import os\nf = open(os.environ['SAGE_OUTPUT'] + '/graph.json', 'wb')\nwhile True: f.write(b'0' * (1 << 24))",
        "exit code 1",
    ),
    (
        "pickle",
        "import os, pickle\npickle.dump([1], open(os.environ['SAGE_OUTPUT'] + '/graph.json', 'wb'))\nopen(os.environ['SAGE_OUTPUT'] + '/weights.safetensors', 'wb')",
        "cannot be taken",
    ),
    ("network", "import socket\nsocket.create_connection(('127.0.0.1', 1), 2)", "exit code 1"),
];

fn a_bad_program_is_contained_and_explained(program: &str, said: &str) {
    let (_folder, engine, run) = tried(program);
    let reasons = reasons(&run);
    assert!(reasons.iter().all(|reason| reason.contains(said)), "{reasons:?} should say {said}");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Limit(sage_engine::adapt::Limit::Attempts))), "{reasons:?}");
    assert!(engine.releases().is_empty());
    assert!(spent(&engine) > Epsilon::ZERO, "it saw rows, and what it saw stays charged");
}

fn one_that_hangs_is_stopped_with_all_it_started() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = engine(folder.path());
    let code = folder.path().join("code");
    std::fs::create_dir(&code).expect("a folder");
    let program = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(1000)";
    std::fs::write(code.join("train.py"), program).expect("a program");
    // The shortest time a file can say is a minute; the box itself is tried with shorter ones in its own crate.
    let spin = PIPELINE.replace("attempts = 2", "attempts = 1");
    let run = engine.submit_with(&somebody("mia"), &spin, Some(&code), 0).expect("submitted");
    engine.work(1).expect("nothing fails");
    let run = engine.run(run).expect("the run");
    assert!(reasons(&run)[0].contains("limit: Time"), "{:?}", reasons(&run));
}

fn one_that_says_it_spent_more_is_refused() {
    let program =
        MODEL.replace("COLUMN", "\"x\"").replace("\"sigma\": 50.0, \"q\": 0.01", "\"sigma\": 0.5, \"q\": 0.9");
    let (_folder, engine, run) = tried(&program);
    assert!(
        reasons(&run).iter().all(|reason| reason.contains("spent more than it was granted")),
        "{:?}",
        reasons(&run)
    );
    assert!(engine.releases().is_empty());
}

fn a_model_of_other_columns_is_refused() {
    let (_folder, engine, run) = tried(&MODEL.replace("COLUMN", "\"salary\""));
    assert!(reasons(&run).iter().all(|reason| reason.contains("`salary`")), "{:?}", reasons(&run));
    assert!(engine.releases().is_empty());
}

fn the_door_must_be_open() {
    let folder = tempfile::tempdir().expect("a directory");
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.path().join("sage"), &Places::default()) else {
        panic!("a new directory")
    };
    let closed = STREAM.replace("doors = [\"enforced\", \"declared\"]", "doors = [\"enforced\"]");
    engine.create_stream(&somebody("ada"), &closed).expect("a stream");
    let refused = engine.submit_with(&somebody("mia"), PIPELINE, None, 0).expect_err("the door is closed");
    assert!(refused.to_string().contains("admits no programs"), "{refused}");
}

fn main() {
    sage_sandbox::enter_if_asked();
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    let mut trials = vec![
        trial("a_good_program_is_released_as_attested", a_good_program_is_released_as_attested),
        trial("one_that_hangs_is_stopped_with_all_it_started", one_that_hangs_is_stopped_with_all_it_started),
        trial("one_that_says_it_spent_more_is_refused", one_that_says_it_spent_more_is_refused),
        trial("a_model_of_other_columns_is_refused", a_model_of_other_columns_is_refused),
        trial("the_door_must_be_open", the_door_must_be_open),
    ];
    trials.extend(BAD.iter().map(|(name, program, said)| {
        Trial::test(format!("bad::{name}"), move || {
            a_bad_program_is_contained_and_explained(program, said);
            Ok(())
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
