//! Empirical privacy audits of the learners: attacks with synthetic rows, and the loss that their success proves.
//!
//! Every trial is charged at its own gate with a log in memory. No stream is touched and no budget is used.

use sage_kernel::Ceiling;
use sage_kernel::noise::SecureNoise;
pub use sage_learn::audit::{AuditError, CanaryReport, Learner, OneRunReport, Verdict};

/// Runs the learner `runs` times with a canary row and as often without it, and tests the claimed bound.
///
/// # Errors
/// When a parameter is out of range, or the kernel refuses a trial.
pub fn canary(learner: Learner, claimed: Ceiling, runs: u32) -> Result<CanaryReport, AuditError> {
    sage_learn::audit::canary(learner, claimed, runs, SecureNoise::new)
}

/// Trains one network on canary rows, each included at random, and guesses which were included.
///
/// # Errors
/// As [`canary`].
pub fn one_run(claimed: Ceiling, canaries: u32) -> Result<OneRunReport, AuditError> {
    sage_learn::audit::one_run(claimed, canaries, SecureNoise::new)
}
