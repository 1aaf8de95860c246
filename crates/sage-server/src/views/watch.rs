//! The lines of `sage watch --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs::{Attempt, Run};
use super::{Decimal, Interval};

/// A change of a run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WatchEvent {
    /// The number of the run.
    pub run: u64,
    /// The pipeline.
    pub pipeline: String,
    /// What changed.
    #[serde(flatten)]
    pub change: RunChange,
}

/// What changed in a run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunChange {
    /// Its status.
    Status {
        /// The new status in words.
        status: String,
    },
    /// An attempt began.
    Attempt {
        /// Its number, from 1.
        attempt: u32,
        /// What it costs each block.
        epsilon: Option<Decimal>,
        /// How many blocks it reads.
        blocks: u32,
        /// The first and the last key of each range of its blocks.
        block_ranges: Vec<[String; 2]>,
    },
    /// An attempt ended.
    Verdict {
        /// Its number, from 1.
        attempt: u32,
        /// How it ended.
        verdict: Option<String>,
        /// The reason of the verdict.
        reason: Option<String>,
        /// What its test found.
        estimates: Option<Vec<Interval>>,
        /// The confidence with which the limits of the estimates hold.
        confidence: Option<f64>,
    },
    /// The run ended.
    End {
        /// Its last status in words.
        status: String,
        /// What it released, as `name@version`.
        release: Option<String>,
        /// The reason of its status.
        why: String,
        /// What to do next.
        help: String,
    },
}

impl RunChange {
    /// The beginning of an attempt.
    #[must_use]
    pub fn begun(attempt: &Attempt) -> Self {
        Self::Attempt {
            attempt: attempt.attempt,
            epsilon: attempt.epsilon.clone(),
            blocks: attempt.blocks,
            block_ranges: attempt.block_ranges.clone(),
        }
    }

    /// The verdict of an attempt.
    #[must_use]
    pub fn judged(attempt: &Attempt) -> Self {
        Self::Verdict {
            attempt: attempt.attempt,
            verdict: attempt.verdict.clone(),
            reason: attempt.reason.clone(),
            estimates: attempt.estimates.clone(),
            confidence: attempt.confidence,
        }
    }

    /// The end of a run.
    #[must_use]
    pub fn ended(run: &Run) -> Self {
        Self::End {
            status: run.status.clone(),
            release: run.release.clone(),
            why: run.why.clone(),
            help: run.help.clone(),
        }
    }
}
