//! Own code: the model of a correct program is released as attested; a faulty or hostile program is contained, its
//! failure is reported to its author, and its charge stands.

mod foreign;

use std::fmt::Write as _;
use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use sage_engine::adapt::{End, Outcome};
use sage_engine::ingest::Source;
use sage_engine::{AttemptOutcome, Engine, EngineError, EngineOptions, Epsilon, Opened, Principal, RunView};
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
access_modes = ["enforced", "attested"]

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
strategy = "frugal"
attempts = 2
"#;

/// Writes the model y = x in the accepted format: a description and weights.
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

fn principal(name: &str) -> Principal {
    Principal::named(name).expect("a name")
}

fn engine(folder: &Path) -> Engine {
    engine_with_rows(folder, STREAM, usize::MAX)
}

fn engine_at(folder: &Path, options: &EngineOptions) -> Engine {
    engine_with_rows_at(folder, options, STREAM, usize::MAX)
}

/// A directory with this stream, in which every `hole`-th row has no x.
fn engine_with_rows(folder: &Path, stream: &str, hole: usize) -> Engine {
    engine_with_rows_at(folder, &EngineOptions::default(), stream, hole)
}

fn engine_with_rows_at(folder: &Path, options: &EngineOptions, stream: &str, hole: usize) -> Engine {
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.join("sage"), options) else { panic!("a new directory") };
    engine.create_stream(&principal("ada"), stream).expect("a stream");
    let mut csv = "at,x,y\n".to_owned();
    for index in 0..24_000_usize {
        let share = (index % 100) as f64 / 100.0;
        let x = if index % hole == hole - 1 { String::new() } else { share.to_string() };
        let _ = writeln!(csv, "2026-01-01T{:02}:00:00Z,{x},{share}", index % 4);
    }
    let rows = folder.join("rows.csv");
    std::fs::write(&rows, csv).expect("a file");
    engine.ingest(&principal("dan"), "points", "all", Source::path(&rows)).expect("a batch");
    let blocks = engine.snapshot().expect("a snapshot").blocks("points").expect("the stream");
    let keys: Vec<String> = blocks.into_iter().map(|block| block.key).collect();
    engine.seal(&principal("dan"), "points", &keys).expect("sealed");
    *engine
}

/// Submits a program and runs its attempts.
fn attempt(program: &str) -> (TempDir, Engine, RunView) {
    attempt_at(program, PIPELINE, &EngineOptions::default())
}

/// The same with an interpreter and its environment, and rows over Arrow Flight.
fn attempt_with(program: &str, python: &Path, environment: &Path) -> (TempDir, Engine, RunView) {
    let options = EngineOptions { shown: vec![environment.to_owned()], ..EngineOptions::default() };
    let text = PIPELINE.replace("\"python3\"", &format!("{:?}", python.display().to_string()));
    let text = text.replace("time_limit = \"1m\"", "time_limit = \"5m\"\nrows = \"flight\"");
    attempt_at(program, &text, &options)
}

fn attempt_at(program: &str, pipeline: &str, options: &EngineOptions) -> (TempDir, Engine, RunView) {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = engine_at(folder.path(), options);
    let code = folder.path().join("code");
    std::fs::create_dir(&code).expect("a folder");
    std::fs::write(code.join("train.py"), program).expect("a program");
    let run = engine.submit_with(&principal("mia"), pipeline, Some(&code), 0).expect("submitted");
    engine.work(1).expect("no error");
    let run = engine.run(run).expect("the run");
    assert!(!engine.path().join("scratch").join("1-1").exists(), "the rows of the program are removed");
    (folder, engine, run)
}

fn reasons(run: &RunView) -> Vec<String> {
    let reason = |outcome: &Option<AttemptOutcome>| match outcome {
        Some(AttemptOutcome::Lost(reason)) => reason.clone(),
        other => format!("{other:?}"),
    };
    run.attempts.iter().map(|attempt| reason(&attempt.outcome)).collect()
}

