//! Evaluates a graph in this process.
//!
//! Everything is computed from the checked description, never from untrusted bytes: formulas and fields by a
//! [`Program`] over columns, layers and steps by the products of training. The exported ONNX file describes the same
//! computation for other runtimes; tests compare the two.

use std::fmt;

use super::columns::{FieldColumn, Program};
use super::graph::{Field, Graph, Outline, Scaled};
use super::layers::{FieldValues, Layers};
use super::onnx;
use super::steps::Steps;
use crate::formula::proto::DataType;
use crate::formula::{Cell, Column, Domain, Missing};

/// The most rows of one call.
const MOST_ROWS: usize = 1 << 20;
/// The number of unchecked rows that are evaluated together.
const UNCHECKED_ROWS: usize = 1 << 13;

/// A compiled graph.
pub struct Predictor {
    program: Program,
    model: Model,
    outline: Outline,
}

/// The model behind the fields.
enum Model {
    Layers(Layers),
    Steps(Steps),
}

impl Model {
    fn new(graph: &Graph) -> Self {
        if graph.outline().steps.is_empty() { Self::Layers(Layers::new(graph)) } else { Self::Steps(Steps::new(graph)) }
    }

    fn run(&self, fields: &[FieldValues<'_>], count: usize) -> Vec<f32> {
        match self {
            Self::Layers(layers) => layers.run(fields, count),
            Self::Steps(steps) => steps.run(fields, count),
        }
    }
}

/// A column of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Numbers, NaN for null. Also the form of whole numbers, times and truth values that can be null.
    Numbers(Vec<f64>),
    /// Whole numbers or times.
    Wholes(Vec<i64>),
    /// Truth values.
    Truths(Vec<bool>),
    /// Texts, the empty one for null where there can be null.
    Texts(Vec<String>),
}

/// Why a prediction failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PredictError {
    /// The rows do not have the graph's columns.
    Rows {
        /// The column, or what else is wrong.
        what: String,
        /// Why.
        why: &'static str,
    },
    /// The graph cannot be evaluated; the text is about the graph, not about rows.
    Graph(String),
}

impl fmt::Display for PredictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { what, why } => write!(f, "`{what}`: {why}"),
            Self::Graph(why) => write!(f, "the graph does not run: {why}"),
        }
    }
}

impl std::error::Error for PredictError {}

impl Predictor {
    /// Compiles a graph.
    pub fn new(graph: &Graph) -> Result<Self, PredictError> {
        let outline = graph.outline().clone();
        Ok(Self { program: Program::new(&outline)?, model: Model::new(graph), outline })
    }

    /// The number of outputs of a prediction.
    pub fn outputs(&self) -> usize {
        match &self.model {
            Model::Layers(layers) => layers.outputs(),
            Model::Steps(steps) => steps.outputs(),
        }
    }

    /// The names of the classes whose probabilities are predicted, in the order of the outputs; empty for numbers.
    pub fn classes(&self) -> &[String] {
        &self.outline.classes
    }

    /// The class with the largest probability in a prediction; `None` if the model predicts numbers or left the row out.
    pub fn class(&self, outputs: &[f32]) -> Option<&str> {
        likeliest(outputs).and_then(|class| self.outline.classes.get(class)).map(String::as_str)
    }

    /// The columns that rows must have, in this order.
    pub fn columns(&self) -> &[Column] {
        self.outline.schema.columns()
    }

    /// Whether the model leaves this row out, which has a cell for each column: a number without a rule for missing
    /// values is missing. Neither training nor the test had such rows.
    pub fn leaves_out(&self, row: &[Cell]) -> bool {
        self.outline.leaves_out(row)
    }

    /// The predictions for rows with a cell for each column, one row's after the other; NaN for rows that the model
    /// [leaves out](Predictor::leaves_out).
    pub fn rows(&self, rows: &[Vec<Cell>]) -> Result<Vec<f32>, PredictError> {
        let columns = self.columns();
        if rows.iter().any(|row| row.len() != columns.len()) {
            return Err(PredictError::Rows { what: "row".to_owned(), why: "it needs a cell for each column" });
        }
        let columns = columns.iter().enumerate();
        let batch = columns.map(|(index, column)| gather(column, rows.iter().map(|row| &row[index])));
        self.batch(&batch.collect::<Result<Vec<Cells>, PredictError>>()?)
    }

    /// The outputs of each row's prediction, for unchecked rows, one row's after the other.
    ///
    /// A row's result depends on that row alone: a row that the graph does not accept, such as one with a null in a
    /// column without nulls, gets NaN, and the others are not affected.
    pub fn each(&self, rows: &[Vec<Cell>]) -> Vec<f32> {
        let mut found: Vec<f32> = Vec::with_capacity(rows.len() * self.outputs());
        for chunk in rows.chunks(UNCHECKED_ROWS) {
            match self.rows(chunk) {
                Ok(numbers) => found.extend(numbers),
                Err(_) if chunk.len() == 1 => found.extend(std::iter::repeat_n(f32::NAN, self.outputs())),
                Err(_) => {
                    let (one, other) = chunk.split_at(chunk.len() / 2);
                    found.extend(self.each(one));
                    found.extend(self.each(other));
                }
            }
        }
        found
    }

