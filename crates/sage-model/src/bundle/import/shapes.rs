//! Operators that rearrange values. Each is accepted only if no value leaves its row.

use std::rc::Rc;

use super::file::Node;
use super::tensor::{DOUBLE, Data, FLOAT, TRUTH, Tensor, WHOLE};
use super::translate::{Kind, Known, Rows, Translation};
use super::{ImportRefusal, refused};
use crate::bundle::steps::Step;

const ACROSS: &str = "it goes along the rows and not along the numbers of a row, so it would mix rows";

/// Checks that an axis is that of a row's numbers, in two dimensions.
pub(super) fn along_a_row(axis: i64, rows: Rows) -> Result<(), ImportRefusal> {
    if rows.rank == 2 && (axis == 1 || axis == -1) { Ok(()) } else { Err(refused(ACROSS)) }
}

pub(super) fn identity(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    all.input_of(node, 0)
}

pub(super) fn constant(_: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let scalar = |data| Tensor { shape: Vec::new(), data };
    let tensor = if let Some(tensor) = node.tensor("value")? {
        tensor
    } else if let Some(floats) = node.floats("value_floats")? {
        Tensor { shape: vec![floats.len()], data: Data::Numbers(floats) }
    } else if let Some(wholes) = node.wholes("value_ints")? {
        Tensor { shape: vec![wholes.len()], data: Data::Wholes(wholes) }
    } else if node.has("value_float") {
        scalar(Data::Numbers(vec![node.float("value_float", 0.0)?]))
    } else if node.has("value_int") {
        scalar(Data::Wholes(vec![node.whole("value_int", 0)?]))
    } else {
        return Err(refused("it is a constant in an unsupported form"));
    };
    Ok(Known::Constant(Rc::new(tensor)))
}

pub(super) fn cast(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let to = node.whole("to", 0)?;
    match (all.input_of(node, 0)?, to) {
        (Known::Rows(rows), FLOAT | DOUBLE) => Ok(Known::Rows(Rows { kind: Kind::Number, ..rows })),
        (Known::Rows(rows), WHOLE) if rows.kind == Kind::Whole => Ok(Known::Rows(rows)),
        (Known::Rows(rows), TRUTH) if rows.kind == Kind::Truth => Ok(Known::Rows(rows)),
        (Known::Constant(tensor), FLOAT | DOUBLE) => {
            let Some(wholes) = tensor.wholes() else { return Ok(Known::Constant(tensor)) };
            all.reserve(wholes.len())?;
            let data = Data::Numbers(wholes.iter().map(|whole| *whole as f32).collect());
            Ok(Known::Constant(Rc::new(Tensor { shape: tensor.shape.clone(), data })))
        }
        (Known::Constant(tensor), WHOLE) if tensor.wholes().is_some() => Ok(Known::Constant(tensor)),
        _ => Err(refused("it casts to a type that is not float or double; round or compare in another way")),
    }
}

pub(super) fn concat(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let axis = node.whole("axis", 0)?;
    let (mut parts, mut width, mut first) = (Vec::new(), 0, None);
    for input in 0..node.inputs.len() {
        let Known::Rows(rows) = all.input_of(node, input)? else {
            return Err(refused("it concatenates constants or texts with numbers of rows"));
        };
        along_a_row(axis, rows)?;
        if *first.get_or_insert(rows.kind) != rows.kind {
            return Err(refused("it concatenates values of different types"));
        }
        width += all.width(rows);
        parts.push(rows.value);
    }
    let kind = first.ok_or_else(|| refused("one of its inputs is missing"))?;
    let value = all.push(Step::Join(parts), width)?;
    Ok(Known::Rows(Rows { value, kind, rank: 2 }))
}

