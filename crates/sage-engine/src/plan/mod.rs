//! Plans: a pipeline is checked against its stream and priced, before anything is charged.
//!
//! A [`Recipe`] is a pipeline that fits its stream: its columns exist, its expressions are functions of one row, and
//! its model can be exported as a graph. An [`AttemptCost`] is the charge of one attempt and the noise that it pays
//! for. Both follow from public data only (files, the ceiling, released counts), so that they are the same after a
//! restart. Nothing here reads a row, charges anything or draws noise.

mod attempt_cost;
mod charged;
mod inputs;
mod label;
mod limits;
mod memory;
mod own;
mod planning_thread;
mod preview;
mod price;
mod question;
mod refusal;
mod search;
mod terms;
pub(crate) mod time;
mod training;
mod types;

pub use attempt_cost::{AttemptCost, StageNoise, TrainingNoise};
pub(crate) use attempt_cost::{CostInputs, quantile_plan, tested_noise, uses_both_lanes};
pub(crate) use charged::charged_table_noise;
pub use inputs::Inputs;
pub(crate) use inputs::graph_columns;
pub use label::LabelValues;
pub use limits::AttemptLimits;
pub(crate) use own::{LABEL, column_expression};
pub use own::{OwnCode, TestLabel};
pub(crate) use planning_thread::{NamedTables, plan_on_thread};
pub use preview::{ForecastLine, Preview};
pub(crate) use price::{PricedRelease, price_release};
pub(crate) use question::QueryPrice;
pub use refusal::PlanRefusal;
pub use terms::Terms;
pub use training::TrainingBudget;

use sage_kernel::Contribution;

use crate::metrics::RejectionTest;
use crate::pipeline::{Bounds, Keys, Pipeline, Statistic, Train};
use crate::read::{self, Expression, Query};
use crate::stream::{Kind, StreamFile};

/// A pipeline checked against its stream.
#[derive(Clone, Debug)]
pub struct Recipe {
    pipeline: Pipeline,
    query: Query,
    inputs: Option<Inputs>,
    own: Option<OwnCode>,
    tested: Option<TestLabel>,
    contribution: Contribution,
}

/// A released table of group means, as used by a feature.
#[derive(Clone, Debug)]
pub struct Table {
    /// The group keys.
    pub keys: Keys,
    /// The bounds of the values.
    pub bounds: Bounds,
    /// The mean of each key; `None` where it was not released.
    pub values: Vec<Option<f64>>,
}

/// A lookup of released tables by name and version.
pub trait Tables {
    /// The table with this name, if there is one.
    fn table(&self, release: &str) -> Option<Table>;
}

/// A lookup without tables.
pub struct NoTables;

impl Tables for NoTables {
    fn table(&self, _: &str) -> Option<Table> {
        None
    }
}

/// The column names of a statistic's value and key.
pub(crate) const VALUE: &str = "value";
pub(crate) const KEY: &str = "key";

impl Recipe {
    /// Checks a pipeline against the file of its stream.
    ///
    /// # Errors
    /// With the part that does not fit and what would fit.
    pub fn new(pipeline: Pipeline, file: &StreamFile, tables: &dyn Tables) -> Result<Self, PlanRefusal> {
        let foreign = |key: &&String| !is_block_key(file, key);
        if let Some(key) = pipeline.blocks.iter().flatten().find(foreign) {
            return Err(PlanRefusal::part("blocks", format!("`{key}` is not a valid block key of this stream")));
        }
        let (mut inputs, mut own, mut tested) = (None, None, None);
        let query = match &pipeline.train {
            Train::Statistic(statistic) => statistic_query(&pipeline, statistic),
            Train::Command { .. } | Train::Released { .. } => {
                let label = own::test_label(&pipeline, file)?;
                let mut query = Query { filter: pipeline.filter.clone(), columns: vec![label.label.clone()] };
                if matches!(pipeline.train, Train::Command { .. }) {
                    let (seen, code) = own::plan_own_code(&pipeline, file, label.label.clone())?;
                    (query, own) = (seen, Some(code));
                }
                tested = Some(label);
                query
            }
            Train::Model(learner) => {
                let (query, model_inputs) = inputs::plan_inputs(&pipeline, file, tables)?;
                let reject = pipeline.validate.as_ref().is_some_and(|validate| {
                    validate.reject && validate.metric.rejection() == Some(RejectionTest::BestAnswers)
                });
                if reject && model_inputs.encoding().cells().is_none() {
                    let why = "false: rejection by accuracy needs features that are all categorical, \
                               with at most 8388608 combinations";
                    return Err(PlanRefusal::part("validate.reject", why));
                }
                learner.check_inputs(&model_inputs)?;
                inputs = Some(model_inputs);
                query
            }
        };
        read::prepare(&file.row_schema(), &query).map_err(PlanRefusal::Query)?;
        types::check_types(&pipeline, file, tables)?;
        Ok(Self { pipeline, query, inputs, own, tested, contribution: file.unit.contribution() })
    }

    /// The pipeline.
    pub const fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The columns that are read from each row.
    pub const fn query(&self) -> &Query {
        &self.query
    }

    /// The most records of a privacy unit that count.
    pub const fn contribution(&self) -> Contribution {
        self.contribution
    }

    /// The inputs of a built-in learner.
    pub const fn inputs(&self) -> Option<&Inputs> {
        self.inputs.as_ref()
    }

    /// The label for validating a model that a user's program or an earlier run made.
    pub const fn tested(&self) -> Option<&TestLabel> {
        self.tested.as_ref()
    }

    /// The user's program.
    pub const fn own_code(&self) -> Option<&OwnCode> {
        self.own.as_ref()
    }
}

/// Whether a block of the stream can have this key, whether or not it exists yet.
fn is_block_key(file: &StreamFile, key: &str) -> bool {
    let Some(levels) = file.blocks.parse(key) else { return false };
    let column = file.blocks.attribute.as_ref().and_then(|name| file.column(name));
    match (levels.attribute, column.map(|(_, column)| &column.kind)) {
        (Some(category), Some(Kind::Category { categories, .. })) => categories.contains(&category),
        (attribute, _) => attribute.is_none(),
    }
}

/// The query of a statistic: its value, its key, both or neither.
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

/// The keys as texts, in order.
pub(crate) fn key_names(keys: &Keys) -> Vec<String> {
    match keys {
        Keys::Count(count) => (0..*count).map(|key| key.to_string()).collect(),
        Keys::Texts(texts) => texts.clone(),
    }
}
