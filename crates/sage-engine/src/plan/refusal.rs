//! Why a pipeline cannot be run on its stream. Made from files alone, never from rows.

use std::fmt;

use sage_kernel::Unpriced;
use sage_learn::encode::EncodingError;
use sage_model::bundle::GraphRefusal;

use crate::adapt::PlanError;
use crate::read::QueryRefusal;

/// Why a pipeline cannot be run on its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanRefusal {
    /// The stream has no such column.
    NoColumn {
        /// The name.
        name: String,
        /// The nearest one that it has.
        nearest: Option<String>,
    },
    /// A part of the pipeline does not fit its stream.
    Part {
        /// Which.
        part: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// An expression is no function of one row.
    Query(QueryRefusal),
    /// The features do not make up rows.
    Encoding(EncodingError),
    /// The model could not be written as a graph.
    Graph(GraphRefusal),
    /// The stream's filter has no price for a mechanism.
    Unpriced(PriceError),
    /// The first attempt is beyond the limits.
    Limits(PlanError),
}

impl PlanRefusal {
    /// A part of the pipeline that does not fit, with what would.
    pub fn part(part: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Part { part: part.into(), why: why.into() }
    }
}

impl fmt::Display for PlanRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoColumn { name, nearest } => {
                write!(out, "the stream has no column `{name}`")?;
                nearest.as_ref().map_or(Ok(()), |nearest| write!(out, "; did you mean `{nearest}`?"))
            }
            Self::Part { part, why } => write!(out, "{part}: {why}"),
            Self::Query(refusal) => refusal.fmt(out),
            Self::Encoding(error) => write!(out, "features: {error}"),
            Self::Graph(refusal) => write!(out, "features: {refusal}"),
            Self::Unpriced(why) => write!(out, "budget: {why}"),
            Self::Limits(error) => write!(out, "budget: {error}; lower epsilon0 or window.min, or raise the limits"),
        }
    }
}

impl std::error::Error for PlanRefusal {}
