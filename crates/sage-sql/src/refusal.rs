//! The reasons why an expression is refused. They depend only on its text and the schema, never on rows.

use std::fmt;

/// The reason why an expression is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is not an expression over the columns of the stream.
    Unreadable {
        /// What is wrong and where.
        reason: String,
    },
    /// A part is not a function of one row, is not deterministic, or can fail.
    Part {
        /// The part, shortened.
        part: String,
        /// What is wrong with it, and what to write instead.
        why: &'static str,
    },
    /// The expression contains a query, which would read other rows.
    Subquery {
        /// The part, shortened.
        part: String,
    },
    /// The text, the tree or its depth exceeds a limit.
    TooLarge,
}

/// The most characters of a part that a refusal repeats.
const PART: usize = 80;
/// The most characters of a reason.
const REASON: usize = 400;

impl Refusal {
    pub(crate) fn unreadable(reason: impl fmt::Display) -> Self {
        Self::Unreadable { reason: shortened(&reason.to_string(), REASON) }
    }

    pub(crate) fn part(part: impl fmt::Display, why: &'static str) -> Self {
        Self::Part { part: shortened(&part.to_string(), PART), why }
    }

    pub(crate) fn subquery(part: impl fmt::Display) -> Self {
        Self::Subquery { part: shortened(&part.to_string(), PART) }
    }
}

/// The text on one line, shortened to at most `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let printable = |character: char| if character.is_control() { ' ' } else { character };
    let mut line: String = text.chars().map(printable).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push_str("...");
    }
    line
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { reason } => {
                write!(out, "not an SQL expression over the columns of the stream: {reason}")
            }
            Self::Part { part, why } => write!(out, "`{part}` is not allowed: {why}"),
            Self::Subquery { part } => {
                write!(out, "`{part}` is not allowed: a query in a query reads other rows; use the row's own columns")
            }
            Self::TooLarge => write!(
                out,
                "too large: an expression has at most 20,000 bytes, 4,000 tokens, 2,000 operations and 60 levels of \
                 nesting; split it, or nest it less"
            ),
        }
    }
}

impl std::error::Error for Refusal {}
