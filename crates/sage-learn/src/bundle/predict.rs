//! Runs a graph in this process.
//!
//! The graph is written anew from its description and never taken from bytes of others. tract runs what comes
//! before the layers, and layers and steps are our own: a node for each step would take longer to move numbers than to
//! multiply them. [`Exported`] is tract on all of it, to hold the two against each other. tract's rewriting of
//! expressions is left out: it divides by multiplying with the reciprocal, and 49 · (1/49) is less than 1, which a
//! formula with a floor would show. Its choice of fast kernels is kept.

use std::fmt;
use std::sync::Arc;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::{
    DatumType, Framework as _, InferenceModelExt as _, IntoRunnable as _, RunnableModel, TValue, TVec, Tensor,
    TractError, TypedFact, TypedOp, tensor1, tvec,
};
use tract_onnx::tract_core::optim::Optimizer;

use super::direct::{self, Direct};
use super::graph::Graph;
use super::layers::{FieldValues, Layers};
use super::onnx;
use super::steps::Steps;
use crate::formula::{Cell, Column, Domain, Missing, Schema};

/// How many rows one call takes.
const MOST_ROWS: usize = 1 << 20;
/// How many rows are asked about together where one of them may not be taken.
const TOGETHER: usize = 1 << 13;

/// A graph that is ready to run.
pub struct Predictor {
    fields: Runnable,
    /// Where each field stands among the outputs: fields may share one.
    outputs: Vec<usize>,
    model: Model,
    /// The short way for few rows.
    direct: Option<Direct>,
}

/// What is behind the fields.
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

/// A graph as it is exported, run by tract from the columns to the prediction.
pub struct Exported {
    whole: Runnable,
}

/// A model of tract's, and the columns that it takes.
struct Runnable {
    plan: Arc<RunnableModel<TypedFact, Box<dyn TypedOp>>>,
    schema: Schema,
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

/// Why there is no prediction.
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
    /// The graph does not run; the text speaks of the graph, not of rows.
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
    /// Makes a graph ready to run.
    pub fn new(graph: &Graph) -> Result<Self, PredictError> {
        let (model, outputs) = onnx::fields(graph);
        let fields = Runnable::new(&model, &graph.outline().schema)?;
        Ok(Self { fields, outputs, model: Model::new(graph), direct: Direct::new(graph.outline()) })
    }

    /// How many numbers a prediction has.
    pub fn outputs(&self) -> usize {
        match &self.model {
            Model::Layers(layers) => layers.outputs(),
            Model::Steps(steps) => steps.outputs(),
        }
    }

    /// The columns that rows must have, in this order.
    pub fn columns(&self) -> &[Column] {
        self.fields.schema.columns()
    }

    /// The predictions for rows with a cell for each column, one row's after the other.
    pub fn rows(&self, rows: &[Vec<Cell>]) -> Result<Vec<f32>, PredictError> {
        let batch = self.fields.gather(rows)?;
        match &self.direct {
            Some(direct) if (1..=direct::MOST_ROWS).contains(&rows.len()) => {
                Ok(self.model.run(&direct.work_out(rows).fields(), rows.len()))
            }
            _ => self.batch(&batch),
        }
    }

    /// The first number of each row's prediction, for rows that nobody has looked through.
    ///
    /// What a row gets depends on that row alone: one that the graph does not take, such as one with a null where there
    /// can be none, gets what is no number, and the others get what they would have got without it.
    pub fn each(&self, rows: &[Vec<Cell>]) -> Vec<f32> {
        let mut found: Vec<f32> = Vec::with_capacity(rows.len());
        for some in rows.chunks(TOGETHER) {
            match self.rows(some) {
                Ok(numbers) => found.extend(numbers.iter().step_by(self.outputs())),
                Err(_) if some.len() == 1 => found.push(f32::NAN),
                Err(_) => {
                    let (one, other) = some.split_at(some.len() / 2);
                    found.extend(self.each(one));
                    found.extend(self.each(other));
                }
            }
        }
        found
    }

    /// The predictions for a batch given column by column, one row's after the other.
    pub fn batch(&self, batch: &[Cells]) -> Result<Vec<f32>, PredictError> {
        let found = self.fields.run(batch)?;
        let value = |&output: &usize| {
            let view = found[output].try_as_plain_ram()?;
            Ok(match found[output].datum_type() {
                DatumType::F64 => FieldValues::Places(view.as_slice::<f64>()?),
                _ => FieldValues::Numbers(view.as_slice::<f32>()?),
            })
        };
        let values = self.outputs.iter().map(value).collect::<Result<Vec<FieldValues<'_>>, TractError>>();
        let values = values.map_err(failed)?;
        let count = batch.first().map_or(0, Cells::count);
        if values.iter().any(|values| values.count() != count) {
            return Err(PredictError::Graph("a field does not have a value for each row".to_owned()));
        }
        Ok(self.model.run(&values, count))
    }
}

