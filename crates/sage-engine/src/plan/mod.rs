//! Plans: a pipeline held against its stream, before anything is charged.
//!
//! A [`Recipe`] is a pipeline that fits its stream: its columns exist, its expressions are functions of one row,
//! its model can be written as a graph. A [`Bill`] is what one attempt of it will be charged and with which
//! noise it will be run. Both follow from public things alone (files, the ceiling, released counts), so that
//! they come out the same after a restart. Nothing here reads a row, charges anything or draws noise.

mod apart;
mod bill;
mod charged;
mod inputs;
mod limits;
mod memory;
mod own;
mod preview;
mod price;
mod question;
mod refusal;
mod search;
mod terms;
pub(crate) mod time;
mod training;

pub(crate) use apart::{NamedTables, plan_apart};
pub use bill::{Bill, Noises, Trained};
pub(crate) use bill::{Known, of_both_lanes, quantiles};
pub(crate) use charged::charged_table_noise;
pub use inputs::Inputs;
pub(crate) use inputs::graph_columns;
pub use limits::AttemptLimits;
pub(crate) use own::{LABEL, value_of};
pub use own::{OwnCode, Tested};
pub use preview::Preview;
pub(crate) use price::{OneRelease, one_release};
pub(crate) use question::Priced;
pub use refusal::PlanRefusal;
pub use terms::Terms;
pub use training::TrainingBudget;

use crate::pipeline::{Bounds, Keys, Pipeline, Statistic, Train};
use crate::read::{self, Expression, Query};
use crate::stream::{Kind, StreamFile};

/// A pipeline that fits its stream.
#[derive(Clone, Debug)]
pub struct Recipe {
    pipeline: Pipeline,
    query: Query,
    inputs: Option<Inputs>,
    own: Option<OwnCode>,
    tested: Option<Tested>,
}

/// A released table of group means, as a feature looks at it: its keys, the bounds of its values, and the values, of
/// which those that nobody knows are absent.
#[derive(Clone, Debug)]
pub struct Table {
    /// The keys.
    pub keys: Keys,
    /// The bounds.
    pub bounds: Bounds,
    /// A value for each key.
    pub values: Vec<Option<f64>>,
}

/// Where released tables are found, by name and version.
pub trait Tables {
    /// The table of this name; nothing if there is none.
    fn table(&self, release: &str) -> Option<Table>;
}

/// No tables.
pub struct NoTables;

impl Tables for NoTables {
    fn table(&self, _: &str) -> Option<Table> {
        None
    }
}

/// The column of a statistic's value, and that of its key.
pub(crate) const VALUE: &str = "value";
pub(crate) const KEY: &str = "key";

impl Recipe {
    /// Holds a pipeline against the file of its stream.
    ///
    /// # Errors
    /// With what does not fit and what would.
    pub fn new(pipeline: Pipeline, file: &StreamFile, tables: &dyn Tables) -> Result<Self, PlanRefusal> {
        let foreign = |key: &&String| !can_be_a_block(file, key);
        if let Some(key) = pipeline.blocks.iter().flatten().find(foreign) {
            return Err(PlanRefusal::part("blocks", format!("`{key}` is no key of a block of this stream")));
        }
        let (mut inputs, mut own, mut tested) = (None, None, None);
        let query = match &pipeline.train {
            Train::Statistic(statistic) => statistic_query(&pipeline, statistic),
            Train::Command { .. } | Train::Released { .. } => {
                let label = own::tested(&pipeline, file)?;
                let mut query = Query { filter: pipeline.filter.clone(), columns: vec![label.label.clone()] };
                if matches!(pipeline.train, Train::Command { .. }) {
                    let (seen, code) = own::of(&pipeline, file, label.label.clone())?;
                    (query, own) = (seen, Some(code));
                }
                tested = Some(label);
                query
            }
            Train::Model(learner) => {
                let (query, of_model) = inputs::of(&pipeline, file, tables)?;
                let reject = pipeline.validate.as_ref().is_some_and(|validate| {
                    validate.reject && matches!(validate.metric, crate::pipeline::Metric::Accuracy)
                });
                if reject && of_model.encoding().cells().is_none() {
                    let why = "false: a classifier can be rejected by its accuracy where all features are categories, \
                               with at most 8388608 combinations";
                    return Err(PlanRefusal::part("validate.reject", why));
                }
                learner.check_inputs(&of_model)?;
                inputs = Some(of_model);
                query
            }
        };
        read::prepare(&file.row_schema(), &query).map_err(PlanRefusal::Query)?;
        Ok(Self { pipeline, query, inputs, own, tested })
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

    /// What a model that was not trained here is tested against.
    pub const fn tested(&self) -> Option<&Tested> {
        self.tested.as_ref()
    }

    /// What a program of its author's is given.
    pub const fn own_code(&self) -> Option<&OwnCode> {
        self.own.as_ref()
    }
}

/// Whether a block of the stream can have this key, whether or not there is one yet.
fn can_be_a_block(file: &StreamFile, key: &str) -> bool {
    let Some(levels) = file.blocks.parse(key) else { return false };
    let column = file.blocks.attribute.as_ref().and_then(|name| file.column(name));
    match (levels.attribute, column.map(|(_, column)| &column.kind)) {
        (Some(category), Some(Kind::Category { categories, .. })) => categories.contains(&category),
        (attribute, _) => attribute.is_none(),
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
