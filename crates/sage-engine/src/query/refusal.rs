//! Why a private query is refused: the part that cannot be private, and what to use instead.
//!
//! A refusal follows from the text of the query and the stream file only, never from rows.

use std::fmt;

/// Why a private query is refused. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateQueryRefusal {
    part: String,
    why: String,
}

impl PrivateQueryRefusal {
    pub(crate) fn new(part: impl fmt::Display, why: impl Into<String>) -> Self {
        const MOST: usize = 80;
        let part = part.to_string();
        let mut short: String =
            part.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(MOST).collect();
        if part.chars().nth(MOST).is_some() {
            short.push_str("...");
        }
        Self { part: short, why: why.into() }
    }
}

impl fmt::Display for PrivateQueryRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`: {}", self.part, self.why)
    }
}

impl std::error::Error for PrivateQueryRefusal {}
