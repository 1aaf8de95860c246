//! The server: one process that owns a directory, answers requests and performs attempts.
//!
//! Every route stands in one table with who may ask and what answers ([`routes`]); the router, the description that
//! is served and the test of who may do what are made from that table. Handlers are plain functions on the engine,
//! run beside the threads that wait for the network. Nothing here decides about a budget or sees a row of a stream
//! but to hand a batch on.

mod call;
mod events;
mod features;
mod health;
mod inference;
mod mlflow;
mod openapi;
mod pages;
mod problem;
mod releases;
mod requests;
mod routes;
mod runs;
mod streams;
mod table;
pub(crate) mod tokens;
mod worker;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use sage_engine::Engine;
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::output::{print, tell};
use crate::place::PlaceArgs;
use crate::work::Stop;
use requests::Requests;
use tokens::Tokens;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage token create --as mia
  sage serve
  sage serve --listen 0.0.0.0:7878 --dir sage-data

The address goes to standard output once the server is ready. It owns the directory until it stops: other commands
that open it wait in vain, tokens excepted. There is no TLS of its own; put it behind a proxy that has it.";

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", env = "SAGE_LISTEN", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// How many requests are worked on at a time; more are asked to come again.
const AT_ONCE: usize = 256;

/// Everything that requests share.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) tokens: Tokens,
    requests: Requests,
    stop: Stop,
    /// Attempts performed since the start.
    attempts: AtomicU64,
    /// Whether the worker is well.
    working: AtomicBool,
    woken: Mutex<bool>,
    bell: Condvar,
    /// Room for requests.
    room: Semaphore,
    /// Room for batches of rows, which are held whole while they are taken in.
    batches: Semaphore,
    /// Room for those who watch events.
    watchers: Semaphore,
    /// How much each name may still change, and when that was last filled up.
    allowance: Mutex<BTreeMap<String, (f64, Instant)>>,
    /// Answers so far by their status.
    answered: Mutex<BTreeMap<u16, u64>>,
}

impl Server {
    /// Has the worker look at once.
    pub(crate) fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}

pub(crate) fn run(asked: &ServeArgs) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let engine = asked.place.open()?;
    let directory = asked.place.dir.clone();
    let requests = Requests::open(&directory)
        .map_err(|error| Failure::no_answer(format!("submissions.jsonl: {error}"), "mend the file or its rights"))?;
    let server = Arc::new(Server {
        engine,
        tokens: Tokens::new(&directory),
        requests,
        stop,
        attempts: AtomicU64::new(0),
        working: AtomicBool::new(true),
        woken: Mutex::new(false),
        bell: Condvar::new(),
        room: Semaphore::new(AT_ONCE),
        batches: Semaphore::new(4),
        watchers: Semaphore::new(AT_ONCE / 4),
        allowance: Mutex::default(),
        answered: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(started)?;
    let worker = {
        let server = Arc::clone(&server);
        std::thread::Builder::new().name("worker".to_owned()).spawn(move || worker::work(&server)).map_err(started)?
    };
    let served = runtime.block_on(serve(asked.listen, Arc::clone(&server)));
    // Whatever ended the serving ends the work as well.
    server.stop.ask();
    server.wake();
    runtime.shutdown_timeout(Duration::from_secs(5));
    if worker.join().is_err() {
        tell("the worker ended badly; the next start goes on with what it left");
    }
    if let Some(server) = Arc::into_inner(server) {
        server.engine.close()?;
    }
    served
}

fn started(error: std::io::Error) -> Failure {
    Failure::no_answer(format!("the server cannot start: {error}"), "close other programs, or give it more threads")
}

async fn serve(address: SocketAddr, server: Arc<Server>) -> Result<(), Failure> {
    let taken = |error| {
        Failure::no_answer(format!("{address} cannot be listened to: {error}"), "name another with --listen HOST:PORT")
    };
    let listener = tokio::net::TcpListener::bind(address).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    print(&format!("http://{address}\n"))?;
    tell("ready; stop it with Ctrl-C, and what is under way is brought to its end");
    let router = routes::router(&server);
    axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            while !server.stop.asked() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
        .map_err(started)
}
