//! `sage plan`: what would happen to a pipeline if it were submitted now. Looking costs nothing.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use sage_engine::plan::Preview;
use sage_engine::{Engine, EngineError, Principal};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::operator::OperatorArgs;
use crate::output::{blocks, loss, print, print_json};
use crate::place::{PlaceArgs, WhoArgs};
use crate::suggest::hinted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage plan duration.toml --as mia
  sage plan duration.toml --json

The file is held against its stream as if it were submitted. Nothing is charged and no row is read.";

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// The pipeline's file; `-` for standard input
    file: PathBuf,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &PlanArgs) -> Result<(), Failure> {
    let text = text_of(&asked.file)?;
    let engine = asked.place.under(&asked.operator).open()?;
    let preview = preview(&engine, &asked.who.principal()?, &asked.file, &text)?;
    if asked.json { print_json(&object(&preview)) } else { print(&described(&preview)) }
}

/// The text of a pipeline's file.
pub(crate) fn text_of(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(|_| text),
        false => std::fs::read_to_string(file),
    };
    read.map_err(|error| {
        let message = format!("{}: {error}", file.display());
        Failure::usage(message, "give a pipeline's TOML file; docs/reference/pipeline-file.md says what is in it")
    })
}

/// The failure of something that was done with a file: what is wrong with the file is said with its name.
pub(crate) fn of_file(engine: &Engine, file: &Path, error: EngineError) -> Failure {
    let of_file = matches!(error, EngineError::PipelineFile(_) | EngineError::Plan(_));
    match hinted(engine, error) {
        Failure::Engine { message, code } if of_file => {
            let message = format!(
                "{}: {message}\n  help  docs/reference/pipeline-file.md says what may stand there",
                file.display()
            );
            Failure::Engine { message, code }
        }
        other => other,
    }
}

/// What would happen to the pipeline of a file.
pub(crate) fn preview(engine: &Engine, who: &Principal, file: &Path, text: &str) -> Result<Preview, Failure> {
    engine.preview(who, text).map_err(|error| of_file(engine, file, error))
}

/// The preview as an object.
pub(crate) fn object(preview: &Preview) -> Value {
    json!({
        "pipeline": preview.pipeline,
        "stream": preview.stream,
        "first_attempt": {"blocks": preview.window, "epsilon": preview.first.to_string()},
        "costliest_attempt": {"epsilon": preview.most.to_string()},
        "blocks_that_admit_it": preview.eligible,
        "starts_now": starts_now(preview),
        "runs_left": preview.runs_left,
    })
}

const fn starts_now(preview: &Preview) -> bool {
    preview.eligible >= preview.window
}

fn described(preview: &Preview) -> String {
    let Preview { pipeline, stream, window, eligible, first, most, runs_left } = preview;
    let now = match starts_now(preview) {
        true => format!("now: {} of the stream admit it", blocks(*eligible)),
        false => format!(
            "not yet: it waits until {} admit it, and {} {} now",
            blocks(*window),
            eligible,
            if *eligible == 1 { "does" } else { "do" }
        ),
    };
    format!(
        "{pipeline} on stream {stream}; nothing is charged by looking\n  \
         first     reads {} and loses at most epsilon {} on each of them\n  \
         worst     an attempt loses at most epsilon {} on each block it reads\n  \
         starts    {now}\n  \
         left      {runs_left} more such first attempts fit on the newest {}\n",
        blocks(*window),
        loss(*first),
        loss(*most),
        blocks(*window),
    )
}
