//! Alarms of released models: a model was tested again and did not pass.
//!
//! A conclusion is the end of a run that tests a released model of its own stream. Only a pass ends an alarm: a later
//! test that is stopped or fails changes nothing. Everything follows from released verdicts.

use super::run::{AttemptEnd, Run, RunHistory};
use crate::adapt::{End, Limit, Outcome, Phase};
use crate::pipeline::{Pipeline, Train};

/// The conclusion of a run that tests a released model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// The model met its target.
    Passed,
    /// The run ended, and no test showed that the model meets its target.
    Failed,
}

/// The conclusion of a run; `None` if it tests no released model, has not ended, or ended without a test.
pub(crate) fn conclusion(run: &Run) -> Option<Conclusion> {
    if !matches!(run.pipeline.train, Train::Released { .. }) {
        return None;
    }
    let tested = || run.attempts.iter().any(|attempt| matches!(attempt.end, Some(AttemptEnd::Judged(_))));
    match run.state.phase() {
        Phase::Over(Outcome::Accepted) => Some(Conclusion::Passed),
        Phase::Over(Outcome::Rejected) => Some(Conclusion::Failed),
        Phase::Over(Outcome::Stopped(
            End::TimedOut | End::OutOfReach | End::Limit(Limit::Attempts | Limit::Growth),
        )) => tested().then_some(Conclusion::Failed),
        _ => None,
    }
}

impl RunHistory {
    /// The release that a pipeline tests, if it is one of the pipeline's own stream: its name and its version.
    pub(crate) fn tested_release(&self, pipeline: &Pipeline) -> Option<(String, u32)> {
        let Train::Released { release } = &pipeline.train else { return None };
        let (name, which) = release.split_once('@').unwrap_or((release, "latest"));
        let version = which.parse().ok().or_else(|| self.alias(name, which))?;
        let found = self.release(name, version)?;
        let stream = &self.run(found.run)?.pipeline.stream;
        (*stream == pipeline.stream).then(|| (name.to_owned(), version))
    }

    /// The index of the newest block that the released model of a pipeline was trained or tested on. A new test reads
    /// only newer blocks, because the model was chosen by the rows of these.
    pub(crate) fn newest_block_of_tested(&self, pipeline: &Pipeline) -> Option<u32> {
        let (name, version) = self.tested_release(pipeline)?;
        let run = self.run(self.release(&name, version)?.run)?;
        run.attempts.iter().flat_map(|attempt| &attempt.blocks).map(|(_, last)| *last).max()
    }

    /// Whether a pipeline reads the block with this index and key, if it is sealed: one that it names, or else one that
    /// is newer than those of the model that it tests.
    pub(crate) fn reads(&self, pipeline: &Pipeline) -> impl Fn(u32, &String) -> bool {
        let newest = if pipeline.blocks.is_none() { self.newest_block_of_tested(pipeline) } else { None };
        let named = pipeline.blocks.clone();
        move |index, key| {
            named.as_ref().is_none_or(|named| named.contains(key)) && newest.is_none_or(|newest| index > newest)
        }
    }

    /// Records the conclusion of a run that a step may have ended, on the release that it tested last.
    pub(super) fn record_conclusion(&mut self, number: u64) {
        let Some(run) = self.run(number) else { return };
        let Some((conclusion, (name, version))) = conclusion(run).zip(run.tested.clone()) else { return };
        let index = (version as usize).checked_sub(1);
        let versions = self.releases.get_mut(&name);
        if let Some(release) = versions.zip(index).and_then(|(versions, index)| versions.get_mut(index)) {
            release.failing = match conclusion {
                Conclusion::Passed => None,
                Conclusion::Failed => release.failing.or(Some(number)),
            };
        }
    }
}