pub(super) fn gather(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let Known::Rows(rows) = all.input_of(node, 0)? else {
        return Err(refused("it looks rows up in a constant; use a one-hot encoding instead"));
    };
    along_a_row(node.whole("axis", 0)?, rows)?;
    let indices = all.constant_of(node, 1)?;
    let rank = match indices.shape.len() {
        0 => 1,
        1 => 2,
        _ => return Err(refused("its list of indices has more than one dimension")),
    };
    select_columns(all, rows, &indices, rank)
}

/// Selects columns of a value by index; negative indices count from the end.
pub(super) fn select_columns(
    all: &mut Translation<'_>, rows: Rows, indices: &Tensor, rank: u8,
) -> Result<Known, ImportRefusal> {
    let width = all.width(rows) as i64;
    let resolve = |index: &i64| {
        let index = if *index < 0 { index.saturating_add(width) } else { *index };
        u32::try_from(index).ok().filter(|index| i64::from(*index) < width)
    };
    let columns: Option<Vec<u32>> = indices.wholes().and_then(|wholes| wholes.iter().map(resolve).collect());
    let columns = columns.ok_or_else(|| refused("it picks a number that a row does not have"))?;
    let count = columns.len();
    let value = all.push(Step::Pick { of: rows.value, columns }, count)?;
    Ok(Known::Rows(Rows { value, rank, ..rows }))
}

pub(super) fn reshape(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let shape = all.wholes_of(node, 1)?.unwrap_or_default();
    let Known::Rows(rows) = all.input_of(node, 0)? else {
        return Err(refused("it changes the shape of what is not numbers of rows; fold constants when it is exported"));
    };
    let width = all.width(rows) as i64;
    let copied = node.whole("allowzero", 0)? == 0;
    let rank = match shape.as_slice() {
        [-1] if width == 1 => 1,
        [0] if copied && rows.rank == 1 => 1,
        [-1, numbers] if *numbers == width => 2,
        [0, numbers] if copied && (*numbers == width || *numbers == -1) => 2,
        _ => return Err(refused("it would move numbers from one row to another; give each row the numbers it has")),
    };
    Ok(Known::Rows(Rows { rank, ..rows }))
}

pub(super) fn flatten(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    match (all.input_of(node, 0)?, node.whole("axis", 1)?) {
        (Known::Rows(rows), 1) => Ok(Known::Rows(Rows { rank: 2, ..rows })),
        _ => Err(refused(ACROSS)),
    }
}

pub(super) fn squeeze(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let axes = all.wholes_of(node, 1)?;
    match (all.input_of(node, 0)?, axes.as_deref()) {
        (Known::Rows(rows), Some([1 | -1])) if rows.rank == 2 && all.width(rows) == 1 => {
            Ok(Known::Rows(Rows { rank: 1, ..rows }))
        }
        (Known::Rows(rows), Some([1 | -2])) if rows.rank == 3 => Ok(Known::Rows(Rows { rank: 2, ..rows })),
        _ => Err(refused("it takes away another axis than that of a lone number; say `axes = [1]`")),
    }
}

pub(super) fn unsqueeze(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let axes = all.wholes_of(node, 1)?;
    match (all.input_of(node, 0)?, axes.as_deref()) {
        (Known::Rows(rows), Some([1 | -1])) if rows.rank == 1 => Ok(Known::Rows(Rows { rank: 2, ..rows })),
        (Known::Text(column, 1), Some([1 | -1])) => Ok(Known::Text(column, 2)),
        _ => Err(refused("it adds another axis than that of a lone number; say `axes = [1]`")),
    }
}

pub(super) fn transpose(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let Known::Constant(tensor) = all.input_of(node, 0)? else { return Err(refused(ACROSS)) };
    let order = node.wholes("perm")?;
    if order.is_some_and(|order| order != [1, 0]) || tensor.shape.len() != 2 {
        return Err(refused("it transposes a constant that is not a matrix"));
    }
    all.reserve(tensor.numbers().map_or(0, <[f32]>::len))?;
    let transposed = tensor.transposed().ok_or_else(|| refused("it transposes a constant that is not a matrix"))?;
    Ok(Known::Constant(Rc::new(transposed)))
}
