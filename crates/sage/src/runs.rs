//! `sage runs`: every submission of a pipeline and how it stands.

use clap::Args;
use sage_engine::{Engine, EngineError, RunView, stream};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::place::PlaceArgs;
use crate::suggest::hinted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage runs
  sage runs --stream taxi --json

Why a run stands as it does: sage explain RUN";

#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// Those on this stream alone
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &RunsArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let mut runs = engine.runs();
    if let Some(stream) = &asked.stream {
        let missing = || hinted(&engine, EngineError::NoStream(stream.clone()));
        engine.snapshot()?.stream(stream).ok_or_else(missing)?;
        runs.retain(|run| run.stream == *stream);
    }
    if asked.json {
        return print_json(&runs.iter().map(|run| summary(&engine, run)).collect());
    }
    if runs.is_empty() {
        return print("no run yet; next: sage submit FILE\n");
    }
    let width = |part: fn(&RunView) -> &str, least: usize| {
        runs.iter().map(|run| part(run).chars().count()).max().unwrap_or(0).max(least)
    };
    let (pipeline, on) = (width(|run| &run.pipeline, 8), width(|run| &run.stream, 6));
    let mut text = format!("run   {:pipeline$}  {:on$}  {:15}  attempts  submitted\n", "pipeline", "stream", "status");
    for run in &runs {
        text += &format!(
            "{:<4}  {:pipeline$}  {:on$}  {:15}  {:<8}  {} by {}\n",
            run.number,
            run.pipeline,
            run.stream,
            run.status(),
            run.attempts.len(),
            instant(run.submitted),
            run.by
        );
    }
    print(&text)
}

/// A time of milliseconds since 1970 as text, to the second.
pub(crate) fn instant(milliseconds: u64) -> String {
    let seconds = i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX / 1_000_000);
    format!("{}Z", stream::format_time(seconds.saturating_mul(1_000_000)))
}

/// What a run released, as `name@version`.
pub(crate) fn released(engine: &Engine, run: &RunView) -> Option<String> {
    let own = engine.releases().into_iter().find(|release| release.run == run.number)?;
    Some(format!("{}@{}", own.name, own.version))
}

/// A run without its attempts.
pub(crate) fn summary(engine: &Engine, run: &RunView) -> Value {
    json!({
        "run": run.number,
        "pipeline": run.pipeline,
        "stream": run.stream,
        "by": run.by,
        "submitted": instant(run.submitted),
        "status": run.status(),
        "over": run.outcome().is_some(),
        "attempts": run.attempts.len(),
        "release": released(engine, run),
    })
}