/// How each attempt of a run ended, as its author sees it. Other users must not see this: the program has read rows, and
/// its exit code can depend on them.
fn reasons_for_author(engine: &Engine, run: &RunView) -> Vec<String> {
    let reasons = reasons(run);
    assert!(reasons.iter().all(|reason| reason.contains("its author sees why")), "{reasons:?}");
    for other in ["dan", "ada", "max"] {
        let refused = engine.printed(&principal(other), run.number);
        assert!(matches!(refused, Err(EngineError::NotInRole { .. })), "{other} reads how the program ended");
    }
    let printed = engine.printed(&principal("mia"), run.number).expect("hers");
    let ended = |text: &String| text.split_once("how it ended:").map_or("nothing", |(_, why)| why).to_owned();
    let reasons_seen: Vec<String> = printed.iter().map(|(_, text)| ended(text)).collect();
    for why in &reasons_seen {
        let why = why.trim();
        assert!(!reasons.iter().any(|reason| reason.contains(why)), "{reasons:?} show {why} to all users");
    }
    reasons_seen
}

fn spent(engine: &Engine) -> Epsilon {
    engine.snapshot().expect("a snapshot").stream("points").expect("the stream").spent
}

fn a_good_program_is_released_as_attested() {
    let program = MODEL.replace("COLUMN", "\"x\"") + "\nprint('for its author')\n";
    let (_folder, engine, run) = attempt(&program);
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&run));
    let printed = engine.printed(&principal("mia"), run.number).expect("hers");
    assert!(printed.iter().any(|(_, text)| text.contains("for its author")), "{printed:?}");
    for other in ["dan", "ada", "max"] {
        let refused = engine.printed(&principal(other), run.number);
        assert!(matches!(refused, Err(EngineError::NotInRole { .. })), "{other} reads what the program printed");
    }
    let release = engine.release_named("own").expect("released");
    let files = engine.release_files(&release).expect("files");
    let receipt = files.iter().find(|(name, _)| name == "receipt.json").expect("a receipt");
    assert!(String::from_utf8_lossy(&receipt.1).contains("\"attested\""));
    let predictor = engine.predictor(&release).expect("a model");
    assert_eq!(predictor.columns().len(), 1);
}

/// Name, program, and a part of the reason that its author sees.
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
    (
        "telling",
        "import os\nfor name in ['graph.json', 'weights.safetensors']:\n    open(os.environ['SAGE_OUTPUT'] + '/' + name, 'w').write('{\"format\": 1,\\n\"secret\": 1}')",
        "`graph.json` cannot be read: line 2, column 8",
    ),
    ("network", "import socket\nsocket.create_connection(('127.0.0.1', 1), 2)", "exit code 1"),
];

fn a_bad_program_is_contained_and_explained(program: &str, reason_part: &str) {
    let (_folder, engine, run) = attempt(program);
    let reasons = reasons_for_author(&engine, &run);
    assert!(
        !reasons.is_empty() && reasons.iter().all(|reason| reason.contains(reason_part)),
        "{reasons:?} should contain {reason_part}"
    );
    assert!(!reasons.iter().any(|reason| reason.contains("secret")), "{reasons:?} repeat output of the program");
    assert_eq!(run.outcome(), Some(Outcome::Stopped(End::Limit(sage_engine::adapt::Limit::Attempts))), "{reasons:?}");
    assert!(engine.releases().is_empty());
    assert!(spent(&engine) > Epsilon::ZERO, "it read rows, so its charge stands");
}

fn a_program_that_hangs_is_stopped_with_its_children() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = engine(folder.path());
    let code = folder.path().join("code");
    std::fs::create_dir(&code).expect("a folder");
    let program = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(1000)";
    std::fs::write(code.join("train.py"), program).expect("a program");
    // The shortest time limit of a pipeline file is a minute; the crate of the sandbox tests shorter ones.
    let spin = PIPELINE.replace("attempts = 2", "attempts = 1");
    let run = engine.submit_with(&principal("mia"), &spin, Some(&code), 0).expect("submitted");
    engine.work(1).expect("no error");
    let run = engine.run(run).expect("the run");
    let reasons_seen = reasons_for_author(&engine, &run);
    assert!(reasons_seen[0].contains("limit: Time"), "{reasons_seen:?}");
}

