//! What is known of an attempt when it is over: the document whose digest the kernel releases.
//!
//! It is written before the release and read back if the program was stopped between the release and the log's
//! note. All of it is made from released numbers.

use sage_learn::validate::{Decision, Verdict};
use serde::{Deserialize, Serialize};

use crate::adapt;

/// A private estimate and its limits. What is not finite is absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The estimate.
    pub value: Option<f64>,
    /// The lower limit.
    pub low: Option<f64>,
    /// The upper limit.
    pub high: Option<f64>,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The run.
    pub run: u64,
    /// Which choice of the run it was.
    pub serial: u64,
    /// What the test said.
    pub verdict: adapt::Verdict,
    /// What was found, one estimate a metric.
    pub estimates: Vec<Interval>,
    /// The chance with which each estimate's limits hold the true value.
    pub confidence: f64,
    /// What was found, against which target, and what would help.
    pub explanation: String,
    /// The digest of what leaves, where it was accepted.
    pub release: Option<String>,
}

impl Report {
    /// The most estimates that a report repeats; a released table has them all.
    pub(crate) const MOST_ESTIMATES: usize = 16;

    pub(crate) fn new((run, serial): (u64, u64), verdict: &Verdict, release: Option<String>) -> Self {
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        let interval = |estimate: &sage_learn::validate::Estimate| Interval {
            value: estimate.value.and_then(finite),
            low: finite(estimate.low),
            high: finite(estimate.high),
        };
        Self {
            run,
            serial,
            verdict: match verdict.decision {
                Decision::Accept => adapt::Verdict::Accept,
                Decision::Reject => adapt::Verdict::Reject,
                Decision::Retry => adapt::Verdict::Retry,
            },
            estimates: verdict.estimates.iter().take(Self::MOST_ESTIMATES).map(interval).collect(),
            confidence: verdict.confidence,
            explanation: verdict.explanation.clone(),
            release,
        }
    }

    /// Its one form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Numbers that are finite, texts and lists: there is nothing in it that JSON cannot hold.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The digest under which the kernel releases it.
    pub(crate) fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.to_bytes()).as_bytes()
    }
}
