//! `sage runs`: lists runs and their status.

use clap::Args;
use sage_server::views::requests::RunsRequest;
use sage_server::views::runs::RunSummary;

use crate::client::{self, Target};
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage runs
  sage runs --stream taxi --json

Why a run stands as it does: sage explain RUN";

#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// Only runs on this stream
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

impl RunsArgs {
    pub(crate) fn request(&self) -> RunsRequest {
        RunsRequest { stream: self.stream.clone() }
    }
}

pub(crate) fn run(args: &RunsArgs, target: Option<&Target>) -> Result<(), Failure> {
    let runs = client::open(target, &args.directory, None)?.runs(&args.request())?;
    if args.json {
        return print_json(&runs);
    }
    if runs.is_empty() {
        return print("no run yet; next: sage submit FILE\n");
    }
    let width = |part: fn(&RunSummary) -> &str, least: usize| {
        runs.iter().map(|run| part(run).chars().count()).max().unwrap_or(0).max(least)
    };
    let (pipeline, on) = (width(|run| &run.pipeline, 8), width(|run| &run.stream, 6));
    let mut text = format!("run   {:pipeline$}  {:on$}  {:15}  attempts  submitted\n", "pipeline", "stream", "status");
    for run in &runs {
        text += &format!(
            "{:<4}  {:pipeline$}  {:on$}  {:15}  {:<8}  {} by {}\n",
            run.run, run.pipeline, run.stream, run.status, run.attempts, run.submitted, run.by
        );
    }
    print(&text)
}
