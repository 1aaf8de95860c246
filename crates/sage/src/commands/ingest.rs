//! `sage ingest`: ingests rows as one idempotent batch.
//!
//! The report contains exact counts of rows. It is printed for the data engineer who sent them, and stored nowhere.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sage_engine::ingest::{Format, Source};
use sage_server::format::quoted;
use sage_server::views::ingest::{IngestResult, ReasonCount};

use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::operator::ThreadArgs;
use crate::output::{print, print_json};

/// An input format by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    Parquet,
    Csv,
    Ndjson,
    Arrow,
}

#[derive(Args, Debug)]
pub(crate) struct IngestArgs {
    /// The stream
    stream: String,

    /// A file or a directory of Parquet, CSV, NDJSON or Arrow; `-` for standard input
    input: PathBuf,

    /// The batch's name: the same one again has no effect [default: the input's path]
    #[arg(long, value_name = "ID")]
    batch_id: Option<String>,

    /// The input's format [default: by its name or its first bytes]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    directory: DirectoryArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &IngestArgs) -> Result<(), Failure> {
    let source = args.source()?;
    let batch = args.batch_id.clone().or_else(|| args.own_name()).ok_or_else(|| {
        Failure::usage("a batch from standard input has no name", "give the batch one with --batch-id ID")
    })?;
    args.threads.apply();
    let engine = args.directory.open()?;
    let outcome = engine.ingest(&args.user.principal()?, &args.stream, &batch, source)?;
    engine.close()?;
    let result = IngestResult::new(&batch, &outcome);
    if args.json { print_json(&result) } else { print(&text(&result)) }
}

impl IngestArgs {
    fn source(&self) -> Result<Source, Failure> {
        let format = self.format.map(|name| match name {
            FormatName::Parquet => Format::Parquet,
            FormatName::Csv => Format::Csv,
            FormatName::Ndjson => Format::Ndjson,
            FormatName::Arrow => Format::Arrow,
        });
        if self.is_pipe() {
            let (name, bytes) = ("standard input".to_owned(), Box::new(std::io::stdin()));
            return Ok(Source::Pipe { name, bytes, format });
        }
        if !self.input.exists() {
            let message = format!("there is no file or directory {}", quoted(&self.input.display().to_string()));
            return Err(Failure::usage(message, "name one, or - for standard input"));
        }
        Ok(Source::Path { path: self.input.clone(), format })
    }

    fn is_pipe(&self) -> bool {
        self.input.as_os_str() == "-"
    }

    /// The default batch id of a file is its path, so that ingesting it again has no effect.
    fn own_name(&self) -> Option<String> {
        (!self.is_pipe()).then(|| self.input.display().to_string())
    }
}

fn text(result: &IngestResult) -> String {
    let batch = quoted(&result.batch);
    let Some(rows) = &result.rows else { return format!("batch {batch} was ingested before; nothing changed\n") };
    let mut text =
        format!("batch {batch}: {} rows read, {} stored, {} set aside\n", rows.read, rows.stored, rows.quarantined);
    for (what, counts) in [("dropped", &rows.dropped), ("changed", &rows.changed)] {
        for ReasonCount { column, reason, rows } in counts {
            text += &format!("  {what}  {rows}  {column}: {reason}\n");
        }
    }
    text
}
