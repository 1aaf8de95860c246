//! Audits: attacks on the learners, and what their success says about the loss. Proof: `proofs/audit.md`.
//!
//! A proof says that a mechanism loses at most so much; an audit measures that it loses at least so much. If
//! the second is above the first, something between the proof and the released numbers is wrong. If it is
//! not, nothing has been proved, but an audit that gets close to the claim would have noticed a wrong one.
//!
//! - [`canary`]: many plays with and without one row made to be found, seen by an attacker who sees all;
//! - [`one_run`]: one training with many such rows;
//! - [`judge`]: from scores to a bound, for any mechanism.
//!
//! Everything is charged at a gate of its own with a log in memory, on rows made up here. An audit must
//! never be given anyone's rows: what it prints is not private.

mod binomial;
mod bound;
mod game;
mod one_run;
mod report;

pub use bound::{Claim, Finding, judge, log_likelihood};
pub use game::score_steps;
pub use one_run::{OneRunReport, one_run, one_run_bound};
pub use report::{AuditError, CanaryReport, Learner, Verdict, canary};
