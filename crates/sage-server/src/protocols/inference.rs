//! Predictions over the network: the Open Inference Protocol, and MLflow's `/invocations`.
//!
//! Predictions use released bundles and the rows of the request. They cost no budget and read no stream. A row with a
//! value outside its domain is refused with its number, its column and what is allowed, as on the command line.

use std::sync::Arc;

use bytes::Bytes;
use sage_engine::ReleaseView;
use sage_engine::release::Kind;
use sage_engine::serve::{
    Cell, Column, Domain, Predictor, RowError, RowFormat, RowReader, parse_json_cell, parse_json_row,
};
use serde_json::{Map, Value};

use crate::call::{Call, Reply};
use crate::problem::Problem;
use crate::protocols::model_cache::{LoadedModel, Protocol};
use crate::protocols::tensors;
use crate::views::inference::{
    InferenceResponse, ModelMetadata, ModelReady, ServerMetadata, Tensor, TensorData, TensorMetadata,
};
use crate::views::releases::{Prediction, Predictions, shortest};

/// The most rows of one request.
const MOST: usize = 100_000;

fn model(call: &Call<'_>) -> Result<(ReleaseView, Arc<Predictor>), Problem> {
    let release = call.release()?;
    let predictor = call.engine().predictor(&release)?;
    Ok((release, predictor))
}

/// Loads the model that a request names.
pub(crate) fn load(call: &Call<'_>, protocol: Protocol) -> Result<LoadedModel, Problem> {
    let release = match (protocol, call.query_value("model")) {
        (Protocol::Inference, _) => call.release()?,
        (Protocol::Invocations, Some(text)) => call.release_named(text)?,
        (Protocol::Invocations, None) => only_model(call)?,
    };
    let predictor = call.engine().predictor(&release)?;
    Ok(LoadedModel { release, predictor })
}

/// The predictions of a model for the rows of a body.
pub(crate) fn predict(
    protocol: Protocol, model: &LoadedModel, body: &Bytes, format: Option<RowFormat>,
) -> Result<Reply, Problem> {
    if let Some(format) = format.filter(|_| protocol == Protocol::Invocations) {
        return predictions(&model.predictor, &text_rows(&model.predictor, body, format)?);
    }
    // The usual form is parsed straight into the model's columns. Every other form, and every error, takes the slow
    // path, which has good error messages.
    let quick = match protocol {
        Protocol::Inference => tensors::inference(model, body),
        Protocol::Invocations => tensors::split(model, body),
    };
    match (quick, protocol) {
        (Some(answer), _) => Ok(answer),
        (None, Protocol::Inference) => infer(model, &object(body)?),
        (None, Protocol::Invocations) => invocations(model, &object(body)?),
    }
}

fn object(body: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Problem::wrong(format!("the body is no JSON: line {line}, column {column}"))
    })
}

pub(crate) fn server(_: &Call<'_>) -> Result<Reply, Problem> {
    let (name, version) = ("sage".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    Ok(Reply::json(&ServerMetadata { extensions: Vec::new(), name, version }))
}

pub(crate) fn describe(call: &Call<'_>) -> Result<Reply, Problem> {
    let (release, predictor) = model(call)?;
    let same = call.releases().into_iter().filter(|one| one.name == release.name && one.withdrawn.is_none());
    let versions: Vec<String> = same.map(|one| one.version.to_string()).collect();
    let input = |column: &Column| TensorMetadata {
        datatype: datatype(column).to_owned(),
        name: column.name.clone(),
        shape: vec![-1],
    };
    let output = |datatype: &str, name: &str, shape| TensorMetadata {
        datatype: datatype.to_owned(),
        name: name.to_owned(),
        shape,
    };
    let width = i64::try_from(predictor.outputs()).unwrap_or(i64::MAX);
    let outputs = match predictor.classes() {
        [] => vec![output("FP32", "prediction", vec![-1, width])],
        _ => vec![output("BYTES", "label", vec![-1]), output("FP32", "probabilities", vec![-1, width])],
    };
    Ok(Reply::json(&ModelMetadata {
        inputs: predictor.columns().iter().map(input).collect(),
        name: release.name,
        outputs,
        platform: "onnx_onnxv1".to_owned(),
        versions,
    }))
}

const fn datatype(column: &Column) -> &'static str {
    match column.domain {
        Domain::Number { .. } => "FP64",
        Domain::Whole { .. } | Domain::Time { .. } => "INT64",
        Domain::Truth => "BOOL",
        Domain::Text { .. } | Domain::Hashed => "BYTES",
    }
}

