//! `sage census`: the private counts of a stream's units.
//!
//! Everything shown was released under a charge. True counts of rows never come here.

use clap::Args;
use sage_engine::{CensusView, EngineError, RangeCount};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::place::PlaceArgs;
use crate::suggest::hinted;

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
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &CensusArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let snapshot = engine.snapshot()?;
    if snapshot.stream(&asked.stream).is_none() {
        return Err(hinted(&engine, EngineError::NoStream(asked.stream.clone())));
    }
    let census = snapshot.census(&asked.stream);
    if asked.json {
        return print_json(&object(&asked.stream, census.as_ref()));
    }
    print(&match census {
        None => format!("stream {} has no census; its file can ask for one when it is created\n", asked.stream),
        Some(census) => text(&census),
    })
}

/// A census as an object; the fields are null where there is none.
pub(crate) fn object(stream: &str, census: Option<&CensusView>) -> Value {
    let total = census.and_then(|census| census.total);
    let counts = census.map_or(&[][..], |census| &census.counts);
    json!({
        "stream": stream,
        "unit": census.map(|census| census.unit),
        "epsilon": census.map(|census| census.epsilon.to_string()),
        "horizon": census.map(|census| census.horizon),
        "estimate": total.map(|total| total.estimate),
        "at_least": total.map(|total| total.at_least),
        "confidence": total.map(|total| 1.0 - total.chance),
        "counts": counts.iter().map(count).collect::<Vec<_>>(),
    })
}

fn count(count: &RangeCount) -> Value {
    let [train, test] = count.lanes;
    json!({"first": count.first, "last": count.last, "train": train, "test": test})
}

fn text(census: &CensusView) -> String {
    let mut text = format!("counts units of: {}\ncosts    epsilon {} on each lane\n", census.unit, census.epsilon);
    text += &match census.total {
        None => "total    none yet: no sealed block is counted\n".to_owned(),
        Some(total) => format!(
            "total    about {}, at least {} (the bounds of this census hold with confidence {})\n",
            total.estimate,
            total.at_least,
            1.0 - total.chance
        ),
    };
    for count in &census.counts {
        let [train, test] = count.lanes;
        let blocks =
            if count.first == count.last { count.first.clone() } else { format!("{} to {}", count.first, count.last) };
        text += &format!("  {blocks}: train {train}, test {test}\n");
    }
    text
}
