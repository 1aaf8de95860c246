//! Progress on standard error: bars on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use sage_engine::adapt::Phase;
use sage_engine::{Engine, EngineError, RunView, stream};
use sage_server::diagnostics::note;
use sage_server::format::{blocks, loss};
use sage_server::views::runs::{verdict_text, verdict_word};

use super::year::DAYS;

/// The display of the year and its runs.
pub(super) enum Progress {
    /// A bar for the year and a line for each run.
    Bars { year: ProgressBar, runs: Vec<ProgressBar>, all: MultiProgress },
    /// A line for each month and each attempt.
    Lines { month: String },
}

impl Progress {
    pub(super) fn new(engine: &Engine) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !std::io::stderr().is_terminal() {
            return Self::Lines { month: String::new() };
        }
        let all = MultiProgress::new();
        let year = all.add(ProgressBar::new(DAYS));
        // No colours are used, so NO_COLOR needs no handling.
        year.set_style(style("{prefix:24} {bar:36} {pos:>3}/{len} days  {msg}"));
        year.set_prefix("2026, a block a day");
        let bar = |run: &RunView| {
            let bar = all.add(ProgressBar::new(1));
            bar.set_style(style("{prefix:24} {wide_msg}"));
            bar.set_prefix(run.pipeline.clone());
            bar.set_message("… waits for blocks");
            bar
        };
        let runs = engine.runs().iter().map(bar).collect();
        Self::Bars { year, runs, all }
    }

    /// The simulated clock has reached this time.
    pub(super) fn day(&mut self, instant: i64) {
        let date: String = stream::format_time(instant).chars().take(10).collect();
        match self {
            Self::Bars { year, .. } => {
                year.set_message(date);
                year.inc(1);
            }
            Self::Lines { month } => {
                let now: String = date.chars().take(7).collect();
                if *month != now {
                    note(&format!("{date}: rides up to here are in"));
                    *month = now;
                }
            }
        }
    }

    /// An attempt has started.
    pub(super) fn begun(&self, engine: &Engine, number: u64) -> Result<(), EngineError> {
        let (Some(run), losses) = (engine.run(number), engine.attempt_losses(number)?) else { return Ok(()) };
        let (Some(one), Some(lost)) = (run.attempts.last(), losses.last()) else { return Ok(()) };
        let lost = lost.map_or_else(String::new, |lost| format!("epsilon {} on ", loss(lost)));
        self.say(&run, &format!("attempt {}: {lost}{}", one.attempt.index, blocks(one.attempt.window)));
        Ok(())
    }

    /// An attempt has ended.
    pub(super) fn ended(&self, engine: &Engine, number: u64) {
        let Some(run) = engine.run(number) else { return };
        let Some(one) = run.attempts.last() else { return };
        let sign = match one.outcome.as_ref().map(verdict_word) {
            Some("accept") => "✓",
            Some("retry") => "↻",
            Some("reject") => "✕",
            _ => "–",
        };
        self.say(&run, &format!("{sign} attempt {}: {}", one.attempt.index, verdict_text(one)));
    }

    fn say(&self, run: &RunView, text: &str) {
        match self {
            Self::Lines { .. } => note(&format!("{}: {text}", run.pipeline)),
            Self::Bars { runs, .. } => {
                let index = usize::try_from(run.number.saturating_sub(1)).unwrap_or(usize::MAX);
                if let Some(bar) = runs.get(index) {
                    bar.set_message(text.to_owned());
                    if matches!(run.phase, Phase::Over(_)) {
                        bar.finish();
                    }
                }
            }
        }
    }

    /// The year is over.
    pub(super) fn finish(&self) {
        if let Self::Bars { year, runs, all } = self {
            year.finish();
            runs.iter().for_each(ProgressBar::finish);
            // The bars stay; further output is written below them.
            drop(all.println(""));
        }
    }
}

/// A style from a template. The templates are constants and valid; otherwise the default style is used.
fn style(template: &str) -> ProgressStyle {
    let plain = ProgressStyle::default_bar();
    plain.template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
