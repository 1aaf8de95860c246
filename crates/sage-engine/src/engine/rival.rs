//! A released model that a new one has to beat, on the same rows.
//!
//! The rival is asked about each row as it is read, and its loss stands beside the row. It is asked as a consumer
//! would ask it, with the columns that its graph names, so that it may have been trained on other features.

use std::sync::Arc;

use sage_kernel::Rows;
use sage_learn::bundle::Predictor;
use sage_learn::encode::Encoded;
use sage_learn::formula::{Cell, Column, Domain};

use super::releases::Shown;
use super::{Engine, EngineError};
use crate::pipeline::{Goal, Metric, Pipeline, Train};
use crate::plan::{Inputs, Recipe, column_expression};
use crate::read::{self, Batch, Expression, Query, Row};
use crate::run::row_loss;

/// A released model and how its columns are read.
pub(super) struct Rival {
    predictor: Arc<Predictor>,
    /// The place of its first column in the query.
    first: usize,
    metric: Metric,
    /// The label's bounds, where it is a number.
    label: Option<(f64, f64)>,
}

impl Engine {
    /// The rival of a pipeline that has one, and the query that reads its columns too.
    pub(super) fn rival(&self, recipe: &Recipe) -> Result<(Query, Option<Rival>), EngineError> {
        let mut query = recipe.query().clone();
        let label = recipe.inputs().and_then(Inputs::label);
        let rival = self.rival_beside(recipe.pipeline(), &mut query, label)?;
        Ok((query, rival))
    }

    /// The rival of a pipeline that has one; its columns come last in the query.
    pub(super) fn rival_beside(
        &self, pipeline: &Pipeline, query: &mut Query, label: Option<(f64, f64)>,
    ) -> Result<Option<Rival>, EngineError> {
        let Some(validate) = &pipeline.validate else { return Ok(None) };
        let Goal::BetterThan { alias, .. } = &validate.goal else { return Ok(None) };
        let release = self.release_named(alias)?;
        let predictor = self.predictor(&release)?;
        let first = query.columns.len();
        query.columns.extend(predictor.columns().iter().map(|column| expression("the rival", column)));
        Ok(Some(Rival { predictor, first, metric: validate.metric, label }))
    }

    /// Refuses a pipeline whose baseline the caller cannot see, or that predicts something else.
    pub(super) fn check_rival(&self, pipeline: &Pipeline, shown: &Shown<'_>) -> Result<(), EngineError> {
        let named = match &pipeline.train {
            Train::Released { release } => Some(release),
            _ => None,
        };
        let rival = match pipeline.validate.as_ref().map(|validate| &validate.goal) {
            Some(Goal::BetterThan { alias, .. }) => Some(alias),
            _ => None,
        };
        for alias in named.into_iter().chain(rival) {
            // First what the caller may see: whether there is something newer must not show in the answer.
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

impl Rival {
    /// The rows of a batch that the encoding takes, encoded, with the rival's loss beside each.
    pub(super) fn beside(&self, batch: &Batch, inputs: &Inputs) -> Encoded {
        let encoded = read::encode_batch(batch, inputs.encoding());
        let taken: Vec<usize> =
            (0..batch.count()).filter(|&index| inputs.encoding().takes(&batch.row(index).record())).collect();
        let losses: Vec<f32> = self
            .predictions(batch, &taken)
            .into_iter()
            .enumerate()
            .map(|(index, predicted)| self.loss(encoded.row(index).label, predicted))
            .collect();
        encoded.with_beside(&losses).unwrap_or_else(|| read::encode_batch(batch, inputs.encoding()))
    }

    /// The loss of what it predicts for a row that is read one by one, whose label, in its own units, is this.
    pub(super) fn loss_of(&self, row: Row<'_>, label: f64) -> f64 {
        let cells = cells(self.predictor.columns(), row, self.first);
        let predicted = self.predictor.rows(&[cells]).ok().and_then(|found| found.first().copied());
        let Some(predicted) = predicted.filter(|predicted| !predicted.is_nan()) else { return 0.0 };
        let loss = row_loss(self.metric, label, f64::from(predicted), 1.0);
        if loss.is_finite() { loss } else { 0.0 }
    }

    /// What it predicts for each of these rows, in the label's own units; NaN for a row that it does not take. Row by
    /// row: were one such row to silence a whole batch, it would move the sum of losses by more than is charged.
    fn predictions(&self, batch: &Batch, taken: &[usize]) -> Vec<f32> {
        let columns = self.predictor.columns();
        let rows: Vec<Vec<Cell>> = taken.iter().map(|&index| cells(columns, batch.row(index), self.first)).collect();
        self.predictor.each(&rows)
    }

    /// A loss that cannot be told counts as none: the new model is not made to look better.
    fn loss(&self, label: f32, predicted: f32) -> f32 {
        let (low, width) = self.label.map_or((0.0, 1.0), |(low, high)| (low, high - low));
        let share = (f64::from(predicted) - low) / width;
        let loss = row_loss(self.metric, f64::from(label), share, width);
        if predicted.is_nan() || !loss.is_finite() { 0.0 } else { loss as f32 }
    }
}

/// What a model is asked about a row, whose columns begin at this place.
pub(super) fn cells(columns: &[Column], row: Row<'_>, first: usize) -> Vec<Cell> {
    columns.iter().zip(first..).map(|(column, place)| cell(column, row, place)).collect()
}

/// A column of the stream as the query gives it to one of two models.
pub(super) fn expression(whose: &str, column: &Column) -> Expression {
    let sql = column_expression(&column.name, matches!(column.domain, Domain::Time { .. }));
    Expression { name: format!("of {whose}: {}", column.name), sql }
}

fn cell(column: &Column, row: Row<'_>, place: usize) -> Cell {
    let found = match column.domain {
        Domain::Number { .. } => row.number(place).map(Cell::Number),
        Domain::Whole { .. } => row.integer(place).map(Cell::Whole),
        Domain::Truth => row.boolean(place).map(Cell::Truth),
        Domain::Time { .. } => row.number(place).map(|seconds| Cell::Whole(seconds.floor() as i64)),
        Domain::Text { .. } => row.text(place).map(|text| Cell::Text(text.to_owned())),
    };
    found.unwrap_or(Cell::Null)
}