fn a_program_that_reports_too_much_loss_is_refused() {
    let program =
        MODEL.replace("COLUMN", "\"x\"").replace("\"sigma\": 50.0, \"q\": 0.01", "\"sigma\": 0.5, \"q\": 0.9");
    let (_folder, engine, run) = attempt(&program);
    let reasons_seen = reasons_for_author(&engine, &run);
    assert!(
        reasons_seen.iter().all(|reason| reason.contains("more privacy loss than it was granted")),
        "{reasons_seen:?}"
    );
    assert!(engine.releases().is_empty());
}

fn a_model_of_other_columns_is_refused() {
    let (_folder, engine, run) = attempt(&MODEL.replace("COLUMN", "\"salary\""));
    let expected =
        |reason: &String| reason.contains("a column that the stream does not have") && !reason.contains("salary");
    let reasons_seen = reasons_for_author(&engine, &run);
    assert!(!reasons_seen.is_empty() && reasons_seen.iter().all(expected), "{reasons_seen:?}");
    assert!(engine.releases().is_empty());
}

/// A minimal client for HTTP/2, gRPC and Flight that shares no code with the server.
const CLIENT: &str = r#"
import json, os, socket, struct
context = json.load(open(os.environ["SAGE_CONTEXT"]))
assert os.listdir(context["rows"]) == []
location = context["flight"]["location"]
assert location.startswith("grpc+unix:///"), location
ticket = context["flight"]["ticket"].encode()

def frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body

def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

def get(method, message):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(30)
    peer.connect(location[len("grpc+unix://"):])
    headers = b"".join(literal(*pair) for pair in [
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/arrow.flight.protocol.FlightService/" + method),
        (b":authority", b"localhost"), (b"te", b"trailers"), (b"content-type", b"application/grpc")])
    body = b"\0" + struct.pack(">I", len(message)) + message
    settings = frame(4, 0, 0, struct.pack(">HI", 4, 0x7fffffff))
    window = frame(8, 0, 0, struct.pack(">I", 0x7fffffff - 65535))
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + window
    peer.sendall(hello + frame(1, 4, 1, headers) + frame(0, 1, 1, body))
    stream, data = peer.makefile("rb"), b""
    while True:
        head = stream.read(9)
        if len(head) < 9:
            return data
        kind, flags, body = head[3], head[4], stream.read(int.from_bytes(head[:3], "big"))
        if kind in (4, 6) and not flags & 1:
            peer.sendall(frame(kind, 1, 0, body if kind == 6 else b""))
        if kind == 0:
            data += body
        if kind in (3, 7) or (kind in (0, 1) and flags & 1):
            return data

def number(message, at):
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 128:
            return value, at

