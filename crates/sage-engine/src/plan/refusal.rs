//! Why a pipeline cannot run on its stream. Refusals follow from files only, never from rows.

use sage_kernel::PriceError;
use sage_learn::encode::EncodingError;
use sage_model::bundle::GraphRefusal;

use crate::adapt::PlanError;
use crate::read::QueryRefusal;

/// Why a pipeline cannot run on its stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanRefusal {
    /// The stream has no such column.
    #[error("the stream has no column `{name}`{}", suggestion(nearest.as_deref()))]
    NoColumn {
        /// The name.
        name: String,
        /// The most similar column of the stream.
        nearest: Option<String>,
    },
    /// A part of the pipeline does not fit its stream.
    #[error("{part}: {why}")]
    Part {
        /// The part: a key, a table or a feature.
        part: String,
        /// What is wrong, and how to correct it.
        why: String,
    },
    /// An expression is not a function of one row.
    #[error(transparent)]
    Query(QueryRefusal),
    /// The features do not form a valid encoding.
    #[error("features: {0}")]
    Encoding(#[source] EncodingError),
    /// The model cannot be exported as a graph.
    #[error("features: {0}")]
    Graph(#[source] GraphRefusal),
    /// The stream's filter has no price for a mechanism.
    #[error("budget: {0}")]
    Unpriced(PriceError),
    /// The first attempt exceeds the limits.
    #[error("budget: {0}; lower epsilon0 or window.min, or raise the limits")]
    Limits(#[source] PlanError),
}

impl PlanRefusal {
    /// A part of the pipeline that does not fit, with what would.
    pub fn part(part: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Part { part: part.into(), why: why.into() }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}
