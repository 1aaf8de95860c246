//! The server: one process that owns a directory, answers requests and performs attempts.
//!
//! Every route is one entry of `table` with its audience, its body and its responses; the router, the OpenAPI
//! document and the access tests are built from that table. Handlers are plain functions on the engine, in threads of
//! their own. Nothing here decides about a budget or sees a row of a stream except to pass a batch on.
//!
//! [`views`] has the JSON shapes that the server and the command line share.

mod attempts;
mod body;
mod call;
pub mod clock;
mod conclusion;
pub mod diagnostics;
pub mod difference;
pub mod directory;
mod disclosure;
pub mod event_filter;
pub mod format;
mod handlers {
    pub(crate) mod charges;
    pub(crate) mod events;
    pub(crate) mod health;
    pub(crate) mod log;
    pub(crate) mod programs;
    pub(crate) mod queries;
    pub(crate) mod releases;
    pub(crate) mod runs;
    pub(crate) mod streams;
}
mod openapi;
mod pages;
pub mod plot;
mod problem;
mod protocols {
    pub(crate) mod features;
    pub(crate) mod foreign;
    pub(crate) mod inference;
    pub(crate) mod mlflow;
    pub(crate) mod model_cache;
    pub(crate) mod tensors;
}
mod routes;
mod schemas;
mod standing;
mod status_counters;
mod stop;
mod submissions;
mod table;
mod telemetry;
pub mod tokens;
mod transport {
    pub(crate) mod admission;
    pub(crate) mod browser;
    pub(crate) mod certificates;
    pub(crate) mod compress;
    pub(crate) mod connections;
    pub(crate) mod limits;
    pub(crate) mod listen;
    pub(crate) mod pacing;
}
pub mod views;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sage_engine::{Engine, EngineError};
use tokio::sync::Semaphore;

pub use attempts::perform;
use diagnostics::note;
use directory::{Directory, DirectoryError};
use disclosure::DisclosureIntervals;
pub use problem::{CHARGED_BUT_FAILED, KEY_REUSED};
use protocols::model_cache::ModelCache;
use standing::Standing;
use status_counters::StatusCounters;
pub use stop::StopSignal;
use submissions::Submissions;
use telemetry::{Export, Telemetry};
use tokens::Tokens;
use transport::admission::{Admission, Capacity};
use transport::browser::Exposure;
use transport::connections::{self, Connections};
use transport::limits::{Rate, Rates};
pub use transport::listen::ListenConfiguration;
use transport::listen::{Listening, Patience};

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Addresses, certificates and connections.
    pub listen: ListenConfiguration,
    /// Requests a second of one token.
    pub requests_per_second: u32,
    /// Changes a second of one token, after a burst of five seconds' worth.
    pub changes_per_second: u32,
    /// Memory for all requests together, in bytes.
    pub memory_bytes: usize,
    /// Event listeners of one token.
    pub listeners_each: usize,
    /// How often the head of the log is exported, beside the exports that events cause.
    pub head_export: Option<Duration>,
    /// The directory. Its options hold the shortest disclosure interval.
    pub directory: Directory,
}

/// Why a server did not start, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The log or the files cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A certificate or its key cannot be used.
    #[error("{}: {reason}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The record of submissions cannot be read.
    #[error("submissions.jsonl: {0}")]
    Submissions(#[source] io::Error),
    /// No thread can be started.
    #[error("the server cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The address could not be reported.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
}

impl ServeError {
    /// What the operator can do, where the message does not say it.
    #[must_use]
    pub const fn help(&self) -> Option<&'static str> {
        match self {
            Self::Directory(error) => error.help(),
            Self::Certificate { .. } => {
                Some("name a PEM file with certificates as --tls-certificate, and one with their key as --tls-key")
            }
            Self::Listen { .. } => Some("name another address with --listen HOST:PORT"),
            Self::Submissions(_) => Some("repair the file or its permissions"),
            Self::Thread(_) => Some("close other programs, or raise the limit of threads"),
            Self::Engine(_) | Self::Output(_) => None,
        }
    }
}