def doubles(data):
    while data:
        size = struct.unpack(">I", data[1:5])[0]
        message, data, at = data[5:5 + size], data[5 + size:], 0
        while at < len(message):
            key, at = number(message, at)
            length, at = number(message, at)
            if key >> 3 == 1000:
                whole = length // 8 * 8
                yield from struct.unpack("<%dd" % (whole // 8), message[at:at + whole])
            at += length

def ticket_message(text):
    return b"\x0a" + bytes([len(text)]) + text

for other in [b"", b"0" * 64, b"hour=0", b"hour=1", ticket[:-1] + b"x"]:
    assert get(b"DoGet", ticket_message(other)) == b"", other
for method in [b"ListFlights", b"GetFlightInfo", b"GetSchema", b"DoAction", b"ListActions"]:
    assert get(method, b"") == b"", method
times = [value for value in doubles(get(b"DoGet", ticket_message(ticket))) if 1.7e9 < value < 1.9e9]
midnight = 1767225600
assert set(times) == {midnight + 2 * 3600, midnight + 3 * 3600}, "the two newest blocks and no others"
assert 7600 < len(times) < 9200, "the train lane of the two, which is seven in ten"
assert get(b"DoGet", ticket_message(ticket)) == b"", "once"
"#;

fn rows_come_over_flight_once() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = engine(folder.path());
    let code = folder.path().join("code");
    std::fs::create_dir(&code).expect("a folder");
    let model: String = MODEL.lines().filter(|line| !line.contains("rows")).map(|line| format!("{line}\n")).collect();
    let program = format!("{CLIENT}\n{}", model.replace("COLUMN", "\"x\""));
    std::fs::write(code.join("train.py"), program).expect("a program");
    let text = PIPELINE.replace("time_limit = \"1m\"", "time_limit = \"2m\"\nrows = \"flight\"");
    let run = engine.submit_with(&principal("mia"), &text, Some(&code), 0).expect("submitted");
    engine.work(1).expect("no error");
    let run = engine.run(run).expect("the run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&run));
    assert!(!engine.path().join("scratch").join("1-1").exists(), "the socket is removed");
    let wrong = PIPELINE.replace("time_limit = \"1m\"", "rows = \"csv\"");
    let refused =
        engine.submit_with(&principal("mia"), &wrong, Some(&code), 0).expect_err("an unknown value").to_string();
    assert!(refused.contains("parquet") && refused.contains("flight"), "{refused}");
}

/// The model of a program, and a release that is tested again, can be compared with another release.
fn a_program_can_be_compared_with_a_release() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = engine(folder.path());
    let mia = principal("mia");
    let submit = |name: &str, goal: &str, weight: &str| {
        let code = folder.path().join(name);
        std::fs::create_dir(&code).expect("a folder");
        let program = MODEL.replace("COLUMN", "\"x\"").replace("\"<ff\", 0.0, 1.0", &format!("\"<ff\", {weight}"));
        std::fs::write(code.join("train.py"), program).expect("a program");
        let text = PIPELINE.replace("\"own\"", &format!("\"{name}\"")).replace("target = 0.1\nbound = 1.0", goal);
        let run = engine.submit_with(&mia, &text.replace("attempts = 2", "attempts = 1"), Some(&code), 0);
        let run = run.expect("submitted");
        engine.work(1).expect("no error");
        engine.run(run).expect("the run")
    };
    // A model that always predicts one half, and a correct one.
    let plain = submit("plain", "target = 0.2\nbound = 0.3", "0.5, 0.0");
    assert_eq!(plain.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&plain));
    let better = submit("better", "better_than = \"plain@1\"\nbound = 0.3", "0.0, 1.0");
    assert_eq!(better.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&better));
    let same = submit("same", "better_than = \"better@1\"\nbound = 0.3", "0.0, 1.0");
    assert_ne!(same.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&same));
    let blocks = engine.snapshot().expect("a snapshot").blocks("points").expect("the stream");
    let newest: Vec<String> = blocks.iter().rev().take(2).map(|block| format!("\"{}\"", block.key)).collect();
    let again = |name: &str, release: &str, baseline: &str| {
        let text = PIPELINE
            .replace("\"own\"", &format!("\"{name}\""))
            .replace(
                "command = [\"python3\", \"train.py\"]\ntime_limit = \"1m\"",
                &format!("kind = \"release\"\nrelease = \"{release}\""),
            )
            .replace("target = 0.1\nbound = 1.0", &format!("better_than = \"{baseline}\"\nbound = 0.3"))
            .replace("attempts = 2", "attempts = 1")
            // Without names a released model is tested on newer blocks.
            .replace("window = { min = 2 }", &format!("blocks = [{}]", newest.join(", ")));
        let run = engine.submit_at(&mia, &text, 0).expect("submitted");
        engine.work(1).expect("no error");
        engine.run(run).expect("the run")
    };
    let up = again("up", "better@1", "plain@1");
    assert_eq!(up.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&up));
    let down = again("down", "plain@1", "better@1");
    assert!(!down.attempts.is_empty() && down.outcome() != Some(Outcome::Accepted), "{:?}", reasons(&down));
    assert_eq!(engine.releases().len(), 2);
}

