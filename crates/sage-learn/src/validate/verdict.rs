//! What a validator says: a decision, the private estimate behind it, and why, in words.

use std::fmt;

use crate::estimate::Estimate;

/// What is to be done with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It meets its target.
    Accept,
    /// No model of its class would.
    Reject,
    /// Undecided: try again with more rows or less noise.
    Retry,
}

/// The answer of a validator. Made of released numbers alone: it may be shown to anyone who may see those.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What is to be done.
    pub decision: Decision,
    /// What was found: one estimate a metric or group.
    pub estimates: Vec<Estimate>,
    /// The probability with which each estimate's limits hold the true value. The estimate is for reading; the
    /// decision has a risk of its own.
    pub confidence: f64,
    /// What was found, against which target, and what would help.
    pub explanation: String,
}

impl Verdict {
    /// The verdict on several metrics that must all pass, beside tests of which any may reject.
    ///
    /// Accepts if there are metrics and every one accepts; else rejects if anything rejects. A model that
    /// was accepted is not rejected: it is at hand, whatever is said of its class.
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
