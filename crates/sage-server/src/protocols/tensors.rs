//! The fast path of predictions: the usual bodies are parsed straight into the model's columns.
//!
//! Every other form, and every value that is not allowed, returns `None`. The caller then parses the body again with
//! [`crate::protocols::inference`], which accepts every form and has good error messages.

use std::borrow::Cow;
use std::fmt::Write;

use sage_engine::serve::{Cell, Column, parse_json_cell};
use serde::Deserialize;
use serde_json::Value;

use crate::call::Reply;
use crate::protocols::inference::{few_enough, predicted};
use crate::protocols::model_cache::LoadedModel;

#[derive(Deserialize)]
struct Tensors<'body> {
    id: Option<String>,
    #[serde(borrow)]
    inputs: Vec<Tensor<'body>>,
}

#[derive(Deserialize)]
struct Tensor<'body> {
    #[serde(borrow)]
    name: Cow<'body, str>,
    shape: Option<Vec<u64>>,
    data: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame<'body> {
    #[serde(borrow)]
    dataframe_split: Split<'body>,
}

#[derive(Deserialize)]
struct Split<'body> {
    #[serde(borrow)]
    columns: Vec<Cow<'body, str>>,
    data: Vec<Vec<Value>>,
}

/// The response to a request of the Open Inference Protocol, for a model that predicts numbers.
pub(crate) fn inference(model: &LoadedModel, body: &[u8]) -> Option<Reply> {
    if !model.predictor.classes().is_empty() {
        return None;
    }
    let Tensors { id, inputs } = serde_json::from_slice(body).ok()?;
    let count = inputs.first()?.data.len();
    let values = |column: &Column| {
        let tensor = inputs.iter().rev().find(|tensor| tensor.name == column.name.as_str())?;
        let size = tensor
            .shape
            .as_ref()
            .map_or(Some(count as u64), |shape| shape.iter().try_fold(1, |size: u64, side| size.checked_mul(*side)));
        (tensor.data.len() == count && size == Some(count as u64)).then_some(&tensor.data)
    };
    // A request with further tensors takes the slow path, which checks their shapes too.
    let columns = model.predictor.columns();
    let lists: Vec<&Vec<Value>> = columns.iter().map(values).collect::<Option<_>>()?;
    if inputs.len() != lists.len() {
        return None;
    }
    let cell = |index: usize, (column, list): (&Column, &&Vec<Value>)| parse_json_cell(column, &list[index]).ok();
    let row = |index| columns.iter().zip(&lists).map(|pair| cell(index, pair)).collect();
    let rows: Vec<Vec<Cell>> = (0..count).map(row).collect::<Option<_>>()?;
    let found = predict_finite(model, &rows)?;
    let name = serde_json::to_string(&model.release.name).ok()?;
    let each = model.predictor.outputs();
    let shape = if each == 1 { count.to_string() } else { format!("{count},{each}") };
    let id = match id {
        Some(id) => format!("\"id\":{},", serde_json::to_string(&id).ok()?),
        None => String::new(),
    };
    let version = model.release.version;
    Some(Reply::new(
        "application/json",
        format!(
            "{{{id}\"model_name\":{name},\"model_version\":\"{version}\",\"outputs\":[{{\"name\":\"prediction\",\"datatype\":\
             \"FP32\",\"shape\":[{shape}],\"data\":[{}]}}]}}",
            listed(&found)
        ),
    ))
}

/// The response to `dataframe_split`, for a model with one output.
pub(crate) fn split(model: &LoadedModel, body: &[u8]) -> Option<Reply> {
    let Frame { dataframe_split: Split { columns: names, data } } = serde_json::from_slice(body).ok()?;
    if model.predictor.outputs() != 1 || data.iter().any(|row| row.len() != names.len()) {
        return None;
    }
    let columns = model.predictor.columns();
    let index = |column: &Column| names.iter().rposition(|name| *name == column.name.as_str());
    let indices: Vec<usize> = columns.iter().map(index).collect::<Option<_>>()?;
    let row = |row: &Vec<Value>| {
        let cells = columns.iter().zip(&indices).map(|(column, index)| parse_json_cell(column, &row[*index]).ok());
        cells.collect::<Option<Vec<Cell>>>()
    };
    let rows: Vec<Vec<Cell>> = data.iter().map(row).collect::<Option<_>>()?;
    let found = predict_finite(model, &rows)?;
    Some(Reply::new("application/json", format!("{{\"predictions\":[{}]}}", listed(&found))))
}

/// The predictions for rows; `None` if there are too many rows or a prediction is not finite.
fn predict_finite(model: &LoadedModel, rows: &[Vec<Cell>]) -> Option<Vec<f32>> {
    few_enough(rows.len()).ok()?;
    let found = predicted(&model.predictor, rows).ok()?;
    found.iter().all(|number| number.is_finite()).then_some(found)
}

/// Numbers separated by commas, each in its shortest exact form.
fn listed(numbers: &[f32]) -> String {
    let mut text = String::with_capacity(12 * numbers.len());
    for (index, number) in numbers.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{number:?}");
    }
    text
}
