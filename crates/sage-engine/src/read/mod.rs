//! Reading: per-row SQL over the blocks that a permit covers, into a session of the kernel.
//!
//! This module is trusted: rows leave the block store only here. A pipeline's filter and expressions are checked and
//! planned before a permit is requested ([`prepare`]). Then [`open`] consumes the permit and returns a session. There
//! is no other way to get a [`Batch`]: it has no public field and no public constructor, and outside a session it is
//! visible in the attested mode only.
//!
//! Nothing here may turn a row into a message, a count or an error. Rows that a filter excludes are not in the session;
//! they stay charged, because the exclusion was computed from them.
//!
//! `sage-sql` evaluates expressions batch by batch, in one pass over bytes that were verified in memory. Evaluation has no
//! error path: every row gives a value or null.

mod error;
mod part;
mod query;
mod reader;
mod refusal;
mod rows;
mod sums;
mod synthetic;
mod translate;
mod unit;

pub use error::ReadError;
pub(crate) use query::value_kind;
pub use query::{Expression, PreparedQuery, Query, prepare};
pub use reader::{Source, encode_batch, open, open_encoded, open_summed};
pub use refusal::QueryRefusal;
pub use rows::{Batch, Record, Row};
pub use sums::{SummaryCacheAccess, SummaryFunction, SummaryPlan, SummaryRetention, tag};
pub(crate) use synthetic::synthetic_batch;
pub use translate::formula;
pub use unit::Unit;
