//! `sage budget`: what a stream has lost, what is left, and how far that goes.

use std::path::PathBuf;

use clap::Args;
use sage_engine::{BlockView, EngineError, State, StreamView};
use sage_server::format::{blocks, loss, remaining, rounded_up};
use sage_server::views::Decimal;
use sage_server::views::plan::Plan;
use sage_server::views::streams::{BlockBudget, Budget, block_states};

use crate::client::{Client, LocalClient};
use crate::commands::plan::pipeline_request;
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};
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

    /// Also count how many more runs of this pipeline fit
    #[arg(long = "for", value_name = "FILE")]
    pipeline: Option<PathBuf>,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many of the newest sealed blocks are shown.
const NEWEST: usize = 5;

pub(crate) fn run(args: &BudgetArgs) -> Result<(), Failure> {
    let client = LocalClient::open(&args.directory, Some(&args.user))?;
    let snapshot = client.engine().snapshot()?;
    let missing = || hinted(client.engine(), EngineError::NoStream(args.stream.clone()));
    let stream = snapshot.stream(&args.stream).ok_or_else(missing)?;
    let mut sealed = snapshot.blocks(&args.stream).ok_or_else(missing)?;
    sealed.retain(|block| block.state == State::Sealed);
    let newest = &sealed[sealed.len().saturating_sub(NEWEST)..];
    let pipeline = match &args.pipeline {
        None => None,
        Some(file) => {
            let found = client.plan(&pipeline_request(file)?)?;
            if found.stream != args.stream {
                let message = format!("{} is a pipeline on stream \"{}\"", file.display(), found.stream);
                return Err(Failure::usage(message, format!("sage budget {} --for {}", found.stream, file.display())));
            }
            Some(found)
        }
    };
    if !args.json {
        return print(&text(&stream, newest, pipeline.as_ref()));
    }
    print_json(&Budget {
        stream: stream.name.clone(),
        promise: stream.promise.clone(),
        epsilon_lost: Decimal::from_exact(stream.spent),
        blocks: block_states(&stream),
        newest: newest.iter().map(BlockBudget::from).collect(),
        pipeline,
    })
}

fn text(stream: &StreamView, newest: &[BlockView], plan: Option<&Plan>) -> String {
    let states: Vec<String> = stream.blocks.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let mut text = format!(
        "{}\n  policy   {}\n  lost     epsilon {}: what the block has lost that lost most\n  blocks   {}\n",
        stream.name,
        stream.promise,
        loss(stream.spent),
        states.join(", ")
    );
    for (index, block) in newest.iter().rev().enumerate() {
        let [train, test] = &block.lanes;
        let what = if index == 0 { "left" } else { "" };
        let (train, test) = (remaining(train.left), remaining(test.left));
        text += &format!("  {what:7}  epsilon {train} to train, {test} to test on {}\n", block.key);
    }
    if newest.is_empty() {
        text += &format!("  left     no block is sealed; next: sage blocks {} --do seal --before TIME\n", stream.name);
    }
    if let Some(plan) = plan {
        let runs = if plan.runs_left == 1 { "1 more run".to_owned() } else { format!("{} more runs", plan.runs_left) };
        text += &format!(
            "  runs     {runs} like {} at epsilon {} fit on the newest {} that admit it\n",
            plan.pipeline,
            rounded_up(plan.first_attempt.epsilon.to_f64()),
            blocks(plan.first_attempt.blocks)
        );
    }
    text
}
