//! Private SQL: aggregate queries over the rows of a stream.
//!
//! A [`PrivateQuery`] is a SELECT of aggregates that was checked against its stream: its group keys are public, the
//! contribution of one row to each sum is bounded, and its expressions are functions of one row. It follows from the
//! text and the stream file only, so a refusal comes before anything is charged. Results are derived from tables of the
//! kernel: one per argument, whose noise all aggregates of the argument share.

mod key;
mod parameters;
mod private_query;
mod read;
mod refusal;
mod result;
mod span;

pub use key::KeyKind;
pub(crate) use parameters::QueryParameters;
pub use parameters::{BlockSelection, Spend};
pub use private_query::{Aggregate, PrivateQuery};
pub(crate) use private_query::{CONFIDENCE, ResultWidth};
pub use refusal::PrivateQueryRefusal;
pub use result::{Cell, Line, ResultTable};
