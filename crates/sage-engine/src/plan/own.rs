//! What a program of its author's is given: all columns of the train lane's rows, and the label beside them.
//!
//! Times are seconds since 1970. Which of the columns a model looks at is the program's business; that its model
//! looks at columns of the stream alone is checked when it comes back.

use super::inputs::{bounds_of, identifier, label_of};
use super::refusal::PlanRefusal;
use crate::pipeline::{Handover, Pipeline, Train};
use crate::read::{Expression, Query};
use crate::stream::{Kind, StreamFile, Width};

/// The column of the label. No column of a stream has a name like this one.
pub(crate) const LABEL: &str = "_label";

/// A column as SQL, a time as seconds since 1970.
pub(crate) fn value_of(column: &str, is_time: bool) -> String {
    let name = identifier(column);
    if is_time { format!("extract(epoch from {name})") } else { name }
}

/// A program of its author's.
#[derive(Clone, Debug)]
pub struct OwnCode {
    /// The program and what it is called with.
    pub words: Vec<String>,
    /// After how long it is stopped.
    pub time_limit: Option<Width>,
    /// How it is given its rows.
    pub rows: Handover,
}

/// The label that a model which was not trained here is tested against.
#[derive(Clone, Debug)]
pub struct Tested {
    /// As it is read.
    pub(crate) label: Expression,
    /// The bounds of a label that is a number; nothing where it is a class.
    pub(crate) bounds: Option<(f64, f64)>,
}

/// The label of a pipeline whose model comes from elsewhere.
pub(super) fn tested(pipeline: &Pipeline, file: &StreamFile) -> Result<Tested, PlanRefusal> {
    let (sql, bounds) = label_of(pipeline, file)?;
    bounds_of(pipeline, bounds)?;
    Ok(Tested { label: Expression { name: LABEL.to_owned(), sql }, bounds })
}

pub(super) fn of(pipeline: &Pipeline, file: &StreamFile, label: Expression) -> Result<(Query, OwnCode), PlanRefusal> {
    let Train::Command { words, time_limit, rows } = &pipeline.train else {
        return Err(PlanRefusal::part("train", "a command"));
    };
    let column = |column: &crate::stream::Column| {
        let sql = value_of(&column.name, matches!(column.kind, Kind::Time { .. }));
        Expression { name: column.name.clone(), sql }
    };
    let columns = file.columns.iter().map(column).chain([label]).collect();
    let own = OwnCode { words: words.clone(), time_limit: *time_limit, rows: *rows };
    Ok((Query { filter: pipeline.filter.clone(), columns }, own))
}
