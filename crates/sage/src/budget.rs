//! `sage budget`: what a stream has lost, what is left, and how far that goes.

use std::path::PathBuf;

use clap::Args;
use sage_engine::plan::Preview;
use sage_engine::{BlockView, EngineError, State, StreamView};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{blocks, left, loss, print, print_json};
use crate::place::{PlaceArgs, WhoArgs};
use crate::plan;
use crate::suggest::hinted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage budget taxi
  sage budget taxi --for duration.toml --as mia

A stream has lost what its most spent block has lost. Nothing gives a budget back: new blocks are the refresh.";

#[derive(Args, Debug)]
pub(crate) struct BudgetArgs {
    /// The stream
    stream: String,

    /// Also count how many more runs like this pipeline's fit
    #[arg(long = "for", value_name = "FILE")]
    pipeline: Option<PathBuf>,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many of the newest sealed blocks are shown.
const NEWEST: usize = 5;

pub(crate) fn run(asked: &BudgetArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let snapshot = engine.snapshot()?;
    let missing = || hinted(&engine, EngineError::NoStream(asked.stream.clone()));
    let stream = snapshot.stream(&asked.stream).ok_or_else(missing)?;
    let mut sealed = snapshot.blocks(&asked.stream).ok_or_else(missing)?;
    sealed.retain(|block| block.state == State::Sealed);
    let newest = &sealed[sealed.len().saturating_sub(NEWEST)..];
    let preview = match &asked.pipeline {
        None => None,
        Some(file) => {
            let found = plan::preview(&engine, &asked.who.principal()?, file, &plan::text_of(file)?)?;
            if found.stream != asked.stream {
                let message = format!("{} is a pipeline on stream \"{}\"", file.display(), found.stream);
                return Err(Failure::usage(message, format!("sage budget {} --for {}", found.stream, file.display())));
            }
            Some(found)
        }
    };
    match asked.json {
        true => print_json(&object(&stream, newest, preview.as_ref())),
        false => print(&text(&stream, newest, preview.as_ref())),
    }
}

fn object(stream: &StreamView, newest: &[BlockView], preview: Option<&Preview>) -> Value {
    let states: serde_json::Map<String, Value> =
        stream.blocks.iter().map(|(state, count)| (state.to_string(), json!(count))).collect();
    let block = |block: &BlockView| {
        let [train, test] = &block.lanes;
        json!({
            "block": block.key,
            "train_epsilon_left": train.left.to_string(),
            "test_epsilon_left": test.left.to_string(),
        })
    };
    json!({
        "stream": stream.name,
        "promise": stream.promise,
        "epsilon_lost": stream.spent.to_string(),
        "blocks": states,
        "newest": newest.iter().map(block).collect::<Vec<_>>(),
        "for": preview.map(plan::object),
    })
}

fn text(stream: &StreamView, newest: &[BlockView], preview: Option<&Preview>) -> String {
    let states: Vec<String> = stream.blocks.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let mut text = format!(
        "{}\n  policy   {}\n  lost     epsilon {}: what the block has lost that lost most\n  blocks   {}\n",
        stream.name,
        stream.promise,
        loss(stream.spent),
        states.join(", ")
    );
    for (place, block) in newest.iter().rev().enumerate() {
        let [train, test] = &block.lanes;
        let what = if place == 0 { "left" } else { "" };
        let (train, test) = (left(train.left), left(test.left));
        text += &format!("  {what:7}  epsilon {train} to train, {test} to test on {}\n", block.key);
    }
    if newest.is_empty() {
        text += &format!("  left     no block is sealed; next: sage blocks {} --do seal --before TIME\n", stream.name);
    }
    if let Some(Preview { pipeline, window, first, runs_left, .. }) = preview {
        let runs = if *runs_left == 1 { "1 more run".to_owned() } else { format!("{runs_left} more runs") };
        text += &format!(
            "  runs     {runs} like {pipeline} at epsilon {} fit on the newest {} that admit it\n",
            loss(*first),
            blocks(*window)
        );
    }
    text
}
