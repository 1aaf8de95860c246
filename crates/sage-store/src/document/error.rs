//! Errors of a configuration file, each with its line.
//!
//! The messages quote the file, which its author may see. They must never quote a row.

use crate::suggest;

/// Why a configuration file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The text is not TOML.
    #[error("line {line}: invalid TOML: {reason}")]
    Syntax {
        /// The line, counted from one.
        line: usize,
        /// The message of the TOML parser.
        reason: String,
    },
    /// A table has a key that it does not define.
    #[error(
        "line {line}: there is no key `{field}`{} (allowed here: {})",
        did_you_mean(.suggestion), .allowed.join(", ")
    )]
    Unknown {
        /// The line, counted from one.
        line: usize,
        /// The key with its table, such as `policy.epsilom`.
        field: String,
        /// The keys that the table defines.
        allowed: Vec<&'static str>,
        /// The allowed key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A required key is absent.
    #[error("line {line}: `{field}` is missing; give {allowed}")]
    Missing {
        /// The line of the table that lacks it.
        line: usize,
        /// The key with its table.
        field: String,
        /// A description of the values it may have.
        allowed: String,
    },
    /// A key has an invalid value.
    #[error("line {line}: `{field}` is {found}; it must be {allowed}")]
    Wrong {
        /// The line, counted from one.
        line: usize,
        /// The key with its table.
        field: String,
        /// The value in the file, shortened.
        found: String,
        /// A description of the values it may have.
        allowed: String,
    },
}

fn did_you_mean(suggestion: &Option<&str>) -> String {
    suggestion.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

/// The known name that `typed` is part of or, failing that, the one with the smallest edit distance.
pub(super) fn nearest(typed: &str, known: &[&'static str]) -> Option<&'static str> {
    let contains_typed = |name: &&&str| typed.len() > 2 && name.contains(typed);
    known.iter().find(contains_typed).copied().or_else(|| suggest::nearest(typed, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_get_a_suggestion_and_unrelated_words_do_not() {
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
