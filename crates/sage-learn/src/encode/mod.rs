//! From the columns of a row to what learners read.

mod rows;

pub use rows::{Encoded, Example, Layout};