pub(crate) fn ready(call: &Call<'_>) -> Result<Reply, Problem> {
    let (release, _) = model(call)?;
    Ok(Reply::json(&ModelReady { name: release.name, ready: true }))
}

fn infer(model: &LoadedModel, request: &Value) -> Result<Reply, Problem> {
    let LoadedModel { release, predictor } = model;
    let inputs = request["inputs"].as_array().ok_or_else(|| Problem::unfit("\"inputs\" is a list of tensors"))?;
    let mut named = Map::new();
    for input in inputs {
        let name = input["name"].as_str().ok_or_else(|| Problem::unfit("every input has a \"name\", a column"))?;
        let data = input["data"].as_array().ok_or_else(|| Problem::unfit(format!("input {name:?} has no \"data\"")))?;
        if let Some(shape) = input["shape"].as_array() {
            let size = shape.iter().map(Value::as_u64).try_fold(1, |size: u64, side| size.checked_mul(side?));
            if size != Some(data.len() as u64) {
                return Err(Problem::unfit(format!(
                    "input {name:?}: \"shape\" is not that of \"data\", which must be flat"
                )));
            }
        }
        named.insert(name.to_owned(), Value::Array(data.clone()));
    }
    let rows = by_columns(predictor.columns(), &named)?;
    let found = predicted(predictor, &rows)?;
    let (count, width) = (rows.len() as u64, predictor.outputs() as u64);
    let shape = if width == 1 { vec![count] } else { vec![count, width] };
    let classes = found.chunks(predictor.outputs().max(1)).map(|outputs| predictor.class(outputs).map(str::to_owned));
    let label = Tensor {
        data: TensorData::Texts(classes.collect()),
        datatype: "BYTES".to_owned(),
        name: "label".to_owned(),
        shape: vec![count],
    };
    let several = !predictor.classes().is_empty();
    let numbers = Tensor {
        data: TensorData::Numbers(found.into_iter().map(shortest).collect()),
        datatype: "FP32".to_owned(),
        name: if several { "probabilities" } else { "prediction" }.to_owned(),
        shape,
    };
    Ok(Reply::json(&InferenceResponse {
        id: request["id"].as_str().map(str::to_owned),
        model_name: release.name.clone(),
        model_version: release.version.to_string(),
        outputs: several.then_some(label).into_iter().chain([numbers]).collect(),
    }))
}

/// MLflow's scoring route: `dataframe_split`, `dataframe_records` or `inputs`. The model is in the query,
/// because this server has many: `?model=NAME[@VERSION]`. It can be left out if there is only one model.
fn invocations(model: &LoadedModel, request: &Value) -> Result<Reply, Problem> {
    let LoadedModel { predictor, .. } = model;
    let columns = predictor.columns();
    let rows = if let Some(split) = request.get("dataframe_split") {
        by_records(columns, &records(split)?)?
    } else if let Some(list) = request.get("dataframe_records").or_else(|| request.get("instances")) {
        by_records(columns, list.as_array().ok_or_else(unknown_shape)?)?
    } else {
        match request.get("inputs") {
            Some(Value::Object(named)) => by_columns(columns, named)?,
            Some(Value::Array(list)) => by_records(columns, list)?,
            _ => return Err(unknown_shape()),
        }
    };
    predictions(predictor, &rows)
}

