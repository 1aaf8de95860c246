//! `sage stream`: streams and their files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sage_engine::{PolicyOutcome, StreamView};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::place::{PlaceArgs, WhoArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Create the stream a file describes
    Create(FileArgs),
    /// Have a stream follow a changed file; loosening its policy waits for a second officer
    Change(FileArgs),
    /// Agree to the policy another officer has proposed
    Approve(NameArgs),
    /// Show one stream, or all
    Show(ShowArgs),
}

#[derive(Args, Debug)]
pub(crate) struct FileArgs {
    /// The stream's file
    file: PathBuf,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct NameArgs {
    /// The stream
    stream: String,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The stream; all of them if none is named
    stream: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &StreamCommand) -> Result<(), Failure> {
    match command {
        StreamCommand::Create(asked) => {
            let (who, text) = (asked.who.principal()?, asked.text()?);
            let engine = asked.place.open_or_make()?;
            engine.create_stream(&who, &text)?;
            engine.close()?;
            print("created; next: sage ingest STREAM FILE\n")
        }
        StreamCommand::Change(asked) => {
            let engine = asked.place.open()?;
            let outcome = engine.change_stream(&asked.who.principal()?, &asked.text()?)?;
            engine.close()?;
            print(match outcome {
                PolicyOutcome::Same => "nothing changes\n",
                PolicyOutcome::InForce => "in force\n",
                PolicyOutcome::Waits => {
                    "it would loosen the policy and waits for another officer: sage stream approve STREAM\n"
                }
            })
        }
        StreamCommand::Approve(asked) => {
            let engine = asked.place.open()?;
            engine.approve_policy(&asked.who.principal()?, &asked.stream)?;
            engine.close()?;
            print("in force\n")
        }
        StreamCommand::Show(asked) => show(asked),
    }
}

impl FileArgs {
    fn text(&self) -> Result<String, Failure> {
        std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.file.display()), "give a stream's TOML file"))
    }
}

fn show(asked: &ShowArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let snapshot = engine.snapshot()?;
    let views = match &asked.stream {
        None => snapshot.streams(),
        Some(name) => vec![snapshot.stream(name).ok_or_else(|| sage_engine::EngineError::NoStream(name.clone()))?],
    };
    if asked.json {
        return print_json(&Value::Array(views.iter().map(object).collect()));
    }
    print(&views.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// A stream as an object.
pub(crate) fn object(view: &StreamView) -> Value {
    let blocks: serde_json::Map<String, Value> =
        view.blocks.iter().map(|(state, count)| (state.to_string(), json!(count))).collect();
    json!({
        "name": view.name,
        "unit": view.unit,
        "promise": view.promise,
        "epsilon_spent": view.spent.to_string(),
        "blocks": blocks,
        "policy_proposed_by": view.proposed_by,
        "file": view.file,
    })
}

fn text(view: &StreamView) -> String {
    let blocks: Vec<String> = view.blocks.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let waits = match &view.proposed_by {
        Some(name) => format!("  waits    a policy proposed by {name}: sage stream approve {}\n", view.name),
        None => String::new(),
    };
    format!(
        "{}\n  promise  {}\n  spent    epsilon {} on the block that has spent most\n  blocks   {}\n{waits}",
        view.name,
        view.promise,
        view.spent,
        blocks.join(", ")
    )
}
