//! Serving: converts the rows of prediction requests to the inputs of a released model.
//!
//! A model takes the stream's columns that it uses, by name, within the declared bounds. CSV texts and JSON values
//! become cells of these columns, or a refusal that names the row, the column and what is allowed. The rows are the
//! caller's own, so a refusal may quote them; rows of a stream never come here.

mod cell;
mod rows;

pub use cell::{allowed, parse_json_cell, parse_text_cell};
pub use rows::{RowFormat, RowReader, parse_json_row};
pub use sage_model::bundle::{PredictError, Predictor};
pub use sage_model::formula::{Cell, Column, Domain, Missing};

/// Why rows cannot be passed to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The input is empty or cannot be read.
    #[error("the rows cannot be read: {0}")]
    Unreadable(String),
    /// A line is malformed.
    #[error("line {line}: {why}")]
    Line {
        /// The line number, from one.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The CSV header lacks columns.
    #[error("the header lacks columns that the model needs: {}; names must match exactly", .missing.join(", "))]
    Header {
        /// The missing columns.
        missing: Vec<String>,
    },
    /// A value is missing or not allowed in its column.
    #[error("row {row}, column `{column}`: {why}")]
    Cell {
        /// The row number, from one, without the CSV header.
        row: u64,
        /// The column.
        column: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
}
