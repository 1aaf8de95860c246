//! Audits: attacks on the learners, and the lower bound of the privacy loss that follows from their success
//! (`proofs/audit.md`).
//!
//! A proof gives an upper bound of the privacy loss; an audit measures a lower bound. If the lower bound is above
//! the upper one, something between the proof and the released numbers is wrong. Otherwise nothing is proved, but
//! an audit whose bound is close to the claim would have detected a wrong claim.
//!
//! - [`canary`]: many trainings with and without one canary row, and an attacker who sees every release;
//! - [`one_run`]: one training with many canaries;
//! - [`judge`]: from an attacker's scores to a bound, for any mechanism.
//!
//! Everything is charged at a separate gate with an in-memory log, on synthetic rows. An audit must never read real
//! rows: its report is not private.

mod binomial;
mod bound;
mod game;
mod one_run;
mod report;

pub use bound::{Claim, Finding, judge, log_likelihood};
pub use game::score_steps;
pub use one_run::{OneRunReport, one_run, one_run_bound};
pub use report::{AuditError, CanaryReport, Learner, Verdict, canary};
