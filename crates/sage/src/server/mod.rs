//! The server: one process that owns a directory, answers requests and performs attempts.
//!
//! Every route stands in one table with who may ask and what answers ([`routes`]); the router, the description that
//! is served and the test of who may do what are made from that table. Handlers are plain functions on the engine,
//! run beside the threads that wait for the network. Nothing here decides about a budget or sees a row of a stream
//! but to hand a batch on.

mod admission;
mod answers;
mod browser;
mod call;
mod certificates;
mod charges;
mod compress;
mod connections;
mod events;
mod features;
mod foreign;
mod health;
mod inference;
mod limits;
mod listen;
mod log;
mod mlflow;
mod models;
mod openapi;
mod pacing;
mod pages;
mod problem;
mod programs;
mod queries;
mod releases;
mod requests;
mod routes;
mod runs;
mod schemas;
mod standing;
mod streams;
mod table;
mod telemetry;
mod tensors;
mod ticks;
pub(crate) mod tokens;
mod worker;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use sage_engine::Engine;
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::operator::OperatorArgs;
use crate::output::{LogFormat, print, talk, tell};
use crate::place::PlaceArgs;
use crate::work::Stop;
use admission::{Admission, Capacity};
use answers::Answers;
use browser::Exposure;
use connections::Connections;
use limits::{Rate, Rates};
use listen::{ListenArgs, Listening, Patience, at_least_one};
use models::Models;
pub(crate) use problem::{CHARGED_BUT_FAILED, KEY_REUSED};
use requests::Requests;
use standing::Standing;
use telemetry::{Export, Telemetry};
use ticks::Ticks;
use tokens::Tokens;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage token create --as mia
  sage serve
  sage serve --listen 0.0.0.0:7878 --dir sage-data --tls-certificate server.pem --tls-key server.key

The address goes to standard output once the server is ready. It owns the directory until it stops: other commands
that open it wait in vain, tokens excepted. A directory that is not there is made. Without a certificate nothing is
hidden on its way: then listen to this machine alone, or put a proxy in front that has one.";

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    listen: ListenArgs,
    /// How many seconds a tick has, by which those outside a stream see what its attempts bring about; a stream's file
    /// may ask for a longer one
    #[arg(long, value_name = "SECONDS", env = "SAGE_TICK", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    tick: u64,
    /// How many requests a second one token may make
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_REQUESTS", default_value_t = 100_000)]
    most_requests: u32,
    /// How many changes a second one token may make, after a burst of five seconds' worth
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_CHANGES", default_value_t = 20)]
    most_changes: u32,
    /// How many megabytes of memory requests may use together; one token has half of it, one request a quarter
    #[arg(long, value_name = "MEGABYTES", env = "SAGE_MOST_MEMORY", default_value_t = 1024, value_parser = at_least_one)]
    most_memory: usize,
    /// How many listeners to events one token may have
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_LISTENERS", default_value_t = 16, value_parser = at_least_one)]
    most_listeners: usize,
    /// How to talk on standard error: with json also a line for each request
    #[arg(long, value_name = "FORMAT", env = "SAGE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// Exports the signed head of the log every so many seconds, to the files of --heads, beside what grows by events
    #[arg(long, value_name = "SECONDS", env = "SAGE_HEADS_EVERY", requires = "heads")]
    heads_every: Option<NonZeroU64>,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

impl ServeArgs {
    /// The directory, with what the operator says about attempts and disclosure intervals.
    fn places(&self) -> PlaceArgs {
        self.place.under(&self.operator).with_interval(Duration::from_secs(self.tick))
    }
}

/// Everything that requests share.
pub(crate) struct Server {
    standing: Standing,
    pub(crate) tokens: Tokens,
    requests: Requests,
    stop: Stop,
    place: PlaceArgs,
    directory: PathBuf,
    start: Instant,
    ticks: Ticks,
    models: Models,
    rates: Rates,
    telemetry: Telemetry,
    /// How clients reach the server.
    exposure: Exposure,
    patience: Patience,
    /// Attempts performed since the start.
    attempts: AtomicU64,
    /// Whether the worker is well.
    working: AtomicBool,
    woken: Mutex<bool>,
    bell: Condvar,
    /// What requests may use at a time.
    admission: Admission,
    connections: Arc<Connections>,
    /// Batches of rows that are ingested at a time.
    batches: Arc<Semaphore>,
    /// Answers so far by their status.
    answers: Answers,
}

