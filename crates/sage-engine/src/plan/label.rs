//! The label of a pipeline: what is predicted, as an SQL expression, and the values that it has.

use sage_learn::encode::LabelKind;

use super::inputs::{find_column, identifier};
use super::refusal::PlanRefusal;
use crate::metrics::Measured;
use crate::pipeline::{Label, Pipeline, Source};
use crate::stream::{Column, Kind, StreamFile};

/// The values of a label.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelValues {
    /// Numbers between these bounds.
    Number {
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// Whether something is true.
    Truth,
    /// Indices of these classes.
    Classes(Vec<String>),
}

impl LabelValues {
    /// The bounds of a numeric label; `None` for classes.
    pub const fn bounds(&self) -> Option<(f64, f64)> {
        match self {
            Self::Number { low, high } => Some((*low, *high)),
            Self::Truth | Self::Classes(_) => None,
        }
    }

    /// The names of several classes; empty for other labels.
    pub fn classes(&self) -> &[String] {
        match self {
            Self::Classes(classes) => classes,
            Self::Number { .. } | Self::Truth => &[],
        }
    }

    /// How the label is read from its expression.
    pub(crate) fn kind(&self) -> LabelKind {
        match self {
            Self::Number { low, high } => LabelKind::Number { low: *low, high: *high },
            Self::Truth => LabelKind::Truth,
            Self::Classes(classes) => LabelKind::Class(u32::try_from(classes.len()).unwrap_or(u32::MAX)),
        }
    }
}

/// The label as SQL, and its values. A class is the number of its place in the list, and null if it is not listed.
pub(super) fn label_expression(pipeline: &Pipeline, file: &StreamFile) -> Result<(String, LabelValues), PlanRefusal> {
    let missing = || PlanRefusal::part("label", "the label to predict: a column, or an expression with its bounds");
    Ok(match pipeline.label.as_ref().ok_or_else(missing)? {
        Label::Truth(sql) => (sql.clone(), LabelValues::Truth),
        Label::Number { sql, bounds } => (sql.clone(), LabelValues::Number { low: bounds.low(), high: bounds.high() }),
        Label::Column(column) => (identifier(column), column_values(find_column(file, column)?)?),
        Label::Classes { of, classes } => {
            if let Source::Column(column) = of {
                find_column(file, column)?;
            }
            let branches =
                classes.iter().enumerate().map(|(index, class)| format!(" WHEN {} THEN {index}", text(class)));
            let sql = format!("CASE ({}){} END", source(of), branches.collect::<String>());
            (sql, LabelValues::Classes(classes.clone()))
        }
    })
}

/// The SQL of a feature's or a label's source.
pub(super) fn source(of: &Source) -> String {
    match of {
        Source::Sql(sql) => sql.clone(),
        Source::Column(column) => identifier(column),
    }
}

/// A text as an SQL literal.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Checks that the label fits the learner and the metric: numbers have bounds, classes do not.
pub(super) fn check_label_kind(pipeline: &Pipeline, values: &LabelValues) -> Result<(), PlanRefusal> {
    let measured = pipeline.validate.as_ref().map(|validate| validate.metric.kind().measured);
    let classes = measured == Some(Measured::Classes) || pipeline.train.learns_classes();
    match (classes, values.bounds()) {
        (true, Some(_)) => Err(PlanRefusal::part("label", "a class: { truth = \"...\" } or a boolean column")),
        (false, None) => {
            Err(PlanRefusal::part("label", "a number: a column with bounds, or { sql = \"...\", bounds = [0, 1] }"))
        }
        _ => Ok(()),
    }
}

fn column_values(column: &Column) -> Result<LabelValues, PlanRefusal> {
    match &column.kind {
        Kind::Boolean => Ok(LabelValues::Truth),
        Kind::Number { min, max, .. } if min < max => Ok(LabelValues::Number { low: *min, high: *max }),
        Kind::Integer { min, max, .. } if min < max => Ok(LabelValues::Number { low: *min as f64, high: *max as f64 }),
        Kind::Category { .. } => {
            let (name, why) = (&column.name, "its classes are listed in the file, because they are public");
            Err(PlanRefusal::part("label", format!("{{ column = \"{name}\", classes = [...] }}: {why}")))
        }
        _ => Err(PlanRefusal::part("label", "a numeric column with bounds, a boolean column, or an expression")),
    }
}
