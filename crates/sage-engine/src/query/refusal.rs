//! Why a question is not answered: the part that cannot be made private, and what to ask instead.
//!
//! A refusal is made from the text of the question and the stream's file alone, never from rows.

use std::fmt;

/// Why a question is refused. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRefusal {
    part: String,
    why: String,
}

impl QuestionRefusal {
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

impl fmt::Display for QuestionRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`: {}", self.part, self.why)
    }
}

impl std::error::Error for QuestionRefusal {}
