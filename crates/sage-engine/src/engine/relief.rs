//! What would help a run that has no result: from its file, its place in the schedule, and what was released of it.
//!
//! Each is something that a person can do or wait for. None of it was computed from rows other than through reports
//! that the kernel let leave, and none is promised to be enough: how much more is needed depends on rows.

use super::{Engine, EngineError};
use crate::adapt::{Outcome, Phase, Verdict};
use crate::catalog::{AttemptEnd, AttemptRecord, Run};
use crate::pipeline::{Goal, Metric};
use crate::run::Report;

/// Something that would help a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Relief {
    /// So many more sealed blocks that admit the next attempt.
    Blocks(u32),
    /// A larger share of the blocks there are: what is left is promised to runs that came earlier, as long as they
    /// wait, or is not unlocked yet.
    Share,
    /// A window of more blocks than its file allows, which is this many.
    Window(u32),
    /// More doublings of the window than its file allows, which is this many.
    Doublings(u32),
    /// A larger cost of an attempt than its file allows.
    Budget,
    /// More attempts than its file allows, which is this many.
    Attempts(u32),
    /// A target no tighter than this, which the last test would have met.
    Target(f64),
}

impl Engine {
    /// What would help a run, what needs least of others first; nothing where it was accepted or is under way.
    ///
    /// # Errors
    /// When there is no such run, or the log has failed.
    pub fn reliefs(&self, number: u64) -> Result<Vec<Relief>, EngineError> {
        let run = self.run_of(number)?;
        let mut reliefs = Vec::new();
        match run.state.phase() {
            Phase::Chosen(_) | Phase::Running(_) | Phase::Over(Outcome::Accepted) => return Ok(reliefs),
            Phase::Over(Outcome::Rejected) => return Ok(of_report(&run).into_iter().collect()),
            Phase::Idle | Phase::Over(Outcome::Stopped(_)) => {}
        }
        if let Some(waiting) = self.waiting(number)? {
            match waiting.blocks.checked_sub(waiting.admit) {
                Some(more @ 1..) => reliefs.push(Relief::Blocks(more)),
                _ if waiting.free < waiting.blocks => reliefs.push(Relief::Share),
                _ => {}
            }
        }
        reliefs.extend(of_limits(&run));
        reliefs.extend(of_report(&run));
        Ok(reliefs)
    }
}

/// The limits of its file that stand in the way of the next attempt.
fn of_limits(run: &Run) -> Vec<Relief> {
    let limits = run.state.plan().limits();
    let judged: Vec<&AttemptRecord> =
        run.attempts.iter().filter(|one| matches!(one.end, Some(AttemptEnd::Judged(_)))).collect();
    let Some(last) = judged.last().map(|last| last.attempt) else { return Vec::new() };
    let grown = judged.windows(2).filter(|pair| pair[1].attempt.window > pair[0].attempt.window).count();
    let mut reliefs = Vec::new();
    if limits.attempts.is_some_and(|attempts| run.state.attempts() >= attempts) {
        reliefs.extend(limits.attempts.map(Relief::Attempts));
    }
    if last.window.saturating_mul(2) > limits.window {
        reliefs.push(Relief::Window(limits.window));
    }
    if grown >= limits.data_doublings as usize {
        reliefs.push(Relief::Doublings(limits.data_doublings));
    }
    if run.pipeline.budget.epsilon_max.is_some() && last.cost.saturating_mul(2) > limits.cost {
        reliefs.push(Relief::Budget);
    }
    reliefs
}

/// The target that the last test would have met, by what was released of it.
fn of_report(run: &Run) -> Option<Relief> {
    let report = run.attempts.iter().rev().find_map(|one| match &one.end {
        Some(AttemptEnd::Judged(report)) => Some(report),
        _ => None,
    })?;
    let validate = run.pipeline.validate.as_ref()?;
    let Goal::Target(target) = validate.goal else { return None };
    if report.verdict == Verdict::Accept {
        return None;
    }
    let found = match validate.metric {
        Metric::Accuracy => report.estimates.first()?.low.filter(|low| (0.0..target).contains(low))?,
        Metric::Precision => widest(report).filter(|half| *half > target)?,
        metric => {
            let bound = metric.bound().unwrap_or(f64::INFINITY);
            report.estimates.first()?.high.filter(|high| *high > target && *high < bound)?
        }
    };
    Some(Relief::Target(found))
}

/// How far a statistic may be off, at its worst; nothing where a line has no limits, or not all lines are told.
fn widest(report: &Report) -> Option<f64> {
    let half = |interval: &crate::run::Interval| {
        let (value, low, high) = (interval.value?, interval.low?, interval.high?);
        Some((high - value).max(value - low))
    };
    let halves: Option<Vec<f64>> = report.estimates.iter().map(half).collect();
    halves.filter(|halves| halves.len() < Report::MOST_ESTIMATES).map(|halves| halves.into_iter().fold(0.0, f64::max))
}
