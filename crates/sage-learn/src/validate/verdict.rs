//! The result of a validator: a decision, the private estimate behind it and an explanation.

use std::fmt;

use sage_kernel::Pair;

use crate::estimate::Estimate;

/// A validator's decision on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The model meets its target.
    Accept,
    /// No model of its class meets the target.
    Reject,
    /// Undecided: try again with more rows or less noise.
    Retry,
}

/// The result of a validator. It is computed from released numbers alone and may be shown to everyone who may see
/// those.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The estimates, one for each metric or group.
    pub estimates: Vec<Estimate>,
    /// The released sums behind the estimates of the test lane, as shares of the range in rows.
    pub sums: Vec<Pair>,
    /// Why the first estimate is uncertain, if the test can tell.
    pub uncertainty: Option<Uncertainty>,
    /// The probability with which each estimate's limits contain the true value. The estimate is informative; the
    /// decision has its own risk.
    pub confidence: f64,
    /// The estimate, the target and what would help, in words.
    pub explanation: String,
}

/// Why an estimate is uncertain, in its own units: how far its limit on the side of the target is from the estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uncertainty {
    /// The part that more rows reduce: the sample differs from the distribution that it is drawn from.
    pub sampling: f64,
    /// The part that more rows or a larger ε reduce: noise was added to the sums.
    pub noise: f64,
    /// By how much the estimate itself misses the target; negative if it meets the target.
    pub missed_by: f64,
}

impl Verdict {
    /// A verdict without released sums.
    pub fn new(decision: Decision, estimates: Vec<Estimate>, confidence: f64, explanation: String) -> Self {
        Self { decision, estimates, sums: Vec::new(), uncertainty: None, confidence, explanation }
    }

    /// Combines metrics that must all pass with tests of which any may reject.
    ///
    /// Accepts if there are metrics and every one accepts; else rejects if anything rejects. An accepted model is
    /// never rejected: it meets the target, whatever a test concludes about its class.
    pub fn together(accepting: Vec<Self>, rejecting: Vec<Self>) -> Self {
        let passes = !accepting.is_empty() && accepting.iter().all(|verdict| verdict.decision == Decision::Accept);
        let all = || accepting.iter().chain(&rejecting);
        let decision = if passes {
            Decision::Accept
        } else if all().any(|verdict| verdict.decision == Decision::Reject) {
            Decision::Reject
        } else {
            Decision::Retry
        };
        Self {
            decision,
            estimates: all().flat_map(|verdict| verdict.estimates.iter().copied()).collect(),
            uncertainty: accepting.iter().find_map(|verdict| verdict.uncertainty),
            sums: accepting.iter().flat_map(|verdict| verdict.sums.iter().copied()).collect(),
            confidence: all().map(|verdict| verdict.confidence).fold(1.0, f64::min),
            explanation: all().map(|verdict| verdict.explanation.as_str()).collect::<Vec<_>>().join(" "),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Retry => "retry",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.decision, self.explanation)
    }
}
