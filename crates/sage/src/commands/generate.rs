//! `sage generate`: synthetic rows for trying things out, written as Parquet.

use std::path::Path;
use std::time::Instant;

use sage_engine::generate::{Day, STREAM_FILE, Taxi, TaxiError, WriteError, write};
use sage_server::format::quoted;
use sage_server::views::directory::GeneratedFiles;

use crate::cli::{GenerateArgs, TaxiArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Generates the rows and prints the written files.
pub(crate) fn run(flags: &GenerateArgs) -> Result<(), Failure> {
    match flags {
        GenerateArgs::Taxi(flags) => taxi(flags),
    }
}

fn taxi(flags: &TaxiArgs) -> Result<(), Failure> {
    flags.threads.apply();
    let rows = whole("--rows", &flags.rows, "--rows 1000000")?;
    let seed = whole("--seed", &flags.seed, "--seed 1")?;
    let files = flags.files.as_deref().map(|text| whole("--files", text, "--files 4")).transpose()?;
    let start = day("--start", &flags.start)?;
    let stream = match &flags.end {
        None => Taxi::new(rows, start, seed),
        Some(end) => Taxi::until(rows, start, day("--end", end)?, seed),
    };
    let stream = stream.map_err(|error| match error {
        TaxiError::End => Failure::usage(format!("--end: {error}"), "--start 2026-01-01 --end 2027-01-01"),
        other => Failure::usage(format!("--rows: {other}"), "--rows 1000000"),
    })?;
    let began = Instant::now();
    let written = write(&stream, Path::new(&flags.out), files).map_err(unwritten)?;
    let seconds = began.elapsed().as_secs_f64();
    if flags.json {
        let files = written.files.iter().map(|path| path.display().to_string()).collect();
        return print_json(&GeneratedFiles { rows, seed, bytes: written.bytes, files });
    }
    print(&format!(
        "{rows} synthetic taxi rides, seed {seed}, in {} {} of {:.1} MB together, in {seconds:.1} s: {folder}\n\
         next: sage stream create {folder}/{STREAM_FILE} --as ada\n",
        written.files.len(),
        if written.files.len() == 1 { "file" } else { "files" },
        written.bytes as f64 / 1e6,
        folder = flags.out,
    ))
}

fn whole(flag: &str, text: &str, help: &str) -> Result<u64, Failure> {
    // Large numbers are easier to read in groups: 37_000_000.
    text.replace('_', "")
        .parse()
        .map_err(|_| Failure::usage(format!("{flag} must be a whole number, got {}", quoted(text)), help))
}

fn day(flag: &str, text: &str) -> Result<Day, Failure> {
    let wrong = |error: TaxiError| {
        Failure::usage(format!("{flag}: {error}; got {}", quoted(text)), format!("{flag} 2026-01-01"))
    };
    text.parse().map_err(wrong)
}

fn unwritten(error: WriteError) -> Failure {
    match error {
        WriteError::Files => Failure::usage(format!("--files: {error}"), "leave --files out to get a good number"),
        WriteError::NotEmpty { .. } => Failure::no_answer(format!("--out: {error}"), "--out rides-2"),
        other => {
            Failure::no_answer(format!("--out: {other}"), "name a folder that you may write to, with enough free space")
        }
    }
}