/// Everything that requests share.
pub(crate) struct Server {
    standing: Standing,
    pub(crate) tokens: Tokens,
    submissions: Submissions,
    stop: StopSignal,
    directory: Directory,
    start: Instant,
    disclosure: DisclosureIntervals,
    models: ModelCache,
    rates: Rates,
    telemetry: Telemetry,
    /// How clients reach the server.
    exposure: Exposure,
    patience: Patience,
    /// Attempts performed since the start.
    attempts: AtomicU64,
    /// Whether the worker runs.
    working: AtomicBool,
    woken: Mutex<bool>,
    bell: Condvar,
    /// What requests may use at a time.
    admission: Admission,
    connections: Arc<Connections>,
    /// Batches of rows that are ingested at a time.
    batches: Arc<Semaphore>,
    /// Responses so far by their status.
    statuses: StatusCounters,
}

impl Server {
    /// Wakes the worker.
    pub(crate) fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}

/// Serves a directory until a stop is requested. `ready` gets the address once it accepts connections.
///
/// # Errors
/// When the server cannot start, or cannot close its log at the end.
pub fn serve(
    configuration: &Configuration, stop: StopSignal, ready: impl FnOnce(&str) -> io::Result<()>,
) -> Result<(), ServeError> {
    let listening = configuration.listen.prepare()?;
    let engine = open(&configuration.directory)?;
    let (server, export) = build(configuration, engine, stop, &listening)?;
    let server = Arc::new(server);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Thread)?;
    let worker = {
        let server = Arc::clone(&server);
        let thread = std::thread::Builder::new().name("worker".to_owned());
        thread.spawn(move || worker::work(&server)).map_err(ServeError::Thread)?
    };
    if let Some(interval) = configuration.head_export {
        runtime.spawn(export_heads(Arc::clone(&server), interval));
    }
    if let Some(export) = export {
        runtime.spawn(export.run());
    }
    let router = routes::router(&server);
    let served = runtime.block_on(listening.serve(Arc::clone(&server), router, |address| {
        ready(&address).map_err(ServeError::Output)?;
        note("ready; stop it with Ctrl-C, and what is under way is brought to its end");
        Ok(())
    }));
    // The worker stops for whatever reason the serving ended.
    server.stop.request();
    server.wake();
    runtime.shutdown_timeout(Duration::from_secs(5));
    if worker.join().is_err() {
        note("the worker panicked; the next start resumes its work");
    }
    if let Some(engine) = Arc::into_inner(server).and_then(|server| server.standing.into_engine()) {
        engine.close()?;
    }
    served
}

/// Opens the directory. A missing or empty one is created.
fn open(directory: &Directory) -> Result<Engine, DirectoryError> {
    if !directory.is_empty() {
        return directory.open();
    }
    note(&format!(
        "{} is new and empty; next, beside the server: sage token create --as NAME --role admin",
        directory.path.display()
    ));
    directory.open_or_create()
}

fn build(
    configuration: &Configuration, engine: Engine, stop: StopSignal, listening: &Listening,
) -> Result<(Server, Option<Export>), ServeError> {
    let path = &configuration.directory.path;
    let submissions = Submissions::open(path).map_err(ServeError::Submissions)?;
    let (telemetry, export) = Telemetry::new(|name| std::env::var(name).ok());
    let capacity = Capacity { memory_bytes: configuration.memory_bytes, listeners_each: configuration.listeners_each };
    let admission = Admission::new(capacity);
    let descriptors = connections::descriptors();
    let connections = Connections::new(listening.most(), descriptors, Arc::clone(&admission.refusals));
    let rates = Rates {
        requests: Rate::new(configuration.requests_per_second, 1),
        changes: Rate::new(configuration.changes_per_second, 5),
    };
    let server = Server {
        disclosure: DisclosureIntervals::default(),
        standing: Standing::new(engine),
        tokens: Tokens::new(path),
        submissions,
        stop,
        directory: configuration.directory.clone(),
        start: Instant::now(),
        models: ModelCache::new(),
        rates,
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
        statuses: StatusCounters::new(),
    };
    Ok((server, export))
}

/// Exports the head of the log at an interval, so that a rollback is detected also where few events happen. After a
/// failure the next interval tries again.
async fn export_heads(server: Arc<Server>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Ok(engine) = server.standing.engine() else { continue };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || engine.export_head()).await {
            note(&error.to_string());
        }
    }
}
