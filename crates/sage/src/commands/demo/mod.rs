//! `sage demo`: a year of synthetic taxi rides, five pipelines, and everything that decides about them for real.
//!
//! The rows and the clock are synthetic. Engine, ledger, loop, noise and releases are those of every other directory,
//! and the dashboard that is left running is `sage serve`.

mod end;
mod pipelines;
mod progress;
mod year;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Parser};
use sage_engine::{Engine, EngineOptions, Opened, Principal};
use sage_server::diagnostics::note;
use sage_server::tokens::{self, NewToken};

use crate::cli::{Cli, Command};
use crate::commands::serve;
use crate::commands::work::listen_for_stop;
use crate::failure::Failure;
use crate::operator::ThreadArgs;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage demo
  sage demo --once
  sage demo --dir ./year --once --json

A year of synthetic taxi rides is ingested, one block per day, on an accelerated clock. A linear model, a network and three
statistics wait for blocks, are charged, trained, tested, retried and released. Rows and clock are synthetic;
ledger, noise, models and releases are real. At the end a dashboard runs until Ctrl-C, unless --once is given.";

/// Rides in the year: enough for every target with a margin, and quick on two cores.
const RIDES: u64 = 4_000_000;
/// With fewer rides per day nothing can be released.
const FEWEST: u64 = 200_000;

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// End when the year is over, instead of leaving a dashboard running
    #[arg(long)]
    once: bool,

    /// How many rides the year has [default: 4_000_000]
    #[arg(long, value_name = "NUMBER")]
    rows: Option<String>,

    /// The seed of the rides; the same seed gives the same rides, but always new noise
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,

    /// A new directory that is kept [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let rides = args.rides()?;
    args.threads.apply();
    let directory = DemoDirectory::new(args.dir.as_deref())?;
    let stop = listen_for_stop()?;
    let began = Instant::now();
    let engine = opened(directory.path())?;
    year::pass(&engine, directory.path(), &year::Year { rides, seed: args.seed }, &stop)?;
    if stop.is_requested() {
        engine.close()?;
        return Err(Failure::ended("stopped before the end of the year".to_owned(), 130));
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut end = end::End::of(&engine, seconds)?;
    engine.close()?;
    if args.once {
        end.kept = args.dir.as_ref().map(|_| directory.path().to_owned());
        return if args.json { print_json(&end.report()) } else { print(&end.text()) };
    }
    let token = tokens::create(directory.path(), &NewToken { name: pipelines::ENGINEER, admin: false, days: Some(1) });
    let token = token.map_err(|error| unwritable(directory.path(), &error))?;
    let address = free_address()?;
    end.dashboard = Some((format!("http://{address}"), token));
    if args.json {
        print_json(&end.report())?
    } else {
        print(&end.text())?
    }
    dashboard(directory.path(), &address, args.threads)
}

impl DemoArgs {
    fn rides(&self) -> Result<u64, Failure> {
        let Some(text) = &self.rows else { return Ok(RIDES) };
        let number = text.replace('_', "").parse::<u64>().ok();
        number.filter(|rides| (FEWEST..=1_000_000_000).contains(rides)).ok_or_else(|| {
            Failure::usage(format!("--rows must be a whole number of at least {FEWEST}"), "--rows 4_000_000")
        })
    }
}

/// Serves the directory until it is stopped.
fn dashboard(path: &Path, address: &str, threads: ThreadArgs) -> Result<(), Failure> {
    let parsed = Cli::try_parse_from(["sage", "serve", "--listen", address]);
    let Ok(Cli { command: Command::Serve(mut args), .. }) = parsed else {
        return Err(Failure::no_answer("the dashboard cannot be started", "sage serve --dir DIR"));
    };
    // The directory, heads and blocks in the environment belong to another directory.
    args.directory.dir = path.to_owned();
    args.directory.heads.clear();
    args.directory.blocks = None;
    args.threads = threads;
    serve::run(&args)
}

/// A free address of this machine.
fn free_address() -> Result<String, Failure> {
    let found = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let found = found.map_err(|error| {
        Failure::no_answer(format!("no port of this machine is free: {error}"), "sage demo --once needs none")
    })?;
    Ok(found.to_string())
}

fn opened(path: &Path) -> Result<Engine, Failure> {
    match Engine::open(path, &EngineOptions::default())? {
        Opened::Ready(engine) => Ok(*engine),
        Opened::Fenced(_) => Err(Failure::no_answer("the new directory has a past", "name another with --dir")),
    }
}

/// A user of the demonstration.
fn user(name: &str) -> Result<Principal, Failure> {
    Principal::named(name).ok_or_else(|| Failure::usage("the user is not known", "sage demo"))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::no_answer(format!("{} cannot be written: {error}", path.display()), "name another directory with --dir")
}

/// The directory of the demonstration. A temporary one is removed when dropped.
struct DemoDirectory {
    path: PathBuf,
    temporary: bool,
}

impl DemoDirectory {
    fn new(wanted: Option<&Path>) -> Result<Self, Failure> {
        let path = match wanted {
            Some(path) => path.to_owned(),
            None => {
                let name = tokens::random::<8>()
                    .map_err(|error| Failure::no_answer(error.to_string(), "name a directory with --dir"))?;
                std::env::temp_dir().join(format!("sage-demo-{name}"))
            }
        };
        if path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!("{} is not empty, and nothing in it is overwritten", path.display());
            return Err(Failure::no_answer(message, "name a new directory with --dir"));
        }
        std::fs::create_dir_all(&path).map_err(|error| unwritable(&path, &error))?;
        note(&format!("the directory of this demonstration: {}", path.display()));
        Ok(Self { path, temporary: wanted.is_none() })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DemoDirectory {
    fn drop(&mut self) {
        if self.temporary {
            // If this fails, the rest is in the temporary folder, which the system cleans up.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}
