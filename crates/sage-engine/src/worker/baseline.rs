//! The baseline: a released model that a new model must outperform on the same rows.
//!
//! The baseline predicts every row as it is read, and its loss is stored with the encoded row. It reads the columns
//! that its own graph names, as for any client, so it may have been trained on other features.

use std::sync::Arc;

use sage_learn::encode::Encoded;
use sage_model::bundle::Predictor;
use sage_model::formula::{Cell, Column, Domain};

use crate::api::releases::Shown;
use crate::api::{Engine, EngineError};
use crate::metrics::Metric;
use crate::pipeline::{Goal, Pipeline, Train};
use crate::plan::{Inputs, Recipe, column_expression};
use crate::read::{self, Batch, Expression, Query, Row};

/// A released model, and how its columns are read.
pub(crate) struct Baseline {
    predictor: Arc<Predictor>,
    /// The index of its first column in the query.
    first: usize,
    metric: Arc<dyn Metric>,
    /// The bounds of a numeric label.
    label: Option<(f64, f64)>,
}

impl Engine {
    /// The baseline of a pipeline, if it has one, and the query extended by its columns.
    pub(crate) fn baseline(&self, recipe: &Recipe) -> Result<(Query, Option<Baseline>), EngineError> {
        let mut query = recipe.query().clone();
        let label = recipe.inputs().and_then(Inputs::label);
        let baseline = self.baseline_beside(recipe.pipeline(), &mut query, label)?;
        Ok((query, baseline))
    }

    /// The baseline of a pipeline, if it has one. Its columns are appended to the query.
    pub(crate) fn baseline_beside(
        &self, pipeline: &Pipeline, query: &mut Query, label: Option<(f64, f64)>,
    ) -> Result<Option<Baseline>, EngineError> {
        let Some(validate) = &pipeline.validate else { return Ok(None) };
        let Goal::BetterThan { alias, .. } = &validate.goal else { return Ok(None) };
        if validate.goal.is_better_than_constant() {
            return Ok(None);
        }
        let release = self.release_named(alias)?;
        let predictor = self.predictor(&release)?;
        let first = query.columns.len();
        query.columns.extend(predictor.columns().iter().map(|column| expression("the baseline", column)));
        Ok(Some(Baseline { predictor, first, metric: Arc::clone(&validate.metric), label }))
    }

    /// Refuses a pipeline whose baseline the caller cannot see, or that predicts something else.
    pub(crate) fn check_baseline(&self, pipeline: &Pipeline, shown: &Shown<'_>) -> Result<(), EngineError> {
        let named = match &pipeline.train {
            Train::Released { release } => Some(release),
            _ => None,
        };
        let baseline = match pipeline.validate.as_ref().map(|validate| &validate.goal) {
            Some(goal @ Goal::BetterThan { alias, .. }) if !goal.is_better_than_constant() => Some(alias),
            _ => None,
        };
        for alias in named.into_iter().chain(baseline) {
            // Visibility first: the response must not reveal whether a newer release exists.
            self.release_shown(alias, shown)?;
            let release = self.release_named(alias)?;
            let catalog = self.catalog();
            let before = catalog.history().run(release.run).map(|run| &run.pipeline);
            if before.is_none_or(|before| before.stream != pipeline.stream || before.label != pipeline.label) {
                return Err(EngineError::OtherLabel(alias.clone()));
            }
        }
        Ok(())
    }
}

impl Baseline {
    /// Encodes the rows of a batch that the encoding accepts, with the baseline's loss for each.
    pub(crate) fn beside(&self, batch: &Batch, inputs: &Inputs) -> Encoded {
        let encoded = read::encode_batch(batch, inputs.encoding());
        let taken: Vec<Row<'_>> = batch.all_records().filter(|row| inputs.encoding().takes(&row.record())).collect();
        let labels = encoded.all_records().map(|record| record.label);
        let predicted = self.predictions(&taken);
        let predicted = predicted.chunks(self.predictor.outputs().max(1));
        let losses: Vec<f32> = labels.zip(predicted).map(|(label, predicted)| self.loss(label, predicted)).collect();
        encoded.with_beside(&losses).unwrap_or_else(|| read::encode_batch(batch, inputs.encoding()))
    }

    /// The loss of the baseline's prediction for one row, with the label in its own units.
    pub(crate) fn loss_of(&self, row: Row<'_>, label: f64) -> f64 {
        let cells = cells(self.predictor.columns(), row, self.first);
        let predicted = self.predictor.rows(&[cells]).ok().and_then(|found| found.first().copied());
        let Some(predicted) = predicted.filter(|predicted| !predicted.is_nan()) else { return 0.0 };
        let loss = self.metric.loss(label, f64::from(predicted), 1.0);
        if loss.is_finite() { loss } else { 0.0 }
    }

    /// Predictions for the given rows in the label's own units; NaN for a row that the model rejects. They are computed
    /// row by row: if one rejected row removed the whole batch, it would change the sum of losses by more than is
    /// charged.
    fn predictions(&self, taken: &[Row<'_>]) -> Vec<f32> {
        let columns = self.predictor.columns();
        let rows: Vec<Vec<Cell>> = taken.iter().map(|&row| cells(columns, row, self.first)).collect();
        self.predictor.each(&rows)
    }

    /// A loss that cannot be computed counts as zero, so that the new model never looks better because of it.
    fn loss(&self, label: f32, predicted: &[f32]) -> f32 {
        let Some(&first) = predicted.first().filter(|first| !first.is_nan()) else { return 0.0 };
        let loss = match self.metric.several_classes() {
            Some(metric) if !self.predictor.classes().is_empty() => metric.class_loss(label as usize, predicted),
            _ => {
                let (low, width) = self.label.map_or((0.0, 1.0), |(low, high)| (low, high - low));
                self.metric.loss(f64::from(label), (f64::from(first) - low) / width, width)
            }
        };
        if loss.is_finite() { loss as f32 } else { 0.0 }
    }
}

/// The inputs of a model for one row, whose columns start at index `first`.
pub(crate) fn cells(columns: &[Column], row: Row<'_>, first: usize) -> Vec<Cell> {
    columns.iter().zip(first..).map(|(column, index)| cell(column, row, index)).collect()
}

/// A column of the stream as an expression of the query, named after the model that reads it.
pub(crate) fn expression(whose: &str, column: &Column) -> Expression {
    let sql = column_expression(&column.name, matches!(column.domain, Domain::Time { .. }));
    Expression { name: format!("of {whose}: {}", column.name), sql }
}

fn cell(column: &Column, row: Row<'_>, index: usize) -> Cell {
    let found = match column.domain {
        Domain::Number { .. } => row.number(index).map(Cell::Number),
        Domain::Whole { .. } | Domain::Hashed => row.integer(index).map(Cell::Whole),
        Domain::Truth => row.boolean(index).map(Cell::Truth),
        Domain::Time { .. } => row.number(index).map(|seconds| Cell::Whole(seconds.floor() as i64)),
        Domain::Text { .. } => row.text(index).map(|text| Cell::Text(text.to_owned())),
    };
    found.unwrap_or(Cell::Null)
}
