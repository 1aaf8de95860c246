//! The server's measurements, for `cargo xtask bench server`: the release program in a process of its own, and a light
//! client in this one, on the same machine.
//!
//! One JSON object a line. Where there is no peer the number stands beside its target, so that a ratio below
//! one is a number that is short. `SAGE_BENCH_PYTHON` is a Python that has MLflow, whose scoring server gets the
//! same questions about the same model. With names as arguments only those run. Everything lies in `SAGE_BENCH_DIRECTORY`,
//! which has to be on a real disk.

mod client;
mod workdir;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Question, rate};
use sage_engine::{AccessMode, ChargeRequest, Cost, Engine, EngineOptions, Epsilon, Mechanism, Opened, Principal};
use serde_json::json;
use workdir::{Serving, Workdir};

/// Turns that ours and the peer's take; the number is the median.
const TURNS: usize = 5;
const TURN: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 16;

/// A name, our number, the peer's or the target, and the unit.
type Measured = (&'static str, f64, Option<f64>, &'static str);

struct Measurement {
    name: &'static str,
    measure: fn(&Path) -> Vec<Measured>,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement { name: "http_predict", measure: http_predict },
    Measurement { name: "http_charge", measure: http_charge },
    Measurement { name: "blocks_page_ms", measure: blocks_page },
    Measurement { name: "start_ms", measure: start },
    Measurement { name: "demo_seconds", measure: demo },
];

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// One ride to each request, in the words of MLflow's scoring route, which both servers speak.
fn http_predict(folder: &Path) -> Vec<Measured> {
    let workdir = Workdir::with_model(folder);
    let token = workdir.token("carl");
    let serving = Serving::start(&workdir, &["--disclosure-interval", "1"]);
    let ride = json!({"dataframe_split": {
        "columns": ["pickup", "distance", "payment"],
        "data": [[1_793_607_300, 2.5, "card"]],
    }});
    let question = Question::post("/invocations?model=taxi-duration", Some(&token), &ride.to_string());
    // What was released a moment ago is shown to a consumer once its disclosure interval is over.
    thread::sleep(Duration::from_millis(1100));
    let peer = workdir.mlflow();
    let theirs = Question::post("/invocations", None, &ride.to_string());
    if let Some(peer) = &peer {
        let (ours, theirs) = (question.once(&serving.address), theirs.once(&peer.address));
        assert!((client::first_number(&ours) - client::first_number(&theirs)).abs() < 1e-5, "{ours} and {theirs}");
    }
    rate(&serving.address, CONNECTIONS, Duration::from_millis(500), || question.clone());
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(rate(&serving.address, CONNECTIONS, TURN, || question.clone()));
        peers.extend(peer.as_ref().map(|peer| rate(&peer.address, CONNECTIONS, TURN, || theirs.clone())));
    }
    let peer = (!peers.is_empty()).then(|| median(peers));
    vec![("http_predict", median(ours), peer, "predictions/s")]
}

/// Blocks of one charge.
const WINDOW: usize = 10;

/// The same charges by HTTP and by the engine itself, each on a directory of its own, in turns.
fn http_charge(folder: &Path) -> Vec<Measured> {
    let workdir = Workdir::with_blocks(&folder.join("served"), 100);
    let twin = Workdir::with_blocks(&folder.join("own"), 100);
    let token = workdir.token("mia");
    let serving = Serving::start(&workdir, &["--most-changes", "1000000"]);
    let keys = AtomicU64::new(0);
    let question = || {
        let key = keys.fetch_add(1, Ordering::Relaxed);
        let blocks = &workdir.blocks[key as usize * 7 % (workdir.blocks.len() - WINDOW)..][..WINDOW];
        let request =
            json!({"key": key.to_string(), "blocks": blocks, "purpose": "bench", "train": {"epsilon": "1e-9"}});
        Question::post("/v1/streams/wide/charges", Some(&token), &request.to_string()).answered(201)
    };
    let Ok(Opened::Ready(engine)) = Engine::open(&twin.directory(), &EngineOptions::default()) else {
        panic!("a directory")
    };
    rate(&serving.address, CONNECTIONS, Duration::from_millis(500), question);
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(rate(&serving.address, CONNECTIONS, TURN, question));
        peers.push(charges_each_second(&engine, &twin.blocks, &keys));
    }
    vec![("http_charge", median(ours), Some(median(peers)), "charges/s")]
}

