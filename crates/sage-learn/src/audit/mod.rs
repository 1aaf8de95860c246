//! Audits: attacks on the learners, and the lower bound of the privacy loss that follows from their success
//! (`proofs/audit.md`).
//!
//! A proof gives an upper bound of the privacy loss; an audit measures a lower bound. If the lower bound is above
//! the upper one, something between the proof and the released numbers is wrong. Otherwise nothing is proved, but
//! an audit that gets close to the claim would have noticed a wrong one.
//!
//! - [`canary`]: many plays with and without one row made to be found, seen by an attacker who sees all;
//! - [`one_run`]: one training with many such rows;
//! - [`judge`]: from scores to a bound, for any mechanism.
//!
//! Everything is charged at a gate of its own with a log in memory, on synthetic rows. An audit must never be
//! given real rows: what it prints is not private.

mod binomial;
mod bound;
mod game;
mod one_run;
mod report;

pub use bound::{Claim, Finding, judge, log_likelihood};
pub use game::score_steps;
pub use one_run::{OneRunReport, one_run, one_run_bound};
pub use report::{AuditError, CanaryReport, Learner, Verdict, canary};
