//! The report of an attempt: the document whose digest the kernel releases.
//!
//! It is written before the release, and read back if the program stopped between the release and the note in the log.
//! It contains released numbers only.

use sage_learn::validate::{Decision, Verdict};
use serde::{Deserialize, Serialize};

use crate::adapt;

/// A private estimate and its confidence limits. Values that are not finite are absent.
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
    /// The serial number of the choice within the run.
    pub serial: u64,
    /// The verdict of the validation.
    pub verdict: adapt::Verdict,
    /// One estimate per metric.
    pub estimates: Vec<Interval>,
    /// The probability with which the limits of each estimate contain the true value.
    pub confidence: f64,
    /// The estimate, the target and what would help, as text.
    pub explanation: String,
    /// The digest of the release, if the verdict is to accept.
    pub release: Option<String>,
}

impl Report {
    /// The maximum number of estimates in a report. A released table has all of them.
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

    /// The canonical JSON.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Finite numbers, texts and lists always serialize to JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The digest under which the kernel releases it.
    pub(crate) fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.to_bytes()).as_bytes()
    }
}
