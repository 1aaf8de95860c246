//! Hints: what would unblock a run without a result, from its file, its position in the schedule and its released reports.
//!
//! Each hint is something that a person can do or wait for. Hints depend on rows only through released reports, and
//! none is guaranteed to be sufficient: how much more is needed depends on rows.

use crate::adapt::{Outcome, Phase, Strategy, Verdict};
use crate::api::{Engine, EngineError};
use crate::catalog::{AttemptEnd, AttemptRecord, Run};
use crate::metrics::MetricTest;
use crate::pipeline::Goal;
use crate::run::Report;

/// Something that would unblock a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Hint {
    /// This many more sealed blocks that admit the next attempt.
    Blocks(u32),
    /// A larger share of the existing blocks: the rest is reserved for earlier runs, or not unlocked yet.
    Share,
    /// A larger window than the file allows, which is this many blocks.
    Window(u32),
    /// More doublings of the window than the file allows, which is this many.
    Doublings(u32),
    /// A higher attempt cost than the file allows.
    Budget,
    /// More attempts than the file allows, which is this many.
    Attempts(u32),
    /// A target no tighter than this one, which the last test would have met.
    Target(f64),
}

impl Engine {
    /// Hints for a run, those that depend least on others first; empty if it was accepted or an attempt is in progress.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn hints(&self, number: u64) -> Result<Vec<Hint>, EngineError> {
        let run = self.run_of(number)?;
        let mut hints = Vec::new();
        match run.state.phase() {
            Phase::Chosen(_) | Phase::Running(_) | Phase::Over(Outcome::Accepted) => return Ok(hints),
            Phase::Over(Outcome::Rejected) => return Ok(of_report(&run).into_iter().collect()),
            Phase::Idle | Phase::Over(Outcome::Stopped(_)) => {}
        }
        if let Some(waiting) = self.waiting(number)? {
            match waiting.blocks.checked_sub(waiting.admit) {
                Some(more @ 1..) => hints.push(Hint::Blocks(more)),
                _ if waiting.free < waiting.blocks => hints.push(Hint::Share),
                _ => {}
            }
        }
        hints.extend(of_limits(&run));
        hints.extend(of_report(&run));
        Ok(hints)
    }
}

/// The limits of its file that prevent the next attempt.
fn of_limits(run: &Run) -> Vec<Hint> {
    let limits = run.state.plan().limits();
    let judged: Vec<&AttemptRecord> =
        run.attempts.iter().filter(|one| matches!(one.end, Some(AttemptEnd::Judged(_)))).collect();
    let Some(last) = judged.last().map(|last| last.attempt) else { return Vec::new() };
    let grown = judged.windows(2).filter(|pair| pair[1].attempt.window > pair[0].attempt.window).count();
    let mut hints = Vec::new();
    if limits.attempts.is_some_and(|attempts| run.state.attempts() >= attempts) {
        hints.extend(limits.attempts.map(Hint::Attempts));
    }
    if last.window.saturating_mul(2) > limits.window {
        hints.push(Hint::Window(limits.window));
    }
    // The informed strategy does not count doublings.
    let doubles = run.state.plan().strategy() != Strategy::Informed;
    if doubles && grown >= limits.data_doublings as usize {
        hints.push(Hint::Doublings(limits.data_doublings));
    }
    if run.pipeline.budget.epsilon_max.is_some() && last.cost.saturating_mul(2) > limits.cost {
        hints.push(Hint::Budget);
    }
    hints
}

/// The target that the last test would have met, according to its released report.
fn of_report(run: &Run) -> Option<Hint> {
    let report = run.attempts.iter().rev().find_map(|one| match &one.end {
        Some(AttemptEnd::Judged(report)) => Some(report),
        _ => None,
    })?;
    let validate = run.pipeline.validate.as_ref()?;
    let Goal::Target(target) = validate.goal else { return None };
    // With several metrics the report does not say which of them would have to be looser.
    if report.verdict == Verdict::Accept || !validate.also.is_empty() {
        return None;
    }
    let found = match validate.metric.test() {
        MetricTest::CorrectShare => report.estimates.first()?.low.filter(|low| (0.0..target).contains(low))?,
        MetricTest::Ranking { .. } => report.estimates.first()?.low.filter(|low| *low > 0.5 && *low < target)?,
        MetricTest::HalfWidth => widest(report).filter(|half| *half > target)?,
        MetricTest::MeanLoss { bound } => {
            report.estimates.first()?.high.filter(|high| *high > target && *high < bound)?
        }
    };
    Some(Hint::Target(found))
}

/// The largest half-width of a statistic; `None` if an estimate has no bounds, or the report omits estimates.
fn widest(report: &Report) -> Option<f64> {
    let half = |interval: &crate::run::Interval| {
        let (value, low, high) = (interval.value?, interval.low?, interval.high?);
        Some((high - value).max(value - low))
    };
    let halves: Option<Vec<f64>> = report.estimates.iter().map(half).collect();
    halves.filter(|halves| halves.len() < Report::MOST_ESTIMATES).map(|halves| halves.into_iter().fold(0.0, f64::max))
}
