//! The result of a validator: a decision, the private estimate behind it and an explanation.

use std::fmt;

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
    /// The probability with which each estimate's limits contain the true value. The estimate is informative; the
    /// decision has its own risk.
    pub confidence: f64,
    /// The estimate, the target and what would help, in words.
    pub explanation: String,
}

impl Verdict {
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
