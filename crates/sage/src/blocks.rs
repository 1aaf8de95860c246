//! `sage blocks`: the blocks of a stream, what they have spent, and the end of their lives.

use clap::{Args, ValueEnum};
use sage_engine::{BlockView, Engine, EngineError, Principal, stream};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::place::{PlaceArgs, WhoArgs};

/// What becomes of the blocks that are chosen.
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

    /// A block's key; repeats
    #[arg(long = "block", value_name = "KEY")]
    keys: Vec<String>,

    /// The blocks that ended before this time (UTC): 2026-11-01, 2026-11-01T08
    #[arg(long, value_name = "TIME")]
    before: Option<String>,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &BlocksArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    match asked.step {
        None => list(asked, &engine),
        Some(step) => {
            let keys = chosen(asked, &engine, step)?;
            if keys.is_empty() {
                return print("no block to do it with\n");
            }
            act(&engine, &asked.who.principal()?, &asked.stream, step, &keys)?;
            engine.close()?;
            print("done\n")
        }
    }
}

/// Does a step with blocks.
pub(crate) fn act(
    engine: &Engine, who: &Principal, stream: &str, step: Step, keys: &[String],
) -> Result<(), EngineError> {
    match step {
        Step::Seal => {
            engine.seal(who, stream, keys)?;
            engine.count_sealed(stream)
        }
        Step::Retire => engine.retire(who, stream, keys),
        Step::Delete => engine.delete(who, stream, keys),
    }
}

fn chosen(asked: &BlocksArgs, engine: &Engine, step: Step) -> Result<Vec<String>, Failure> {
    let Some(text) = &asked.before else { return Ok(asked.keys.clone()) };
    let instant = stream::parse_time(text)
        .ok_or_else(|| Failure::usage("--before is no time", "write it like 2026-11-01 or 2026-11-01T08:00 (UTC)"))?;
    let mut keys = match step {
        Step::Seal => engine.open_before(&asked.stream, instant)?,
        Step::Retire | Step::Delete => engine.over_before(&asked.stream, instant)?,
    };
    keys.extend(asked.keys.iter().cloned());
    Ok(keys)
}

fn list(asked: &BlocksArgs, engine: &Engine) -> Result<(), Failure> {
    let blocks = engine.snapshot()?.blocks(&asked.stream);
    let blocks = blocks.ok_or_else(|| EngineError::NoStream(asked.stream.clone()))?;
    if asked.json {
        return print_json(&Value::Array(blocks.iter().map(object).collect()));
    }
    let width = blocks.iter().map(|block| block.key.len()).max().unwrap_or(5).max(5);
    let mut text = format!("{:width$}  {:8}  train spent  test spent\n", "block", "state");
    for block in &blocks {
        let [train, test] = &block.lanes;
        let state = block.state.to_string();
        text += &format!("{:width$}  {state:8}  {:11}  {}\n", block.key, train.spent.to_string(), test.spent);
    }
    print(&text)
}

/// A block as an object.
pub(crate) fn object(block: &BlockView) -> Value {
    let lane = |lane: &sage_engine::LaneView| json!({"epsilon_spent": lane.spent.to_string(), "epsilon_left": lane.left.to_string()});
    let [train, test] = &block.lanes;
    json!({"block": block.key, "state": block.state.to_string(), "train": lane(train), "test": lane(test)})
}
