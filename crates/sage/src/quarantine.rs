//! `sage quarantine`: rows that were set aside, listed without numbers, released or erased.

use clap::{Args, ValueEnum};
use sage_engine::{Engine, IngestOutcome, Principal, QuarantineView};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::ingest;
use crate::output::{print, print_json};
use crate::place::{PlaceArgs, WhoArgs};
use crate::runs::instant;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage quarantine taxi --as dan
  sage quarantine taxi --do release --file part-0f3c9a1b2d4e5f60-0.parquet --as dan
  sage quarantine taxi --do erase --all --as ada

Rows without a usable time, and rows of sealed blocks where late = \"quarantine\", are set aside and never read. Releasing
sends them through ingest again, under the stream's file as it is now. The stream's retention erases them.";

/// What becomes of the files that are chosen.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Step {
    /// Their rows go through ingest again
    Release,
    /// They are removed
    Erase,
}

#[derive(Args, Debug)]
pub(crate) struct QuarantineArgs {
    /// The stream
    stream: String,

    /// Do this with the files named by --file, or with --all, instead of listing
    #[arg(long = "do", value_name = "STEP")]
    step: Option<Step>,

    /// A file as the list names it; repeats
    #[arg(long = "file", value_name = "NAME")]
    files: Vec<String>,

    /// All files of the list
    #[arg(long, conflicts_with = "files")]
    all: bool,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &QuarantineArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let who = asked.who.principal()?;
    let Some(step) = asked.step else {
        let views = engine.quarantine(&who, &asked.stream)?;
        return if asked.json { print_json(&list(&views)) } else { print(&text(&views)) };
    };
    let files = match asked.all {
        true => engine.quarantine_files(&asked.stream),
        false => asked.files.clone(),
    };
    let done = act(&engine, &who, &asked.stream, step, &files)?;
    engine.close()?;
    if asked.json { print_json(&done) } else { print("done\n") }
}

/// Does a step with files; gives what became of the batches that were released.
pub(crate) fn act(
    engine: &Engine, who: &Principal, stream: &str, step: Step, files: &[String],
) -> Result<Value, sage_engine::EngineError> {
    let batches = match step {
        Step::Release => engine.release_quarantine(who, stream, files)?,
        Step::Erase => {
            engine.erase_quarantine(who, stream, files)?;
            Vec::new()
        }
    };
    let object = |(batch, fed): &(String, IngestOutcome)| match fed {
        IngestOutcome::Ingested(report) => ingest::object(batch, report),
        IngestOutcome::Duplicate => json!({"batch": batch, "taken": false}),
    };
    Ok(json!({"files": files, "batches": batches.iter().map(object).collect::<Vec<_>>()}))
}

/// The files as a list.
pub(crate) fn list(views: &[QuarantineView]) -> Value {
    let object = |view: &QuarantineView| {
        let at = view.at.map(instant);
        json!({"file": view.file, "batch": view.batch, "time": at, "reasons": view.reasons})
    };
    Value::Array(views.iter().map(object).collect())
}

fn text(views: &[QuarantineView]) -> String {
    if views.is_empty() {
        return "no row is set aside\n".to_owned();
    }
    let line = |view: &QuarantineView| {
        let at = view.at.map_or_else(|| "an earlier time".to_owned(), instant);
        format!("{}  {at}  batch {}: {}\n", view.file, view.batch, view.reasons.join(", "))
    };
    views.iter().map(line).collect()
}
