//! Plans: a pipeline held against its stream, before anything is charged.
//!
//! A [`Recipe`] is a pipeline that fits its stream: its columns exist, its expressions are functions of one row,
//! its model can be written as a graph. A [`Bill`] is what one attempt of it will be charged and with which
//! noise it will be run. Both follow from public things alone (files, the ceiling, released counts), so that
//! they come out the same after a restart. Nothing here reads a row, charges anything or draws noise.

mod bill;
mod inputs;
mod own;
mod preview;
mod price;
mod refusal;
mod terms;

pub use bill::{Bill, Noises, Trained};
pub(crate) use bill::{Known, linear, of_both_lanes, quantiles, shape};
pub use inputs::Inputs;
pub(crate) use own::LABEL;
pub use own::OwnCode;
pub use preview::Preview;
pub use refusal::PlanRefusal;
pub use terms::Terms;

use crate::pipeline::{Keys, Pipeline, Statistic, Train};
use crate::read::{self, Expression, Query};
use crate::stream::StreamFile;

/// A pipeline that fits its stream.
#[derive(Clone, Debug)]
pub struct Recipe {
    pipeline: Pipeline,
    query: Query,
    inputs: Option<Inputs>,
    own: Option<OwnCode>,
}

/// The column of a statistic's value, and that of its key.
pub(crate) const VALUE: &str = "value";
pub(crate) const KEY: &str = "key";

impl Recipe {
    /// Holds a pipeline against the file of its stream.
    ///
    /// # Errors
    /// With what does not fit and what would.
    pub fn new(pipeline: Pipeline, file: &StreamFile) -> Result<Self, PlanRefusal> {
        let (query, inputs, own) = match &pipeline.train {
            Train::Statistic(statistic) => (statistic_query(&pipeline, statistic), None, None),
            Train::Command { .. } => {
                let (query, own) = own::of(&pipeline, file)?;
                (query, None, Some(own))
            }
            _ => {
                let (query, inputs) = inputs::of(&pipeline, file)?;
                (query, Some(inputs), None)
            }
        };
        read::prepare(&file.row_schema(), &query).map_err(PlanRefusal::Query)?;
        Ok(Self { pipeline, query, inputs, own })
    }

    /// The pipeline.
    pub const fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// What is read of each row.
    pub const fn query(&self) -> &Query {
        &self.query
    }

    /// What a model of ours sees of it.
    pub const fn inputs(&self) -> Option<&Inputs> {
        self.inputs.as_ref()
    }

    /// What a program of its author's is given.
    pub const fn own_code(&self) -> Option<&OwnCode> {
        self.own.as_ref()
    }
}

/// A statistic looks at a value, at a key, at both or at neither.
fn statistic_query(pipeline: &Pipeline, statistic: &Statistic) -> Query {
    let (of, by) = match statistic {
        Statistic::Count => (None, None),
        Statistic::Sum { of, .. } | Statistic::Mean { of, .. } | Statistic::Variance { of, .. } => (Some(of), None),
        Statistic::Quantile { of, .. } => (Some(of), None),
        Statistic::Histogram { by, .. } => (None, Some(by)),
        Statistic::GroupMean { of, by, .. } => (Some(of), Some(by)),
    };
    let column = |name: &str, sql: &String| Expression { name: name.to_owned(), sql: sql.clone() };
    let columns = of.map(|of| column(VALUE, of)).into_iter().chain(by.map(|by| column(KEY, by)));
    Query { filter: pipeline.filter.clone(), columns: columns.collect() }
}

/// The keys as texts, in the order of their places.
pub(crate) fn key_names(keys: &Keys) -> Vec<String> {
    match keys {
        Keys::Count(count) => (0..*count).map(|key| key.to_string()).collect(),
        Keys::Texts(texts) => texts.clone(),
    }
}
