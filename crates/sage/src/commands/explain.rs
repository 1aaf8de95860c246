//! `sage explain`: why a run ended as it did, or what it waits for, and what would help.
//!
//! Everything that it prints was released or is public: verdicts, private estimates, keys of blocks, costs.

use clap::Args;

use crate::client::{self, Target};
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage explain 3
  sage explain 3 --json";

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The run's number
    run: u64,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs, target: Option<&Target>) -> Result<(), Failure> {
    let run = client::open(target, &args.directory, None)?.run(args.run)?;
    if args.json { print_json(&run) } else { print(&run.text()) }
}
