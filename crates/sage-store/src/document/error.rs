//! Why a file was not taken, with the line to look at.
//!
//! The texts quote the file, which its author may see; they must never quote a row.

use std::fmt;

use crate::suggest;

/// Why a text is not the description it is meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentError {
    /// It is not TOML.
    Syntax {
        /// The line, from one.
        line: usize,
        /// What the TOML reader says.
        reason: String,
    },
    /// It has a key that means nothing here.
    Unknown {
        /// The line, from one.
        line: usize,
        /// The key with its table, as `policy.epsilom`.
        field: String,
        /// The keys of that table.
        allowed: Vec<&'static str>,
        /// The one that was probably meant.
        meant: Option<&'static str>,
    },
    /// A key is not there.
    Missing {
        /// The line of its table.
        line: usize,
        /// The key with its table.
        field: String,
        /// What it would hold.
        allowed: String,
    },
    /// A key holds what it may not.
    Wrong {
        /// The line, from one.
        line: usize,
        /// The key with its table.
        field: String,
        /// What is there.
        found: String,
        /// What may be there.
        allowed: String,
    },
}

impl fmt::Display for DocumentError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, reason } => write!(out, "line {line}: this is not TOML: {reason}"),
            Self::Unknown { line, field, allowed, meant } => {
                write!(out, "line {line}: there is no key `{field}`")?;
                if let Some(meant) = meant {
                    write!(out, "; did you mean `{meant}`?")?;
                }
                write!(out, " (allowed here: {})", allowed.join(", "))
            }
            Self::Missing { line, field, allowed } => write!(out, "line {line}: `{field}` is missing; give {allowed}"),
            Self::Wrong { line, field, found, allowed } => {
                write!(out, "line {line}: `{field}` is {found}; it must be {allowed}")
            }
        }
    }
}

impl std::error::Error for DocumentError {}

/// The nearest known name, if it is near enough to be what was meant.
pub(super) fn nearest(typed: &str, known: &[&'static str]) -> Option<&'static str> {
    let holds = |name: &&&str| typed.len() > 2 && name.contains(typed);
    known.iter().find(holds).copied().or_else(|| suggest::nearest(typed, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["epsilon", "delta", "privacy-officer", "max"];
        for (typed, meant) in [
            ("epsilom", Some("epsilon")),
            ("Delta", Some("delta")),
            ("officer", Some("privacy-officer")),
            ("mx", Some("max")),
            ("colour", None),
        ] {
            assert_eq!(nearest(typed, &known), meant, "{typed}");
        }
        assert_eq!(nearest(&"e".repeat(5_000), &known), None);
    }
}
