//! Questions: private SQL over the rows of a stream.
//!
//! A [`Question`] is a SELECT of aggregates held against its stream: its keys are public, what one row can add to each
//! of its sums is known, and its expressions are functions of one row. It follows from the text and the stream's file
//! alone, so whatever is refused is refused before anything is charged. It is answered from the kernel's tables: each
//! argument has one, whose noise all its aggregates share.

mod answer;
mod asked;
mod key;
mod question;
mod read;
mod refusal;
mod span;

pub use answer::{Answer, Cell, Line};
pub(crate) use asked::Asked;
pub use asked::{Spend, Which};
pub use key::KeyKind;
pub use question::{Aggregate, Question};
pub(crate) use question::{CONFIDENCE, Width};
pub use refusal::QuestionRefusal;
