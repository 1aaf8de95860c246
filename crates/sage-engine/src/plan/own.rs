//! The input of a user's program: all columns of the train lane's rows, and the label.
//!
//! Times are seconds since 1970. The program chooses which columns its model reads; that these are columns of the
//! stream is checked when the model comes back.

use super::inputs::identifier;
use super::label::{check_label_kind, label_expression};
use super::refusal::PlanRefusal;
use crate::pipeline::{Pipeline, RowTransport, Train};
use crate::read::{Expression, Query};
use crate::stream::{Kind, StreamFile, Width};

/// The name of the label column, which no column of a stream can have.
pub(crate) const LABEL: &str = "_label";

/// A column as an SQL expression, with times as seconds since 1970.
pub(crate) fn column_expression(column: &str, is_time: bool) -> String {
    let name = identifier(column);
    if is_time { format!("extract(epoch from {name})") } else { name }
}

/// A user's training program.
#[derive(Clone, Debug)]
pub struct OwnCode {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The time after which it is stopped.
    pub time_limit: Option<Width>,
    /// How it receives its rows.
    pub rows: RowTransport,
}

/// The label for validating a model that a user's program or an earlier run made.
#[derive(Clone, Debug)]
pub struct TestLabel {
    /// The expression.
    pub(crate) label: Expression,
    /// The bounds of a numeric label; `None` for a class.
    pub(crate) bounds: Option<(f64, f64)>,
}

/// The label of a pipeline whose model is not trained by a built-in learner.
pub(super) fn test_label(pipeline: &Pipeline, file: &StreamFile) -> Result<TestLabel, PlanRefusal> {
    let (sql, values) = label_expression(pipeline, file)?;
    check_label_kind(pipeline, &values)?;
    Ok(TestLabel { label: Expression { name: LABEL.to_owned(), sql }, bounds: values.bounds() })
}

/// Plans the query of a pipeline with a user's program.
pub(super) fn plan_own_code(
    pipeline: &Pipeline, file: &StreamFile, label: Expression,
) -> Result<(Query, OwnCode), PlanRefusal> {
    let Train::Command { words, time_limit, rows } = &pipeline.train else {
        return Err(PlanRefusal::part("train", "a command"));
    };
    let column = |column: &crate::stream::Column| {
        let sql = column_expression(&column.name, matches!(column.kind, Kind::Time { .. }));
        Expression { name: column.name.clone(), sql }
    };
    let columns = file.columns.iter().map(column).chain([label]).collect();
    let own = OwnCode { words: words.clone(), time_limit: *time_limit, rows: *rows };
    Ok((Query { filter: pipeline.filter.clone(), columns }, own))
}