impl Server {
    /// Has the worker look at once.
    pub(crate) fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}

pub(crate) fn run(asked: &ServeArgs) -> Result<(), Failure> {
    talk(asked.log_format);
    let stop = Stop::listen()?;
    let listening = asked.listen.prepare()?;
    let engine = opened(&asked.places())?;
    let (server, export) = furnished(asked, engine, stop, &listening)?;
    let server = Arc::new(server);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(started)?;
    let worker = {
        let server = Arc::clone(&server);
        std::thread::Builder::new().name("worker".to_owned()).spawn(move || worker::work(&server)).map_err(started)?
    };
    if let Some(seconds) = asked.heads_every {
        runtime.spawn(export_heads(Arc::clone(&server), Duration::from_secs(seconds.get())));
    }
    if let Some(export) = export {
        runtime.spawn(export.run());
    }
    let router = routes::router(&server);
    let served = runtime.block_on(listening.serve(Arc::clone(&server), router, |address| {
        print(&format!("{address}\n"))?;
        tell("ready; stop it with Ctrl-C, and what is under way is brought to its end");
        Ok(())
    }));
    // Whatever ended the serving ends the work as well.
    server.stop.ask();
    server.wake();
    runtime.shutdown_timeout(Duration::from_secs(5));
    if worker.join().is_err() {
        tell("the worker ended badly; the next start goes on with what it left");
    }
    if let Some(engine) = Arc::into_inner(server).and_then(|server| server.standing.into_engine()) {
        engine.close()?;
    }
    served
}

/// Opens the directory. One that is not there, or is empty, is made.
fn opened(place: &PlaceArgs) -> Result<Engine, Failure> {
    let empty = match place.dir.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !empty {
        return place.open();
    }
    tell(&format!(
        "{} is new and empty; next, beside the server: sage token create --as NAME --role admin",
        place.dir.display()
    ));
    place.open_or_make()
}

fn furnished(
    asked: &ServeArgs, engine: Engine, stop: Stop, listening: &Listening,
) -> Result<(Server, Option<Export>), Failure> {
    let directory = asked.place.dir.clone();
    let requests = Requests::open(&directory)
        .map_err(|error| Failure::no_answer(format!("submissions.jsonl: {error}"), "mend the file or its rights"))?;
    let (telemetry, export) = Telemetry::new(|name| std::env::var(name).ok());
    let capacity =
        Capacity { memory_bytes: asked.most_memory.saturating_mul(1_000_000), listeners_each: asked.most_listeners };
    let admission = Admission::new(capacity);
    let descriptors = connections::descriptors();
    let connections = Connections::new(listening.most(), descriptors, Arc::clone(&admission.refusals));
    let server = Server {
        ticks: Ticks::default(),
        standing: Standing::new(engine),
        tokens: Tokens::new(&directory),
        requests,
        stop,
        place: asked.places(),
        directory,
        start: Instant::now(),
        models: Models::new(),
        rates: Rates { requests: Rate::new(asked.most_requests, 1), changes: Rate::new(asked.most_changes, 5) },
        telemetry,
        exposure: listening.exposure(),
        patience: listening.patience(),
        attempts: AtomicU64::new(0),
        working: AtomicBool::new(true),
        woken: Mutex::new(false),
        bell: Condvar::new(),
        admission,
        connections,
        batches: Arc::new(Semaphore::new(4)),
        answers: Answers::new(),
    };
    Ok((server, export))
}

fn started(error: std::io::Error) -> Failure {
    Failure::no_answer(format!("the server cannot start: {error}"), "close other programs, or give it more threads")
}

/// Exports the head now and then, so that a rollback shows also where little happens. A failure is told, and the
/// next turn tries again.
async fn export_heads(server: Arc<Server>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Ok(engine) = server.standing.engine() else { continue };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || engine.export_head()).await {
            tell(&error.to_string());
        }
    }
}
