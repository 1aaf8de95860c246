//! The results of `sage audit`: attacks on the learners, and verification and export of the log.

use std::path::PathBuf;

use sage_engine::Ceiling;
use sage_engine::audit::{CanaryReport, OneRunReport, Verdict};
use sage_engine::log::hexadecimal;
use sage_engine::verify::Verification;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The guarantee that a learner claims.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl From<Ceiling> for Claim {
    fn from(claimed: Ceiling) -> Self {
        Self { epsilon: claimed.epsilon.units() as f64 / 1e12, delta: claimed.delta.units() as f64 / 1e18 }
    }
}

/// Many runs with and without a planted row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryAudit {
    /// The learner.
    pub learner: String,
    /// The claim.
    pub claimed: Claim,
    /// A lower bound of ε at the claimed δ.
    pub epsilon_lower: f64,
    /// The confidence of the lower bound.
    pub confidence: f64,
    /// The probability that a claim that holds is called violated.
    pub false_alarm: f64,
    /// The runs with the row, and as many without it.
    pub runs: u32,
    /// Whether the claim is violated.
    pub violated: bool,
    /// The result as a sentence.
    pub sentence: String,
}

impl From<&CanaryReport> for CanaryAudit {
    fn from(report: &CanaryReport) -> Self {
        Self {
            learner: report.learner.to_string(),
            claimed: report.claimed.into(),
            epsilon_lower: report.epsilon_lower,
            confidence: report.confidence,
            false_alarm: report.false_alarm,
            runs: report.runs,
            violated: report.verdict == Verdict::Violated,
            sentence: report.sentence.clone(),
        }
    }
}

/// One training with many planted rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneRunAudit {
    /// The claim.
    pub claimed: Claim,
    /// A lower bound of ε at the claimed δ.
    pub epsilon_lower: f64,
    /// The confidence of the lower bound.
    pub confidence: f64,
    /// The number of planted rows.
    pub canaries: u32,
    /// The number of guesses.
    pub guesses: u32,
    /// The number of correct guesses.
    pub correct: u32,
}

impl From<&OneRunReport> for OneRunAudit {
    fn from(report: &OneRunReport) -> Self {
        let OneRunReport { claimed, epsilon_lower, confidence, canaries, guesses, correct } = *report;
        Self { claimed: claimed.into(), epsilon_lower, confidence, canaries, guesses, correct }
    }
}

/// The result of verifying a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerificationReport {
    /// Whether no problem was found.
    pub sound: bool,
    /// The number of events.
    pub events_verified: u64,
    /// The hash of the last event.
    pub head: String,
    /// The exported log heads that were given.
    pub heads: Vec<HeadCheck>,
    /// The number of files that were compared with their digests.
    pub files_verified: u64,
    /// The problems found.
    pub findings: Vec<String>,
    /// Whether a process uses the directory.
    pub in_use: bool,
    /// Whether the directory was restored and waits for an officer's acknowledgement.
    pub fenced: bool,
}

/// An exported log head compared with the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeadCheck {
    /// The file that it was read from.
    pub file: PathBuf,
    /// The number of events up to it.
    pub events: u64,
    /// Whether the log contains it.
    pub held: bool,
}

impl From<&Verification> for VerificationReport {
    fn from(verified: &Verification) -> Self {
        let heads = verified.heads.iter();
        let heads =
            heads.map(|(file, known, held)| HeadCheck { file: file.clone(), events: known.head.length, held: *held });
        Self {
            sound: verified.is_sound(),
            events_verified: verified.head.length,
            head: hexadecimal(&verified.head.hash),
            heads: heads.collect(),
            files_verified: verified.files as u64,
            findings: verified.findings.iter().map(ToString::to_string).collect(),
            in_use: verified.in_use,
            fenced: verified.fenced,
        }
    }
}

/// An export for an auditor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportResult {
    /// The folder.
    pub folder: PathBuf,
    /// The number of events in it.
    pub events: u64,
}
