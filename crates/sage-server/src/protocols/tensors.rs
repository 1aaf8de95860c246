//! The usual bodies of a prediction, read straight into the model's columns.
//!
//! What is not of the usual form, or holds a value that is not allowed, is nothing here: the caller reads it again with
//! [`crate::protocols::inference`], which knows every form and says what is wrong.

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

/// The answer to a request of the Open Inference Protocol.
pub(crate) fn inference(model: &LoadedModel, body: &[u8]) -> Option<Reply> {
    let Tensors { id, inputs } = serde_json::from_slice(body).ok()?;
    let count = inputs.first()?.data.len();
    let of = |column: &Column| {
        let tensor = inputs.iter().rev().find(|tensor| tensor.name == column.name.as_str())?;
        let size = tensor
            .shape
            .as_ref()
            .map_or(Some(count as u64), |shape| shape.iter().try_fold(1, |size: u64, side| size.checked_mul(*side)));
        (tensor.data.len() == count && size == Some(count as u64)).then_some(&tensor.data)
    };
    // A tensor that no column asks for is held to its shape as well, with the others, where there is time for it.
    let columns = model.predictor.columns();
    let lists: Vec<&Vec<Value>> = columns.iter().map(of).collect::<Option<_>>()?;
    if inputs.len() != lists.len() {
        return None;
    }
    let cell = |place: usize, (column, list): (&Column, &&Vec<Value>)| parse_json_cell(column, &list[place]).ok();
    let row = |place| columns.iter().zip(&lists).map(|pair| cell(place, pair)).collect();
    let rows: Vec<Vec<Cell>> = (0..count).map(row).collect::<Option<_>>()?;
    let found = answered(model, &rows)?;
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

/// The answer to `dataframe_split`, for a model with one output.
pub(crate) fn split(model: &LoadedModel, body: &[u8]) -> Option<Reply> {
    let Frame { dataframe_split: Split { columns: names, data } } = serde_json::from_slice(body).ok()?;
    if model.predictor.outputs() != 1 || data.iter().any(|row| row.len() != names.len()) {
        return None;
    }
    let columns = model.predictor.columns();
    let place = |column: &Column| names.iter().rposition(|name| *name == column.name.as_str());
    let places: Vec<usize> = columns.iter().map(place).collect::<Option<_>>()?;
    let row = |row: &Vec<Value>| {
        let cells = columns.iter().zip(&places).map(|(column, place)| parse_json_cell(column, &row[*place]).ok());
        cells.collect::<Option<Vec<Cell>>>()
    };
    let rows: Vec<Vec<Cell>> = data.iter().map(row).collect::<Option<_>>()?;
    let found = answered(model, &rows)?;
    Some(Reply::new("application/json", format!("{{\"predictions\":[{}]}}", listed(&found))))
}

fn answered(model: &LoadedModel, rows: &[Vec<Cell>]) -> Option<Vec<f32>> {
    few_enough(rows.len()).ok()?;
    let found = predicted(&model.predictor, rows).ok()?;
    found.iter().all(|number| number.is_finite()).then_some(found)
}

/// Numbers with commas between them, each the shortest that says the same.
fn listed(numbers: &[f32]) -> String {
    let mut text = String::with_capacity(12 * numbers.len());
    for (place, number) in numbers.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        // Writing to a text does not fail.
        let _ = write!(text, "{comma}{number:?}");
    }
    text
}
