//! The final report: releases, what was spent, a prediction, and the address of the dashboard.

use std::path::PathBuf;

use sage_engine::adapt::Outcome;
use sage_engine::serve::{RowFormat, RowReader};
use sage_engine::{Engine, EngineError, RunView, State, StreamView};
use sage_server::format::{blocks, loss, rounded_up};
use sage_server::views::demo::{DashboardAddress, DemoBudget, DemoPrediction, DemoReport, ModelMinutes};
use sage_server::views::prediction;
use sage_server::views::releases::full_name;
use sage_server::views::runs::{Run, released_by};
use sage_server::views::streams::block_states;

use super::pipelines::{MODELS, STREAM};
use crate::failure::Failure;

/// A ride in the future.
const RIDE: &str = "pickup,distance,payment\n2027-01-04T08:15:00,2.5,card\n";
const RIDE_IN_WORDS: &str = "2.5 miles on Monday, 4 January 2027, at 08:15, paid by card";

/// Everything that is reported at the end.
pub(super) struct End {
    seconds: f64,
    runs: Vec<RunEnd>,
    stream: StreamView,
    /// Blocks that were read at least once.
    touched: usize,
    events: u64,
    /// Model and minutes.
    predictions: Vec<(String, f32)>,
    /// The address and the token of the dashboard, if it is started.
    pub(super) dashboard: Option<(String, String)>,
    /// The directory, if it is kept.
    pub(super) kept: Option<PathBuf>,
}

struct RunEnd {
    run: RunView,
    release: Option<String>,
    view: Run,
}

impl End {
    pub(super) fn of(engine: &Engine, seconds: f64) -> Result<Self, Failure> {
        let snapshot = engine.snapshot()?;
        let missing = || EngineError::NoStream(STREAM.to_owned());
        let (stream, all) = snapshot.stream(STREAM).zip(snapshot.blocks(STREAM)).ok_or_else(missing)?;
        let untouched = |block: &&sage_engine::BlockView| block.lanes.iter().all(|lane| lane.spent.units() == 0);
        let mut runs = Vec::new();
        for run in engine.runs() {
            let view = Run::read(engine, run.number)?;
            runs.push(RunEnd { release: released_by(engine, &run), view, run });
        }
        Ok(Self {
            seconds,
            runs,
            stream,
            touched: all.len() - all.iter().filter(untouched).count(),
            events: snapshot.head().length,
            predictions: predictions(engine)?,
            dashboard: None,
            kept: None,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("\nA year in {:.0} seconds.\n\nReleases\n", self.seconds);
        for one in &self.runs {
            text += &one.line();
        }
        let sealed =
            self.stream.blocks.iter().find(|(state, _)| *state == State::Sealed).map_or(0, |(_, count)| *count);
        text += &format!(
            "\nBudgets\n  {}.\n  Lost so far: epsilon {} on the block that lost most. Of {} that are sealed {} were \
             read; the log has {} events.\n",
            self.stream.promise,
            loss(self.stream.spent),
            blocks(u32::try_from(sealed).unwrap_or(u32::MAX)),
            self.touched,
            self.events
        );
        if !self.predictions.is_empty() {
            text += &format!("\nA prediction: {RIDE_IN_WORDS}\n");
        }
        for (model, minutes) in &self.predictions {
            text += &format!("  {minutes:.1} minutes by {model}\n");
        }
        if let Some((address, token)) = &self.dashboard {
            text += &format!("\nDashboard, until Ctrl-C\n  {address}/login\n  token  {token}\n\n");
        }
        if let Some(path) = &self.kept {
            text += &format!("\nLook around: sage runs --dir {}\n", path.display());
        }
        text
    }

    /// The report as JSON.
    pub(super) fn report(&self) -> DemoReport {
        let predictions = self.predictions.iter();
        DemoReport {
            seconds: self.seconds,
            accepted: self.runs.iter().filter(|one| one.run.outcome() == Some(Outcome::Accepted)).count() as u64,
            runs: self.runs.iter().map(|one| one.view.clone()).collect(),
            releases: self.runs.iter().filter_map(|one| one.release.clone()).collect(),
            budget: DemoBudget {
                promise: self.stream.promise.clone(),
                epsilon_lost: self.stream.spent.to_string(),
                blocks: block_states(&self.stream),
                blocks_read: self.touched as u64,
            },
            log_events: self.events,
            prediction: DemoPrediction {
                ride: RIDE_IN_WORDS.to_owned(),
                answers: predictions
                    .map(|(model, minutes)| ModelMinutes { model: model.clone(), minutes: prediction(*minutes) })
                    .collect(),
            },
            dashboard: self
                .dashboard
                .as_ref()
                .map(|(address, token)| DashboardAddress { address: address.clone(), token: token.clone() }),
        }
    }
}

impl RunEnd {
    fn line(&self) -> String {
        let cost = self.view.attempts.last().map_or_else(String::new, |last| {
            let until = last.block_ranges.last().map_or("", |[_, until]| until);
            let epsilon = last.epsilon.as_ref().map_or_else(String::new, |epsilon| rounded_up(epsilon.to_f64()));
            format!(", the last with epsilon {epsilon} on {} blocks up to {until}", last.blocks)
        });
        let attempts = match self.run.attempts.len() {
            1 => "1 attempt".to_owned(),
            count => format!("{count} attempts"),
        };
        match &self.release {
            Some(name) => format!("  ✓ {name:26} {attempts}{cost}\n"),
            None => format!("  – {:26} {}: {}\n", self.run.pipeline, self.run.status(), self.view.why),
        }
    }
}

/// The predictions of the released models for the ride.
fn predictions(engine: &Engine) -> Result<Vec<(String, f32)>, Failure> {
    let mut found = Vec::new();
    for name in MODELS {
        let Ok(release) = engine.release_named(name) else { continue };
        let predictor = engine.predictor(&release)?;
        let rows = RowReader::new(predictor.columns(), Box::new(RIDE.as_bytes()), Some(RowFormat::Csv))
            .and_then(|mut reader| reader.take_rows(1))
            .map_err(|why| Failure::no_answer(why.to_string(), "sage demo"))?;
        let hours = predictor.rows(&rows).map_err(EngineError::from)?;
        found.extend(hours.first().map(|hours| (full_name(&release), 60.0 * hours)));
    }
    Ok(found)
}
