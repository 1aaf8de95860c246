//! Views of runs for front ends.

use crate::adapt::{Attempt, End, Limit, Outcome, Phase, Verdict};
use crate::api::Engine;
use crate::catalog::{AttemptEnd, AttemptRecord, Run};
use crate::run::Report;

/// A run: one submission of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    /// Its number.
    pub number: u64,
    /// The pipeline.
    pub pipeline: String,
    /// The stream.
    pub stream: String,
    /// The principal who submitted it.
    pub by: String,
    /// The time of submission, in milliseconds since 1970.
    pub submitted: u64,
    /// The text of the pipeline file.
    pub text: String,
    /// Its phase.
    pub phase: Phase,
    /// Its attempts.
    pub attempts: Vec<AttemptView>,
}

/// An attempt of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptView {
    /// The chosen attempt.
    pub attempt: Attempt,
    /// The first and the last key of each range of its blocks.
    pub blocks: Vec<(String, String)>,
    /// How it ended; `None` while it is in progress.
    pub outcome: Option<AttemptOutcome>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    /// The ledger refused it; nothing was spent.
    Refused,
    /// Its charge was cancelled; nothing was spent.
    Withdrawn,
    /// It was lost for this reason; its charge stands.
    Lost(String),
    /// It was judged.
    Judged(Report),
}

impl RunView {
    /// The outcome of the run, if it has ended.
    pub const fn outcome(&self) -> Option<Outcome> {
        match self.phase {
            Phase::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Its phase in words.
    pub fn status(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "waiting",
            Phase::Chosen(_) => "being charged",
            Phase::Running(_) => "running",
            Phase::Over(Outcome::Accepted) => "accepted",
            Phase::Over(Outcome::Rejected) => "rejected",
            Phase::Over(Outcome::Stopped(End::TimedOut)) => "timed out",
            Phase::Over(Outcome::Stopped(End::Cancelled)) => "cancelled",
            Phase::Over(Outcome::Stopped(End::Limit(Limit::Attempts))) => "out of attempts",
            Phase::Over(Outcome::Stopped(End::Limit(Limit::Growth))) => "at its limits",
            Phase::Over(Outcome::Stopped(End::Limit(Limit::Time))) => "over its time",
            Phase::Over(Outcome::Stopped(End::Limit(Limit::Memory))) => "over its memory",
            Phase::Over(Outcome::Stopped(End::Failing)) => "failing",
            Phase::Over(Outcome::Stopped(End::NotMember)) => "no member",
            Phase::Over(Outcome::Stopped(End::Crashed)) => "crashed",
            Phase::Over(Outcome::Stopped(End::NameTaken)) => "name taken",
            Phase::Over(Outcome::Stopped(End::OutOfReach)) => "out of reach",
        }
    }

    /// The report of the last attempt that was judged.
    pub fn last_report(&self) -> Option<&Report> {
        self.attempts.iter().rev().find_map(|attempt| match &attempt.outcome {
            Some(AttemptOutcome::Judged(report)) => Some(report),
            _ => None,
        })
    }

    /// The last verdict.
    pub fn last_verdict(&self) -> Option<Verdict> {
        self.last_report().map(|report| report.verdict)
    }
}

impl Engine {
    /// All runs, oldest first.
    pub fn runs(&self) -> Vec<RunView> {
        let catalog = self.catalog();
        let keys = |run: &Run| catalog.stream(&run.pipeline.stream).map_or(&[][..], |stream| &stream.sealed);
        catalog.history().runs().map(|(number, run)| view(number, run, keys(run))).collect()
    }

    /// The run with this number.
    pub fn run(&self, number: u64) -> Option<RunView> {
        let catalog = self.catalog();
        let run = catalog.history().run(number)?;
        let keys = catalog.stream(&run.pipeline.stream).map_or(&[][..], |stream| &stream.sealed);
        Some(view(number, run, keys))
    }
}

fn view(number: u64, run: &Run, keys: &[String]) -> RunView {
    RunView {
        number,
        pipeline: run.pipeline.name.clone(),
        stream: run.pipeline.stream.clone(),
        by: run.by.clone(),
        submitted: run.submitted,
        text: run.pipeline.to_text(),
        phase: run.state.phase(),
        attempts: run.attempts.iter().map(|one| attempt_view(one, keys)).collect(),
    }
}

fn attempt_view(one: &AttemptRecord, keys: &[String]) -> AttemptView {
    let key = |index: u32| keys.get(index as usize).cloned().unwrap_or_default();
    AttemptView {
        attempt: one.attempt,
        blocks: one.blocks.iter().map(|&(first, last)| (key(first), key(last))).collect(),
        outcome: one.end.as_ref().map(|ended| match ended {
            AttemptEnd::Refused => AttemptOutcome::Refused,
            AttemptEnd::Withdrawn => AttemptOutcome::Withdrawn,
            AttemptEnd::Lost(reason) => AttemptOutcome::Lost(reason.clone()),
            AttemptEnd::Judged(report) => AttemptOutcome::Judged(report.clone()),
        }),
    }
}
