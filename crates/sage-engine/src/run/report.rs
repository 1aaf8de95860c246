//! The report of an attempt: the document whose digest the kernel releases.
//!
//! It is written before the release, and read back if the program stopped between the release and the note in the log.
//! It contains released numbers only.

use std::fmt;

use sage_learn::validate::{Decision, Estimate, Verdict};
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

impl From<&Estimate> for Interval {
    fn from(estimate: &Estimate) -> Self {
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        Self { value: estimate.value.and_then(finite), low: finite(estimate.low), high: finite(estimate.high) }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |number: f64| format!("{number:.6}").trim_end_matches('0').trim_end_matches('.').to_owned();
        let number = |number: Option<f64>, none: &str| number.map_or_else(|| none.to_owned(), short);
        let limits = format!("from {} to {}", number(self.low, "no limit"), number(self.high, "no limit"));
        match self.value {
            Some(value) => write!(out, "{} ({limits})", short(value)),
            None => out.write_str(&limits),
        }
    }
}

/// Why an estimate is uncertain: how far its limit on the side of the target is from the estimate, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncertainty {
    /// The part that more rows reduce.
    pub sampling: f64,
    /// The part that more rows or a larger ε reduce.
    pub noise: f64,
    /// By how much the estimate itself misses the target; negative if it meets the target.
    pub missed_by: f64,
}

impl Uncertainty {
    fn finite(of: sage_learn::validate::Uncertainty) -> Option<Self> {
        let sage_learn::validate::Uncertainty { sampling, noise, missed_by } = of;
        let finite = [sampling, noise, missed_by].iter().all(|part| part.is_finite());
        finite.then_some(Self { sampling, noise, missed_by })
    }
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
    /// The released noisy sums behind the estimates, as two numbers of rows each: the share of the range above the
    /// lower bound, and the rest. Forecasts of later attempts are computed from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<[f64; 2]>,
    /// Why the first estimate is uncertain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<Uncertainty>,
    /// The metric of the best constant prediction, where the test has a target and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_constant: Option<Interval>,
    /// The estimate, the target and what would help, as text.
    pub explanation: String,
    /// The digest of the release, if the verdict is to accept.
    pub release: Option<String>,
}

impl Report {
    /// The maximum number of estimates in a report. A released table has all of them.
    pub(crate) const MOST_ESTIMATES: usize = 16;

    pub(crate) fn new(
        (run, serial): (u64, u64), verdict: &Verdict, best_constant: Option<Interval>, release: Option<String>,
    ) -> Self {
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        let numbers = |sums: &sage_kernel::Pair| Some([finite(sums.above)?, finite(sums.below)?]);
        Self {
            run,
            serial,
            verdict: match verdict.decision {
                Decision::Accept => adapt::Verdict::Accept,
                Decision::Reject => adapt::Verdict::Reject,
                Decision::Retry => adapt::Verdict::Retry,
            },
            estimates: verdict.estimates.iter().take(Self::MOST_ESTIMATES).map(Interval::from).collect(),
            confidence: verdict.confidence,
            sums: verdict.sums.iter().take(Self::MOST_ESTIMATES).filter_map(numbers).collect(),
            uncertainty: verdict.uncertainty.and_then(Uncertainty::finite),
            best_constant,
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
