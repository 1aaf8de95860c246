//! Reading: per-row SQL over the blocks a permit covers, into the kernel's session.
//!
//! This room is trusted: it is the one place where rows leave the block store. A pipeline's filter and
//! expressions are checked and planned before any permit is asked for ([`prepare`]); then [`open`] uses
//! up the permit and gives a session. There is no other way to a [`Batch`]: it has no public field and no
//! public constructor, and outside a session it is seen in the declared mode alone.
//!
//! Nothing here may turn a row into a message, a count or an error. Rows that a filter leaves out are not
//! in the session; they stay charged, since leaving them out was computed from them.
//!
//! Expressions are evaluated batch by batch by `sage-sql`, in one pass over bytes that were verified in memory. An
//! evaluation has no error path: whatever a row holds, it has a value or null.

mod error;
mod part;
mod query;
mod reader;
mod refusal;
mod rows;
mod sums;
mod translate;
mod unit;

pub use error::ReadError;
pub use query::{Expression, Prepared, Query, prepare};
pub use reader::{Source, encoded, open, open_encoded, open_summed};
pub use refusal::QueryRefusal;
pub use rows::{Batch, Record, Row};
pub use sums::{Keep, Keeping, Summing, Sums, tag};
pub use translate::formula;
pub use unit::Unit;
