//! Private SQL: aggregate queries over the rows of a stream.
//!
//! A [`PrivateQuery`] is a SELECT of aggregates that was checked against its stream: its group keys are public, the
//! contribution of one row to each sum is bounded, and its expressions are functions of one row. It follows from the
//! text and the stream file only, so a refusal comes before anything is charged. Results are derived from tables of the
//! kernel: one per argument, whose noise all aggregates of the argument share.

mod answer;
mod asked;
mod key;
mod question;
mod read;
mod refusal;
mod span;

pub use answer::{Cell, Line, ResultTable};
pub(crate) use asked::QueryParameters;
pub use asked::{BlockSelection, Spend};
pub use key::KeyKind;
pub use question::{Aggregate, PrivateQuery};
pub(crate) use question::{CONFIDENCE, ResultWidth};
pub use refusal::PrivateQueryRefusal;
