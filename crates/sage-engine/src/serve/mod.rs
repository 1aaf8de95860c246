//! Serving: rows as people have them, turned into what a released model takes.
//!
//! A model asks for the stream's columns that it uses, by name, within the bounds that the stream declares. Here
//! texts of a CSV and values of JSON become cells of these columns, or a refusal that names the row, the column and
//! what is allowed. The rows are the caller's own, so a refusal may quote them; no row of a stream ever comes here.

mod cell;
mod rows;

use std::fmt;

pub use cell::{allowed, cell_of_json, cell_of_text};
pub use rows::{RowFormat, RowReader, row_of_json};
pub use sage_model::bundle::{PredictError, Predictor};
pub use sage_model::formula::{Cell, Column, Domain, Missing};

/// Why rows cannot be handed to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowError {
    /// There is nothing to read, or it cannot be read.
    Unreadable(String),
    /// A line is not of its format.
    Line {
        /// The line, from one.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// A CSV lacks columns.
    Header {
        /// Which.
        missing: Vec<String>,
    },
    /// A value is missing or is not one of its column.
    Cell {
        /// The row, from one; the header of a CSV is none.
        row: u64,
        /// The column.
        column: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
}

impl fmt::Display for RowError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(out, "the rows cannot be read: {why}"),
            Self::Line { line, why } => write!(out, "line {line}: {why}"),
            Self::Header { missing } => write!(
                out,
                "the header lacks columns that the model needs: {}; names must be the same to the letter",
                missing.join(", ")
            ),
            Self::Cell { row, column, why } => write!(out, "row {row}, column `{column}`: {why}"),
        }
    }
}

impl std::error::Error for RowError {}
