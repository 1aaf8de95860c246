//! The parameters of a private query besides its SQL: its budget, the paying context, and the blocks.
//!
//! The log records them as given, not as resolved: "the last 24 blocks" are others tomorrow, and a repeated request
//! with the same key is still the same request.

use sage_kernel::Epsilon;
use serde::{Deserialize, Serialize};

/// The budget of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spend {
    /// The query alone is differentially private with this ε, and with a thousandth of δ_g where the filter counts δ.
    /// What the ledger counts for it at δ_g can differ slightly; see [`crate::QueryCost`].
    Epsilon(Epsilon),
    /// The smallest budget for which every number has at most this half-width.
    Error(f64),
}

/// The blocks of a query. Open, retired and deleted blocks are skipped, unless they are named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockSelection {
    /// The blocks with these keys.
    Named(Vec<String>),
    /// The most recently sealed blocks, up to this number.
    Last(u32),
    /// The blocks entirely between these times, in microseconds since 1970.
    Between(i64, i64),
    /// All blocks.
    All,
}

/// The parameters of a query, as recorded in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryParameters {
    /// The name of the paying context.
    pub(crate) context: String,
    /// The ε, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) epsilon: Option<String>,
    /// The half-width, if given; as text, so that it is compared exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The blocks.
    pub(crate) blocks: BlockSelection,
}

impl QueryParameters {
    /// The parameters of a query that this context pays for.
    pub(crate) fn new(context: &str, spend: Spend, which: &BlockSelection) -> Self {
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
    fn queries_with_different_parameters_differ() {
        let of = |text: &str| Spend::Epsilon(Epsilon::cost(text).expect("an epsilon"));
        let two = BlockSelection::Last(2);
        let parameters = QueryParameters::new("default", of("0.25"), &two);
        assert_eq!(parameters, QueryParameters::new("default", of("0.250"), &two), "the same number");
        for other in [
            QueryParameters::new("team", of("0.25"), &two),
            QueryParameters::new("default", of("0.250000000001"), &two),
            QueryParameters::new("default", Spend::Error(0.25), &two),
            QueryParameters::new("default", Spend::Error(f64::from_bits(0.25_f64.to_bits() + 1)), &two),
            QueryParameters::new("default", of("0.25"), &BlockSelection::Last(3)),
            QueryParameters::new("default", of("0.25"), &BlockSelection::Named(vec!["2".to_owned()])),
            QueryParameters::new("default", of("0.25"), &BlockSelection::Between(0, 2)),
            QueryParameters::new("default", of("0.25"), &BlockSelection::All),
        ] {
            assert_ne!(parameters, other);
            let text = serde_json::to_string(&other).expect("JSON");
            assert_eq!(serde_json::from_str::<QueryParameters>(&text).expect("the same"), other);
        }
    }
}
