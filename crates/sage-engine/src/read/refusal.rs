//! Why a query is refused: a value that names the offending part and what is allowed instead.
//!
//! A refusal is made from the text of the query and the schema alone, never from rows.

use std::fmt;

use sage_sql::Refusal;

/// Why a query is not prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryRefusal {
    /// A column of the result has no name, or one that is taken.
    Name {
        /// The name as given.
        name: String,
    },
    /// The text is no SQL expression over the columns of the stream.
    Unreadable {
        /// The name of the column it was given for, or `filter`.
        expression: String,
        /// What the planner says; it knows the text and the schema only.
        reason: String,
    },
    /// A part is not a function of one row, is not always the same, or could fail for some row.
    Part {
        /// The name of the column it was given for, or `filter`.
        expression: String,
        /// The part.
        part: String,
        /// What is wrong with it, and what to write instead.
        why: &'static str,
    },
    /// It is longer, larger or nested deeper than the limits allow.
    TooLarge {
        /// The name of the column it was given for, or `filter`.
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

    /// The refusal of the expression with this name.
    pub(super) fn of(expression: &str, why: Refusal) -> Self {
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

const SUBQUERY: &str = "a query in a query reads other rows; only the row's own columns can be used";

/// On one line and not too long.
fn short(text: &str, most: usize) -> String {
    let mut line: String = text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push_str("...");
    }
    line
}

impl fmt::Display for QueryRefusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => {
                write!(to, "a column cannot be called \"{}\": give each a name of its own", short(name, 80))
            }
            Self::Unreadable { expression, reason } => {
                write!(to, "{expression}: not an SQL expression over the columns of the stream: {reason}")
            }
            Self::Part { expression, part, why } => write!(to, "{expression}: `{part}` is not allowed: {why}"),
            Self::TooLarge { expression } => {
                write!(to, "{expression}: {}", Refusal::TooLarge)
            }
        }
    }
}

impl std::error::Error for QueryRefusal {}
