//! Operators of the `ai.onnx.ml` domain, which classical learners are exported with.

use super::file::Node;
use super::shapes::select_columns;
use super::translate::{Kind, Known, Rows, Translation};
use super::{ImportRefusal, numbers, refused};
use crate::bundle::steps::Rule;

/// The first input, which must have two dimensions.
fn matrix(all: &Translation<'_>, node: &Node<'_>) -> Result<Rows, ImportRefusal> {
    let rows = match all.input_of(node, 0)? {
        // These operators accept whole numbers and truth values as numbers.
        Known::Rows(rows) => Rows { kind: Kind::Number, ..rows },
        _ => all.rows_of(node, 0)?,
    };
    if rows.rank == 2 { Ok(rows) } else { Err(refused("its input is not of the shape [rows, numbers]")) }
}

pub(super) fn scale(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = matrix(all, node)?;
    let (offset, scale) = (node.floats("offset")?, node.floats("scale")?);
    let shifted = numbers::with_array(all, Rule::Subtract, rows, offset.unwrap_or_else(|| vec![0.0]))?;
    numbers::with_array(all, Rule::Multiply, shifted, scale.unwrap_or_else(|| vec![1.0])).map(Known::Rows)
}

pub(super) fn linear(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = matrix(all, node)?;
    if node.text("post_transform")?.is_some_and(|transform| transform != "NONE") {
        return Err(refused("it transforms its sums; write the transformation as a node of its own"));
    }
    let outputs = usize::try_from(node.whole("targets", 1)?).unwrap_or(0);
    let weights = node.floats("coefficients")?.unwrap_or_default();
    all.reserve(weights.len())?;
    let value = numbers::weighted(all, rows, weights, outputs)?;
    let sums = Rows { value, ..rows };
    match node.floats("intercepts")? {
        None => Ok(Known::Rows(sums)),
        Some(intercepts) => numbers::with_array(all, Rule::Add, sums, intercepts).map(Known::Rows),
    }
}

pub(super) fn impute(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = matrix(all, node)?;
    if !node.float("replaced_value_float", 0.0)?.is_nan() {
        return Err(refused("it replaces a number; null is represented by NaN"));
    }
    let replacement = node.floats("imputed_value_floats")?.unwrap_or_default();
    numbers::replace_missing(all, rows, replacement).map(Known::Rows)
}

pub(super) fn extract(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = matrix(all, node)?;
    let indices = all.constant_of(node, 1)?;
    select_columns(all, rows, &indices, 2)
}

pub(super) fn one_hot(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let Known::Text(column, rank) = all.input_of(node, 0)? else {
        return Err(refused("it is supported only for inputs that are text columns"));
    };
    let categories = node.texts("cats_strings")?.unwrap_or_default();
    if categories.is_empty() {
        return Err(refused("it lists no texts in `cats_strings`"));
    }
    let value = all.categories(column, categories)?;
    // The one-hot dimension is appended to the existing ones.
    Ok(Known::Rows(Rows { value, kind: Kind::Number, rank: rank + 1 }))
}
