//! The simulated year: rides are ingested, days are sealed, and after each day the worker loop runs.

use std::path::Path;

use sage_engine::generate::{Day, TAXI, Taxi, TaxiError, WriteError, write};
use sage_engine::ingest::Source;
use sage_engine::stream::parse_time;
use sage_engine::{Engine, EngineError};
use sage_server::StopSignal;

use super::pipelines::{ENGINEER, OFFICER, STREAM, WORKER, pipelines};
use super::progress::Progress;
use super::{unwritable, user};
use crate::failure::Failure;

/// The parameters of the year.
pub(super) struct Year {
    pub(super) rides: u64,
    pub(super) seed: u64,
}

const START: &str = "2026-01-01";
const END: &str = "2027-01-01";
pub(super) const DAYS: u64 = 365;
/// Rides are ingested about once a week.
const BATCHES: u64 = 52;
const DAY: i64 = 86_400_000_000;

/// Simulates the year, or the part of it until a stop is requested.
pub(super) fn pass(engine: &Engine, directory: &Path, year: &Year, stop: &StopSignal) -> Result<(), Failure> {
    let (officer, worker, mia) = (user(OFFICER)?, user(WORKER)?, user(ENGINEER)?);
    engine.create_stream(&officer, &TAXI.replace("blocks = { time = \"1h\" }", "blocks = { time = \"1d\" }"))?;
    let start = parse_time(START).unwrap_or_default();
    let files = pipelines(year.rides / DAYS);
    for text in &files {
        engine.submit_at(&mia, text, milliseconds(start))?;
    }
    let mut progress = Progress::new(engine);
    let taxi = day(START).and_then(|from| Taxi::until(year.rides, from, day(END)?, year.seed));
    let taxi = taxi.map_err(|error| Failure::usage(format!("--rows: {error}"), "--rows 4_000_000"))?;
    let folder = directory.join("rides");
    let batches = BATCHES.min(taxi.chunks());
    let written = write(&taxi, &folder, Some(batches)).map_err(|error| unwritten(&error))?;
    let mut sealed = start;
    for (number, file) in (1..).zip(&written.files) {
        engine.ingest(&worker, STREAM, &format!("week {number}"), Source::path(file))?;
        std::fs::remove_file(file).map_err(|error| unwritable(file, &error))?;
        let complete = taxi.complete_until(taxi.chunks() * number / batches);
        while sealed + DAY <= complete && !stop.is_requested() {
            sealed += DAY;
            let over = engine.open_before(STREAM, sealed)?;
            if !over.is_empty() {
                engine.seal(&worker, STREAM, &over)?;
            }
            progress.day(sealed);
            work(engine, milliseconds(sealed), stop, &mut progress)?;
        }
    }
    progress.finish();
    std::fs::remove_dir_all(&folder).map_err(|error| unwritable(&folder, &error))
}

/// Performs all attempts that are possible on this day.
fn work(engine: &Engine, time: u64, stop: &StopSignal, progress: &mut Progress) -> Result<(), EngineError> {
    while !stop.is_requested() {
        let Some(job) = engine.next_job(time)? else { break };
        let run = job.run();
        progress.begun(engine, run)?;
        engine.perform(job)?;
        progress.ended(engine, run);
    }
    Ok(())
}

fn day(text: &str) -> Result<Day, TaxiError> {
    text.parse()
}

fn milliseconds(microseconds: i64) -> u64 {
    (microseconds / 1000).unsigned_abs()
}

fn unwritten(error: &WriteError) -> Failure {
    Failure::no_answer(error.to_string(), "name a directory with enough free space: --dir DIR")
}
