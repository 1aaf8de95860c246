//! Why a per-row query is refused: the offending part, and what is allowed instead.
//!
//! A refusal follows from the text of the query and the schema only, never from rows.

use std::fmt;

use sage_sql::Refusal;

/// Why a per-row query is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryRefusal {
    /// A column of the result has no name, or a duplicate name.
    #[error("a column cannot be named \"{}\": give each column a unique, non-empty name", short(name, 80))]
    Name {
        /// The name as given.
        name: String,
    },
    /// The text is not an SQL expression over the columns of the stream.
    #[error("{expression}: not an SQL expression over the columns of the stream: {reason}")]
    Unreadable {
        /// The name of the column, or `filter`.
        expression: String,
        /// The planner's message, which depends on the text and the schema only.
        reason: String,
    },
    /// A part is not a function of one row, not deterministic, or could fail for some row.
    #[error("{expression}: `{part}` is not allowed: {why}")]
    Part {
        /// The name of the column, or `filter`.
        expression: String,
        /// The part.
        part: String,
        /// What is wrong with it, and what to write instead.
        why: &'static str,
    },
    /// The expression is longer, larger or nested deeper than the limits allow.
    #[error("{expression}: {}", Refusal::TooLarge)]
    TooLarge {
        /// The name of the column, or `filter`.
        expression: String,
    },
}

impl QueryRefusal {
    pub(super) fn unreadable(expression: &str, reason: impl fmt::Display) -> Self {
        Self::Unreadable { expression: expression.to_owned(), reason: short(&reason.to_string(), 400) }
    }

    pub(super) fn part(expression: &str, part: impl fmt::Display, why: &'static str) -> Self {
        Self::Part { expression: expression.to_owned(), part: short(&part.to_string(), 80), why }
    }

    /// Converts a refusal of `sage-sql` for the expression with this name.
    pub(super) fn from_sql(expression: &str, why: Refusal) -> Self {
        let expression = expression.to_owned();
        match why {
            Refusal::Unreadable { reason } => Self::Unreadable { expression, reason },
            Refusal::Part { part, why } => Self::Part { expression, part, why },
            Refusal::Subquery { part } => Self::Part { expression, part, why: SUBQUERY },
            Refusal::TooLarge => Self::TooLarge { expression },
            other => Self::Unreadable { expression, reason: other.to_string() },
        }
    }
}

const SUBQUERY: &str = "a subquery reads other rows; only the row's own columns can be used";

/// The text on one line, truncated.
fn short(text: &str, most: usize) -> String {
    let mut line: String = text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push_str("...");
    }
    line
}
