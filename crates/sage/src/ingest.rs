//! `sage ingest`: rows go in, as a batch that counts once.
//!
//! The report holds true counts of rows. It is printed to the data engineer who brought them, and goes nowhere
//! else.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sage_engine::IngestOutcome;
use sage_engine::ingest::{Format, Reason, Report, Source};
use serde_json::{Value, json};

use crate::failure::{Failure, quoted};
use crate::output::{print, print_json};
use crate::place::{PlaceArgs, WhoArgs};

/// The formats by their names.
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

    /// The input's format [default: as its name or its first bytes tell]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &IngestArgs) -> Result<(), Failure> {
    let source = asked.source()?;
    let batch = asked.batch_id.clone().or_else(|| asked.own_name()).ok_or_else(|| {
        Failure::usage("rows from standard input have no name of their own", "give the batch one with --batch-id ID")
    })?;
    let engine = asked.place.open()?;
    let fed = engine.ingest(&asked.who.principal()?, &asked.stream, &batch, source)?;
    engine.close()?;
    match fed {
        IngestOutcome::Duplicate if asked.json => print_json(&json!({"batch": batch, "taken": false})),
        IngestOutcome::Duplicate => print(&format!("batch {} was taken in before; nothing changed\n", quoted(&batch))),
        IngestOutcome::Ingested(report) if asked.json => print_json(&object(&batch, &report)),
        IngestOutcome::Ingested(report) => print(&text(&batch, &report)),
    }
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

    /// A file is its own batch: sending it again has no effect.
    fn own_name(&self) -> Option<String> {
        (!self.is_pipe()).then(|| self.input.display().to_string())
    }
}

fn lines(counts: &std::collections::BTreeMap<(String, Reason), u64>) -> Vec<(String, &'static str, u64)> {
    counts.iter().map(|((column, reason), &rows)| (column.clone(), reason.label(), rows)).collect()
}

/// What became of a batch, for who brought it.
pub(crate) fn object(batch: &str, report: &Report) -> Value {
    let list = |counts| {
        let entries = lines(counts).into_iter();
        entries
            .map(|(column, reason, rows)| json!({"column": column, "reason": reason, "rows": rows}))
            .collect::<Vec<_>>()
    };
    json!({
        "batch": batch,
        "taken": true,
        "read": report.read,
        "stored": report.stored,
        "quarantined": report.quarantined,
        "dropped": list(&report.dropped),
        "changed": list(&report.changed),
    })
}

fn text(batch: &str, report: &Report) -> String {
    let mut text = format!(
        "batch {}: {} rows read, {} stored, {} set aside\n",
        quoted(batch),
        report.read,
        report.stored,
        report.quarantined
    );
    for (what, counts) in [("dropped", &report.dropped), ("changed", &report.changed)] {
        for (column, reason, rows) in lines(counts) {
            text += &format!("  {what}  {rows}  {column}: {reason}\n");
        }
    }
    text
}