/// The rows of CSV or NDJSON, read as `sage predict` reads them.
fn text_rows(predictor: &Predictor, body: &Bytes, format: RowFormat) -> Result<Vec<Vec<Cell>>, Problem> {
    let bytes = std::io::Cursor::new(body.clone());
    let mut reader = RowReader::new(predictor.columns(), bytes, Some(format)).map_err(|error| refused(&error))?;
    let rows = reader.take_rows(MOST + 1).map_err(|error| refused(&error))?;
    few_enough(rows.len())?;
    Ok(rows)
}

fn predictions(predictor: &Predictor, rows: &[Vec<Cell>]) -> Result<Reply, Problem> {
    let found = predicted(predictor, rows)?;
    Ok(Reply::json(&Predictions { predictions: Prediction::list(predictor, &found) }))
}

fn unknown_shape() -> Problem {
    Problem::unfit("send \"dataframe_split\" with \"columns\" and \"data\", \"dataframe_records\", or \"inputs\"")
}

fn only_model(call: &Call<'_>) -> Result<ReleaseView, Problem> {
    let releases = call.releases().into_iter();
    let models = releases.filter(|one| one.kind == Kind::Model && one.withdrawn.is_none());
    let names: std::collections::BTreeSet<String> = models.map(|one| one.name).collect();
    match names.first().filter(|_| names.len() == 1) {
        Some(name) => call.release_named(name),
        None => Err(Problem::wrong("there is not exactly one model; name one: /invocations?model=NAME[@VERSION]")),
    }
}

/// The records of a table in the form of column names and rows.
fn records(split: &Value) -> Result<Vec<Value>, Problem> {
    let names: Option<Vec<&str>> =
        split["columns"].as_array().map(|names| names.iter().filter_map(Value::as_str).collect());
    let (names, data) = names.zip(split["data"].as_array()).ok_or_else(unknown_shape)?;
    let record = |row: &Value| {
        let row = row.as_array().filter(|row| row.len() == names.len()).ok_or_else(unknown_shape)?;
        let pairs = names.iter().zip(row).map(|(name, value)| ((*name).to_owned(), value.clone()));
        Ok(Value::Object(pairs.collect()))
    };
    data.iter().map(record).collect()
}

fn by_records(columns: &[Column], records: &[Value]) -> Result<Vec<Vec<Cell>>, Problem> {
    few_enough(records.len())?;
    let row = |(number, record): (u64, &Value)| {
        let object = record.as_object().ok_or_else(unknown_shape)?;
        parse_json_row(columns, number, object).map_err(|error| refused(&error))
    };
    (1..).zip(records).map(row).collect()
}

fn by_columns(columns: &[Column], named: &Map<String, Value>) -> Result<Vec<Vec<Cell>>, Problem> {
    let values = |column: &Column| {
        let missing = || {
            Problem::unfit(format!("the input {:?} is missing; it is a list with a value for each row", column.name))
        };
        named.get(&column.name).and_then(Value::as_array).ok_or_else(missing)
    };
    let lists: Vec<&Vec<Value>> = columns.iter().map(values).collect::<Result<_, _>>()?;
    let count = lists.first().map_or(0, |list| list.len());
    few_enough(count)?;
    if lists.iter().any(|list| list.len() != count) {
        return Err(Problem::unfit("the inputs have different numbers of values"));
    }
    let cell = |index: usize, column: &Column, list: &[Value]| {
        parse_json_cell(column, &list[index])
            .map_err(|why| refused(&RowError::Cell { row: index as u64 + 1, column: column.name.clone(), why }))
    };
    let row = |index| columns.iter().zip(&lists).map(|(column, list)| cell(index, column, list)).collect();
    (0..count).map(row).collect()
}

pub(crate) fn few_enough(rows: usize) -> Result<(), Problem> {
    if rows <= MOST { Ok(()) } else { Err(Problem::unfit(format!("at most {MOST} rows at a time"))) }
}

fn refused(error: &RowError) -> Problem {
    Problem::unfit(error.to_string())
}

pub(crate) fn predicted(predictor: &Predictor, rows: &[Vec<Cell>]) -> Result<Vec<f32>, Problem> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    Ok(predictor.rows(rows).map_err(sage_engine::EngineError::from)?)
}
