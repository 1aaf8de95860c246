//! `sage blocks`: lists the blocks of a stream and what they have spent; seals, retires and deletes them.

use clap::{Args, ValueEnum};
use sage_engine::{Engine, stream};
use sage_server::views::requests::BlocksAction;
use sage_server::views::streams::{Block, apply, ended_before};

use crate::client::{self, Target};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// An action on the selected blocks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Step {
    /// No row will be added; they can be charged from now on
    Seal,
    /// They can never be read again
    Retire,
    /// The files of retired blocks are removed
    Delete,
}

#[derive(Args, Debug)]
pub(crate) struct BlocksArgs {
    /// The stream
    stream: String,

    /// Do this with the blocks named by --block or --before, instead of listing
    #[arg(long = "do", value_name = "STEP")]
    step: Option<Step>,

    /// A block's key; can be repeated
    #[arg(long = "block", value_name = "KEY")]
    keys: Vec<String>,

    /// The blocks that ended before this time (UTC): 2026-11-01, 2026-11-01T08
    #[arg(long, value_name = "TIME")]
    before: Option<String>,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl From<Step> for BlocksAction {
    fn from(step: Step) -> Self {
        match step {
            Step::Seal => Self::Seal,
            Step::Retire => Self::Retire,
            Step::Delete => Self::Delete,
        }
    }
}

impl BlocksArgs {
    /// Whether only a directory can do this.
    pub(crate) const fn is_local(&self) -> bool {
        self.step.is_some()
    }
}

pub(crate) fn run(args: &BlocksArgs, target: Option<&Target>) -> Result<(), Failure> {
    let Some(step) = args.step else {
        let blocks = client::open(target, &args.directory, None)?.blocks(&args.stream)?;
        return if args.json { print_json(&blocks) } else { print(&text(&blocks)) };
    };
    let engine = args.directory.open()?;
    let keys = chosen(args, &engine, step.into())?;
    if keys.is_empty() {
        return print("no block to do it with\n");
    }
    apply(&engine, &args.user.principal()?, &args.stream, step.into(), &keys)?;
    engine.close()?;
    print("done\n")
}

/// The blocks that `--block` and `--before` name.
fn chosen(args: &BlocksArgs, engine: &Engine, action: BlocksAction) -> Result<Vec<String>, Failure> {
    let Some(text) = &args.before else { return Ok(args.keys.clone()) };
    let time = stream::parse_time(text).ok_or_else(|| {
        Failure::usage("--before is not a time", "write it like 2026-11-01 or 2026-11-01T08:00 (UTC)")
    })?;
    let mut keys = ended_before(engine, &args.stream, action, time)?;
    keys.extend(args.keys.iter().cloned());
    Ok(keys)
}

fn text(blocks: &[Block]) -> String {
    let width = blocks.iter().map(|block| block.block.len()).max().unwrap_or(5).max(5);
    let mut text = format!("{:width$}  {:8}  train spent  test spent\n", "block", "state");
    for Block { block, state, train, test } in blocks {
        let state = state.word();
        text += &format!("{block:width$}  {state:8}  {:11}  {}\n", train.epsilon_spent, test.epsilon_spent);
    }
    text
}