impl Exported {
    /// Makes a graph ready to run.
    pub fn new(graph: &Graph) -> Result<Self, PredictError> {
        Ok(Self { whole: Runnable::new(&onnx::model(graph), &graph.outline().schema)? })
    }

    /// The predictions for rows with a cell for each column, one row's after the other.
    pub fn rows(&self, rows: &[Vec<Cell>]) -> Result<Vec<f32>, PredictError> {
        let found = self.whole.run(&self.whole.gather(rows)?)?;
        let first = found.first().ok_or_else(|| PredictError::Graph("it has no output".to_owned()))?;
        let view = first.try_as_plain_ram().map_err(failed)?;
        view.as_slice::<f32>().map(<[f32]>::to_vec).map_err(failed)
    }
}

/// What tract says of a failure could tell of a row.
fn failed(_: TractError) -> PredictError {
    PredictError::Graph("a node failed".to_owned())
}

impl Runnable {
    fn new(model: &ModelProto, schema: &Schema) -> Result<Self, PredictError> {
        let broken = |error| PredictError::Graph(format!("{error:#}"));
        let inference = tract_onnx::onnx().model_for_proto_model(model).map_err(broken)?;
        let mut typed = inference.into_typed().map_err(broken)?;
        let mut optimizer = Optimizer::codegen();
        optimizer.passes.retain(|pass| format!("{pass:?}") != "declutter");
        optimizer.optimize(&mut typed).map_err(broken)?;
        Ok(Self { plan: typed.into_runnable().map_err(broken)?, schema: schema.clone() })
    }

    /// Rows column by column.
    fn gather(&self, rows: &[Vec<Cell>]) -> Result<Vec<Cells>, PredictError> {
        let columns = self.schema.columns();
        if rows.iter().any(|row| row.len() != columns.len()) {
            return Err(PredictError::Rows { what: "row".to_owned(), why: "it needs a cell for each column" });
        }
        let columns = columns.iter().enumerate();
        columns.map(|(place, column)| gather(column, rows.iter().map(|row| &row[place]))).collect()
    }

    fn run(&self, batch: &[Cells]) -> Result<TVec<TValue>, PredictError> {
        let columns = self.schema.columns();
        let count = batch.first().map_or(0, Cells::count);
        if batch.len() != columns.len() || batch.iter().any(|cells| cells.count() != count) {
            return Err(PredictError::Rows { what: "batch".to_owned(), why: "it needs all columns, of one length" });
        }
        if count == 0 || count > MOST_ROWS {
            return Err(PredictError::Rows { what: "batch".to_owned(), why: "it has 1 to 2^20 rows" });
        }
        let lone = batch.len() == 1;
        let mut inputs = tvec!();
        for (column, cells) in columns.iter().zip(batch) {
            let tensor = tensor(column, cells)?;
            let shaped = if lone { tensor.into_shape(&[count, 1]) } else { Ok(tensor) };
            inputs.push(TValue::from(shaped.map_err(|error| PredictError::Graph(error.to_string()))?));
        }
        self.plan.run(inputs).map_err(failed)
    }
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
}

fn wrong(column: &Column, why: &'static str) -> PredictError {
    PredictError::Rows { what: column.name.clone(), why }
}

fn tensor(column: &Column, cells: &Cells) -> Result<Tensor, PredictError> {
    let broken = |error: TractError| PredictError::Graph(error.to_string());
    let count = [cells.count()];
    let (made, data_type) = match cells {
        Cells::Numbers(numbers) => (Tensor::from_shape(&count, numbers), DatumType::F64),
        Cells::Wholes(wholes) => (Tensor::from_shape(&count, wholes), DatumType::I64),
        Cells::Truths(truths) => (Tensor::from_shape(&count, truths), DatumType::Bool),
        Cells::Texts(texts) => (Ok(tensor1(texts)), DatumType::String),
    };
    let wanted = match onnx::input_type(column) {
        tract_onnx::pb::tensor_proto::DataType::Double => DatumType::F64,
        tract_onnx::pb::tensor_proto::DataType::Int64 => DatumType::I64,
        tract_onnx::pb::tensor_proto::DataType::Bool => DatumType::Bool,
        _ => DatumType::String,
    };
    if data_type == wanted { made.map_err(broken) } else { Err(wrong(column, "its cells are of another type")) }
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
        (Domain::Whole { .. } | Domain::Time { .. }, false) => Cells::Wholes(
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
