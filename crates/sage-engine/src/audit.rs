//! Audits of the learners, for front ends: attacks on made-up rows, and what their success says.
//!
//! Every play is charged at a gate of its own with a log in memory. No stream is touched and no budget used.

use sage_kernel::Ceiling;
use sage_kernel::noise::SecureNoise;
pub use sage_learn::audit::{AuditError, CanaryReport, Learner, OneRunReport, Verdict};

/// Plays the learner's game so many times with a planted row and as often without it, and judges the claim.
///
/// # Errors
/// When a parameter is out of range, or the kernel does not run a play.
pub fn canary(learner: Learner, claimed: Ceiling, runs: u32) -> Result<CanaryReport, AuditError> {
    sage_learn::audit::canary(learner, claimed, runs, SecureNoise::new)
}

/// Trains one network on so many planted rows, each of which is in by a coin, and guesses which are.
///
/// # Errors
/// As [`canary`].
pub fn one_run(claimed: Ceiling, canaries: u32) -> Result<OneRunReport, AuditError> {
    sage_learn::audit::one_run(claimed, canaries, SecureNoise::new)
}