/// Regression: a release may reject a row, for example one with a null in a column that its author declared as never
/// missing. Only that row has no loss. Such a row once removed the losses of its whole batch: it moved the sum of losses
/// by far more than one row may, and no model could beat even the worst baseline.
fn a_baseline_that_rejects_a_row_loses_only_that_row() {
    let line = PIPELINE
        .replace("\"own\"", "\"line\"")
        .replace("command = [\"python3\", \"train.py\"]\ntime_limit = \"1m\"", "kind = \"ridge\"")
        .replace("[train]", "features = [{ column = \"x\", scale = [0, 1] }]\n[train]")
        .replace("target = 0.1\nbound = 1.0", "better_than = \"plain@1\"\nbound = 0.3");
    let nullable = STREAM.replacen("max = 1.0\n", "max = 1.0\nnullable = true\n", 1);
    for hole in [usize::MAX, 101] {
        let folder = tempfile::tempdir().expect("a directory");
        let engine = engine_with_rows(folder.path(), &nullable, hole);
        let code = folder.path().join("code");
        std::fs::create_dir(&code).expect("a folder");
        // A model that always predicts one half.
        let program = MODEL.replace("COLUMN", "\"x\"").replace("\"<ff\", 0.0, 1.0", "\"<ff\", 0.5, 0.0");
        std::fs::write(code.join("train.py"), program).expect("a program");
        let plain =
            PIPELINE.replace("\"own\"", "\"plain\"").replace("target = 0.1\nbound = 1.0", "target = 0.2\nbound = 0.3");
        engine.submit_with(&principal("mia"), &plain, Some(&code), 0).expect("submitted");
        engine.work(1).expect("no error");
        let plain = engine.run(1).expect("the run");
        assert_eq!(plain.outcome(), Some(Outcome::Accepted), "{hole}: {:?}", reasons(&plain));
        let run = engine.submit_at(&principal("mia"), &line, 0).expect("submitted");
        engine.work(1).expect("no error");
        let run = engine.run(run).expect("the run");
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{hole}: {:?}", reasons(&run));
    }
}

fn own_code_needs_the_attested_mode() {
    let folder = tempfile::tempdir().expect("a directory");
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.path().join("sage"), &EngineOptions::default()) else {
        panic!("a new directory")
    };
    let closed = STREAM.replace("access_modes = [\"enforced\", \"attested\"]", "access_modes = [\"enforced\"]");
    engine.create_stream(&principal("ada"), &closed).expect("a stream");
    let refused =
        engine.submit_with(&principal("mia"), PIPELINE, None, 0).expect_err("only the enforced mode is allowed");
    assert!(refused.to_string().contains("admits no programs"), "{refused}");
}

fn main() {
    sage_sandbox::enter_if_requested();
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    let mut trials = vec![
        trial("a_good_program_is_released_as_attested", a_good_program_is_released_as_attested),
        trial("a_program_that_hangs_is_stopped_with_its_children", a_program_that_hangs_is_stopped_with_its_children),
        trial("a_program_that_reports_too_much_loss_is_refused", a_program_that_reports_too_much_loss_is_refused),
        trial("a_model_of_other_columns_is_refused", a_model_of_other_columns_is_refused),
        trial("own_code_needs_the_attested_mode", own_code_needs_the_attested_mode),
        trial("rows_come_over_flight_once", rows_come_over_flight_once),
        trial("a_program_can_be_compared_with_a_release", a_program_can_be_compared_with_a_release),
        trial("a_baseline_that_rejects_a_row_loses_only_that_row", a_baseline_that_rejects_a_row_loses_only_that_row),
        trial(
            "a_foreign_model_is_released_as_attested_and_predicts",
            foreign::a_foreign_model_is_released_as_attested_and_predicts,
        ),
        trial("the_documented_program_runs", foreign::the_documented_program_runs),
    ];
    trials.extend(foreign::BAD.iter().map(|(name, program, reason_part)| {
        Trial::test(format!("bad::{name}"), move || {
            foreign::a_bad_file_is_contained_and_explained(program, reason_part);
            Ok(())
        })
    }));
    trials.extend(BAD.iter().map(|(name, program, reason_part)| {
        Trial::test(format!("bad::{name}"), move || {
            a_bad_program_is_contained_and_explained(program, reason_part);
            Ok(())
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
