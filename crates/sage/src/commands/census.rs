//! `sage census`: the private counts of a stream's units.
//!
//! Every number was released under a charge. Exact counts are never shown.

use clap::Args;
use sage_server::views::census::{Census, CensusCount};

use crate::client::{self, Target};
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage census shop
  sage census shop --json

A census counts the units of sealed blocks privately, where the stream's file asks for one:
  census = { epsilon = \"0.5\", horizon = 64 }
Counts are released when blocks are sealed: sage blocks STREAM --do seal --before TIME --as NAME";

#[derive(Args, Debug)]
pub(crate) struct CensusArgs {
    /// The stream
    stream: String,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CensusArgs, target: Option<&Target>) -> Result<(), Failure> {
    let census = client::open(target, &args.directory, None)?.census(&args.stream)?;
    if args.json { print_json(&census) } else { print(&text(&census)) }
}

fn text(census: &Census) -> String {
    let (Some(unit), Some(epsilon)) = (&census.unit, &census.epsilon) else {
        return format!(
            "stream {} has no census; a stream file can declare one when the stream is created\n",
            census.stream
        );
    };
    let mut text = format!("counts units of: {unit}\ncosts    epsilon {epsilon} on each lane\n");
    text += &match (census.estimate, census.at_least, census.confidence) {
        (Some(estimate), Some(at_least), Some(confidence)) => format!(
            "total    about {estimate}, at least {at_least} (the bounds of this census hold with confidence {confidence})\n"
        ),
        _ => "total    none yet: no sealed block is counted\n".to_owned(),
    };
    for CensusCount { first, last, train, test } in &census.counts {
        let blocks = if first == last { first.clone() } else { format!("{first} to {last}") };
        text += &format!("  {blocks}: train {train}, test {test}\n");
    }
    text
}