    /// Evaluates the model on the fields of `count` rows.
    fn predict(&self, values: &[FieldValues<'_>], count: usize) -> Vec<f32> {
        let mut found = self.model.run(values, count);
        let outputs = self.outputs().max(1);
        for (field, values) in self.outline.fields.iter().zip(values) {
            if let (Field::Number(Scaled { missing: None, .. }), FieldValues::Numbers(numbers)) = (field, values) {
                let left_out = found.chunks_mut(outputs).zip(*numbers).filter(|(_, number)| number.is_nan());
                left_out.for_each(|(prediction, _)| prediction.fill(f32::NAN));
            }
        }
        found
    }

    /// The predictions for a batch given column by column, one row's after the other.
    pub fn batch(&self, batch: &[Cells]) -> Result<Vec<f32>, PredictError> {
        let columns = self.columns();
        let count = batch.first().map_or(0, Cells::count);
        if batch.len() != columns.len() || batch.iter().any(|cells| cells.count() != count) {
            return Err(PredictError::Rows { what: "batch".to_owned(), why: "it needs all columns, of one length" });
        }
        if count == 0 || count > MOST_ROWS {
            return Err(PredictError::Rows { what: "batch".to_owned(), why: "it has 1 to 2^20 rows" });
        }
        if let Some((column, _)) = columns.iter().zip(batch).find(|(column, cells)| !cells.fit(column)) {
            return Err(wrong(column, "its cells are of another type"));
        }
        let fields = self.program.run(batch, count);
        let values: Vec<FieldValues<'_>> = fields.iter().map(FieldColumn::values).collect();
        Ok(self.predict(&values, count))
    }
}

/// The index of the largest probability, the first of equal ones; `None` if one is NaN.
pub fn likeliest(outputs: &[f32]) -> Option<usize> {
    if outputs.iter().any(|output| output.is_nan()) {
        return None;
    }
    (0..outputs.len()).rev().max_by(|&one, &other| outputs[one].total_cmp(&outputs[other]))
}

impl Cells {
    fn count(&self) -> usize {
        match self {
            Self::Numbers(cells) => cells.len(),
            Self::Wholes(cells) => cells.len(),
            Self::Truths(cells) => cells.len(),
            Self::Texts(cells) => cells.len(),
        }
    }

    /// Whether they are of the type that a column has in a batch.
    fn fit(&self, column: &Column) -> bool {
        let data_type = match self {
            Self::Numbers(_) => DataType::Double,
            Self::Wholes(_) => DataType::Int64,
            Self::Truths(_) => DataType::Bool,
            Self::Texts(_) => DataType::String,
        };
        data_type == onnx::input_type(column)
    }
}

fn wrong(column: &Column, why: &'static str) -> PredictError {
    PredictError::Rows { what: column.name.clone(), why }
}

/// A column of cells in the form that the graph takes.
fn gather<'a>(column: &Column, cells: impl Iterator<Item = &'a Cell>) -> Result<Cells, PredictError> {
    let null = || wrong(column, "it cannot be null");
    let other = || wrong(column, "a cell is of another type");
    let possible = column.missing == Missing::Possible;
    Ok(match (&column.domain, possible) {
        (Domain::Text { .. }, possible) => Cells::Texts(
            cells
                .map(|cell| match cell {
                    Cell::Text(text) => Ok(text.clone()),
                    Cell::Null if possible => Ok(String::new()),
                    Cell::Null => Err(null()),
                    _ => Err(other()),
                })
                .collect::<Result<_, _>>()?,
        ),
        (Domain::Truth, false) => Cells::Truths(
            cells
                .map(|cell| match cell {
                    Cell::Truth(truth) => Ok(*truth),
                    Cell::Null => Err(null()),
                    _ => Err(other()),
                })
                .collect::<Result<_, _>>()?,
        ),
        (Domain::Whole { .. } | Domain::Hashed | Domain::Time { .. }, false) => Cells::Wholes(
            cells
                .map(|cell| match cell {
                    Cell::Whole(whole) => Ok(*whole),
                    Cell::Null => Err(null()),
                    _ => Err(other()),
                })
                .collect::<Result<_, _>>()?,
        ),
        (domain, possible) => {
            let truth = matches!(domain, Domain::Truth);
            let number = |cell: &Cell| match cell {
                Cell::Number(number) if !truth => Ok(*number),
                Cell::Whole(whole) if !truth => Ok(*whole as f64),
                Cell::Truth(value) if truth => Ok(f64::from(u8::from(*value))),
                Cell::Null if possible => Ok(f64::NAN),
                Cell::Null => Err(null()),
                _ => Err(other()),
            };
            Cells::Numbers(cells.map(number).collect::<Result<_, _>>()?)
        }
    })
}