fn charges_each_second(engine: &Engine, blocks: &[String], keys: &AtomicU64) -> f64 {
    let (stop, count, began) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let mia = Principal::named("mia").expect("a name");
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let key = keys.fetch_add(1, Ordering::Relaxed);
                    let epsilon = Epsilon::cost("1e-9").expect("a cost");
                    let cost = Cost::new(vec![Mechanism::Pure { epsilon }]).expect("a cost");
                    let ask = ChargeRequest {
                        key: key.to_string(),
                        stream: "wide".to_owned(),
                        context: None,
                        blocks: blocks[key as usize * 7 % (blocks.len() - WINDOW)..][..WINDOW].to_vec(),
                        costs: [Some(cost), None],
                        access: AccessMode::Attested { author: "mia".to_owned(), reason: "bench".to_owned() },
                        purpose: "bench".to_owned(),
                    };
                    let _granted = engine.charge(&mia, ask).expect("everything fits");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TURN);
        stop.store(true, Ordering::Relaxed);
    });
    count.into_inner() as f64 / began.elapsed().as_secs_f64()
}

/// The targets of the page with ten thousand blocks, of the start and of an idle server.
const MOST_PAGE_MS: f64 = 50.0;
const MOST_PAGE_KB: f64 = 500.0;
const MOST_START_MS: f64 = 300.0;
const MOST_IDLE_MIB: f64 = 60.0;
const MOST_DEMO_SECONDS: f64 = 120.0;

/// The page of a stream with ten thousand blocks that have lost different amounts, compressed, to its last byte. A
/// charge goes before each, so that nothing is the same as before.
fn blocks_page(folder: &Path) -> Vec<Measured> {
    let workdir = Workdir::with_blocks(folder, 10_000);
    let token = workdir.token("mia");
    let serving = Serving::start(&workdir, &["--most-changes", "1000000"]);
    let (mut milliseconds, mut kilobytes) = (Vec::new(), 0.0);
    let page = Question::get("/streams/wide", &token).zipped();
    for turn in 0..120 {
        let blocks = &workdir.blocks[turn * 83 % 9_000..][..(turn * 7 % 900) + 1];
        let request =
            json!({"key": turn.to_string(), "blocks": blocks, "purpose": "bench", "train": {"epsilon": "0.0001"}});
        let charge = Question::post("/v1/streams/wide/charges", Some(&token), &request.to_string()).answered(201);
        charge.once(&serving.address);
        if turn >= 100 {
            let began = Instant::now();
            let length = page.length(&serving.address);
            milliseconds.push(began.elapsed().as_secs_f64() * 1e3);
            kilobytes = length as f64 / 1e3;
        }
    }
    vec![
        ("blocks_page_ms", median(milliseconds), Some(MOST_PAGE_MS), "ms"),
        ("blocks_page_kb", kilobytes, Some(MOST_PAGE_KB), "kB"),
    ]
}

/// From the start of the program on a directory that is not there until it is ready, and what it holds in memory then.
fn start(folder: &Path) -> Vec<Measured> {
    let (mut milliseconds, mut idle) = (Vec::new(), Vec::new());
    for turn in 0..7 {
        let workdir = Workdir::empty(&folder.join(turn.to_string()));
        let began = Instant::now();
        let serving = Serving::start(&workdir, &[]);
        Question::bare("/readyz").once(&serving.address);
        milliseconds.push(began.elapsed().as_secs_f64() * 1e3);
        thread::sleep(Duration::from_millis(500));
        idle.push(serving.resident_mib());
    }
    vec![
        ("start_ms", median(milliseconds), Some(MOST_START_MS), "ms"),
        ("idle_mib", median(idle), Some(MOST_IDLE_MIB), "MiB"),
    ]
}

fn demo(folder: &Path) -> Vec<Measured> {
    let began = Instant::now();
    let ran = Command::new(workdir::PROGRAM).args(["demo", "--once"]).current_dir(folder).output().expect("it runs");
    assert!(ran.status.success(), "sage demo --once: {}", String::from_utf8_lossy(&ran.stderr));
    vec![("demo_seconds", began.elapsed().as_secs_f64(), Some(MOST_DEMO_SECONDS), "s")]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let base = std::env::var_os("SAGE_BENCH_DIRECTORY").map_or_else(std::env::temp_dir, Into::into);
    for Measurement { name, measure } in MEASUREMENTS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let folder = tempfile::tempdir_in(&base).expect("a folder to write to");
        for (name, ours, peer, unit) in measure(folder.path()) {
            println!("{}", json!({"name": name, "ours": ours, "peer": peer, "unit": unit}));
        }
    }
}
