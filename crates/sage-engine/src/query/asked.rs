//! What is asked for beside the words of a question: what it may cost, on whose account, and of which blocks.
//!
//! The log keeps it with the answer as it was said, not as it was worked out: the last 24 blocks are others tomorrow,
//! and whoever asks again under the same key asks the same all the same.

use sage_kernel::Epsilon;
use serde::{Deserialize, Serialize};

/// What may be spent on a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spend {
    /// By itself it is differentially private with this ε, and where the filter counts a δ with a thousandth of δ_g.
    /// What the ledger counts for it, at δ_g, can be a little more or less: [`crate::QueryCost`] has it.
    Epsilon(Epsilon),
    /// As little as makes every number known to within this half-width.
    Error(f64),
}

/// Of which blocks a question is asked. Open, retired and deleted ones are passed over, unless they are named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// Those with these keys.
    Named(Vec<String>),
    /// So many of those that were sealed last.
    Last(u32),
    /// Those that lie wholly between these times, in microseconds since 1970.
    Between(i64, i64),
    /// All.
    All,
}

/// What a question asked for, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// The context that pays, by its name.
    pub(crate) context: String,
    /// The ε, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) epsilon: Option<String>,
    /// The half-width, if that was given. As text, so that it is compared as it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Of which blocks.
    pub(crate) blocks: Which,
}

impl Asked {
    /// What is asked for on the account of this context.
    pub(crate) fn new(context: &str, spend: Spend, which: &Which) -> Self {
        let (epsilon, error) = match spend {
            Spend::Epsilon(epsilon) => (Some(epsilon.to_string()), None),
            Spend::Error(error) => (None, Some(error.to_string())),
        };
        Self { context: context.to_owned(), epsilon, error, blocks: which.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_otherwise_is_another_question() {
        let of = |text: &str| Spend::Epsilon(Epsilon::cost(text).expect("an epsilon"));
        let two = Which::Last(2);
        let asked = Asked::new("default", of("0.25"), &two);
        assert_eq!(asked, Asked::new("default", of("0.250"), &two), "the same number");
        for other in [
            Asked::new("team", of("0.25"), &two),
            Asked::new("default", of("0.250000000001"), &two),
            Asked::new("default", Spend::Error(0.25), &two),
            Asked::new("default", Spend::Error(f64::from_bits(0.25_f64.to_bits() + 1)), &two),
            Asked::new("default", of("0.25"), &Which::Last(3)),
            Asked::new("default", of("0.25"), &Which::Named(vec!["2".to_owned()])),
            Asked::new("default", of("0.25"), &Which::Between(0, 2)),
            Asked::new("default", of("0.25"), &Which::All),
        ] {
            assert_ne!(asked, other);
            let text = serde_json::to_string(&other).expect("JSON");
            assert_eq!(serde_json::from_str::<Asked>(&text).expect("the same"), other);
        }
    }
}
