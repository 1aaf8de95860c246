//! Arithmetic operators. Each is accepted only on values of one row and constants that are the same for all rows.

use super::file::Node;
use super::shapes::along_a_row;
use super::tensor::Tensor;
use super::translate::{Known, Rows, Translation};
use super::{ImportRefusal, refused};
use crate::bundle::steps::{Map, Operand, Rule, Step};

const DIFFERENT: &str = "its sides have different numbers of dimensions or of numbers, so it would mix rows";
const NO_NUMBERS: &str = "one of its constants is of integers; cast it to float";

/// A value of type float.
fn numbers(value: u32, rank: u8) -> Known {
    Known::Rows(Rows { value, kind: super::translate::Kind::Number, rank })
}

/// The numbers of a constant that is broadcast to every row.
fn broadcast_constant(tensor: &Tensor, rank: u8, width: usize) -> Result<&[f32], ImportRefusal> {
    let found = tensor.numbers().ok_or_else(|| refused(NO_NUMBERS))?;
    let fits = match (rank, tensor.shape.as_slice()) {
        (1, [] | [1]) => true,
        (2, [] | [1] | [1, 1]) => true,
        (2, [count] | [1, count]) => *count == width || width == 1,
        _ => false,
    };
    if fits { Ok(found) } else { Err(refused("its constant would differ from row to row")) }
}

pub(super) fn map(all: &mut Translation<'_>, node: &Node<'_>, function: Map) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    let value = all.push(Step::Map { function, of: rows.value }, all.width(rows))?;
    Ok(numbers(value, rows.rank))
}

/// Two inputs, or for Min and Max any number.
pub(super) fn pair(all: &mut Translation<'_>, node: &Node<'_>, rule: Rule) -> Result<Known, ImportRefusal> {
    let several = matches!(rule, Rule::Least | Rule::Greatest);
    if node.inputs.len() != 2 && !several {
        return Err(refused("one of its inputs is missing"));
    }
    let mut known = all.input_of(node, 0)?;
    for input in 1..node.inputs.len() {
        let other = all.input_of(node, input)?;
        known = match (&known, &other) {
            (Known::Constant(left), _) => {
                let rows = all.rows_of(node, input)?;
                with_constant(all, rule, rows, left, Order::ConstantFirst)?
            }
            (_, Known::Constant(right)) => {
                let rows = number_rows(all, node, &known)?;
                with_constant(all, rule, rows, right, Order::ConstantLast)?
            }
            _ => {
                let (left, right) = (number_rows(all, node, &known)?, all.rows_of(node, input)?);
                elementwise(all, rule, left, right)?
            }
        };
    }
    Ok(known)
}

/// The result of the earlier inputs of the same node, or the first of them.
fn number_rows(all: &Translation<'_>, node: &Node<'_>, known: &Known) -> Result<Rows, ImportRefusal> {
    match known {
        Known::Rows(rows) if rows.kind == super::translate::Kind::Number => Ok(*rows),
        _ => all.rows_of(node, 0),
    }
}

fn elementwise(all: &mut Translation<'_>, rule: Rule, left: Rows, right: Rows) -> Result<Known, ImportRefusal> {
    let widths = (all.width(left), all.width(right));
    if left.rank != right.rank || left.rank > 2 || (widths.0 != widths.1 && widths.0 != 1 && widths.1 != 1) {
        return Err(refused(DIFFERENT));
    }
    let (one, other) = (Operand::Value(left.value), Operand::Value(right.value));
    let value = all.push(Step::Pair { rule, left: one, right: other }, widths.0.max(widths.1))?;
    Ok(numbers(value, left.rank))
}

#[derive(Clone, Copy)]
enum Order {
    ConstantFirst,
    ConstantLast,
}

fn with_constant(
    all: &mut Translation<'_>, rule: Rule, rows: Rows, constant: &Tensor, order: Order,
) -> Result<Known, ImportRefusal> {
    let width = all.width(rows);
    let found = broadcast_constant(constant, rows.rank, width)?;
    all.reserve(found.len())?;
    let (value, array) = (Operand::Value(rows.value), Operand::Array(found.len() as u32));
    let step = match order {
        Order::ConstantFirst => Step::Pair { rule, left: array, right: value },
        Order::ConstantLast => Step::Pair { rule, left: value, right: array },
    };
    let value = all.push_with(step, width.max(found.len()), found.to_vec())?;
    Ok(numbers(value, rows.rank))
}

/// An elementwise step with an array, which has the width of the value or one element.
pub(super) fn with_array(
    all: &mut Translation<'_>, rule: Rule, rows: Rows, array: Vec<f32>,
) -> Result<Rows, ImportRefusal> {
    let width = all.width(rows);
    if array.len() != width && array.len() != 1 {
        return Err(refused("it has another number of weights than a row has numbers"));
    }
    all.reserve(array.len())?;
    let right = Operand::Array(array.len() as u32);
    let value = all.push_with(Step::Pair { rule, left: Operand::Value(rows.value), right }, width, array)?;
    Ok(Rows { value, ..rows })
}

pub(super) fn reciprocal(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    let step = Step::Pair { rule: Rule::Divide, left: Operand::Array(1), right: Operand::Value(rows.value) };
    let value = all.push_with(step, all.width(rows), vec![1.0])?;
    Ok(numbers(value, rows.rank))
}

pub(super) fn leaky(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    let slope = node.float("alpha", 0.01)?;
    if !(0.0..=1.0).contains(&slope) {
        return Err(refused("its slope is not from 0 to 1"));
    }
    let lower = with_array(all, Rule::Multiply, rows, vec![slope])?;
    elementwise(all, Rule::Greatest, rows, lower)
}

pub(super) fn clip(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    let mut ends = [f32::MIN, f32::MAX];
    for (end, input) in ends.iter_mut().zip(1..) {
        if node.inputs.get(input).is_some_and(|name| !name.is_empty()) {
            let tensor = all.constant_of(node, input)?;
            match tensor.numbers() {
                Some([lone]) => *end = *lone,
                _ => return Err(refused("an end of its range is not one number")),
            }
        }
    }
    let [low, high] = ends;
    let value = all.push(Step::Clip { of: rows.value, low, high }, all.width(rows))?;
    Ok(numbers(value, rows.rank))
}

pub(super) fn softmax(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    along_a_row(node.whole("axis", -1)?, rows)?;
    let value = all.push(Step::Softmax(rows.value), all.width(rows))?;
    Ok(numbers(value, 2))
}

pub(super) fn sum(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    reduced(all, node).map(Known::Rows)
}

pub(super) fn mean(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let width = all.width(all.rows_of(node, 0)?);
    let sum = reduced(all, node)?;
    with_array(all, Rule::Divide, sum, vec![width as f32]).map(Known::Rows)
}

/// The sum of each row's numbers.
fn reduced(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Rows, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    // Earlier operator sets have the axes as an attribute, later ones as an input.
    let axes = all.wholes_of(node, 1)?.or(node.wholes("axes")?);
    let Some([axis]) = axes.as_deref() else {
        return Err(refused("it sums over all rows; set `axes = [1]` to sum the numbers of a row"));
    };
    along_a_row(*axis, rows)?;
    let rank = if node.whole("keepdims", 1)? == 0 { 1 } else { 2 };
    let value = all.push(Step::Sum(rows.value), 1)?;
    Ok(Rows { value, rank, ..rows })
}

/// The product with an output-major weight matrix.
pub(super) fn weighted(
    all: &mut Translation<'_>, rows: Rows, weights: Vec<f32>, outputs: usize,
) -> Result<u32, ImportRefusal> {
    if rows.rank != 2 || outputs == 0 || weights.len() != outputs.saturating_mul(all.width(rows)) {
        return Err(refused("its weights are not a constant matrix with a line for each number of a row"));
    }
    let output_count = u32::try_from(outputs).map_err(|_| refused("it has too many outputs"))?;
    all.push_with(Step::Product { of: rows.value, outputs: output_count }, outputs, weights)
}

pub(super) fn product(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    let matrix = all.constant_of(node, 1)?;
    let found = matrix.numbers().ok_or_else(|| refused(NO_NUMBERS))?;
    all.reserve(found.len())?;
    let (weights, outputs, rank) = match (matrix.shape.as_slice(), matrix.transposed()) {
        ([inputs], _) if *inputs == all.width(rows) => (found.to_vec(), 1, 1),
        ([inputs, outputs], Some(transposed)) if *inputs == all.width(rows) => {
            (transposed.numbers().unwrap_or_default().to_vec(), *outputs, 2)
        }
        _ => return Err(refused("its weights are not a constant matrix with a line for each number of a row")),
    };
    let value = weighted(all, rows, weights, outputs)?;
    Ok(numbers(value, rank))
}

pub(super) fn gemm(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    if node.whole("transA", 0)? != 0 {
        return Err(refused("it transposes the rows, so it would mix them"));
    }
    let matrix = all.constant_of(node, 1)?;
    all.reserve(matrix.numbers().map_or(0, <[f32]>::len))?;
    let transposed = if node.whole("transB", 0)? == 0 { matrix.transposed() } else { Some((*matrix).clone()) };
    let Some((Some([outputs, inputs]), found)) =
        transposed.as_ref().map(|matrix| (matrix.shape.first_chunk::<2>(), matrix.numbers().unwrap_or_default()))
    else {
        return Err(refused("its weights are not a constant matrix with a line for each number of a row"));
    };
    if *inputs != all.width(rows) {
        return Err(refused("its weights are not a constant matrix with a line for each number of a row"));
    }
    let factor = node.float("alpha", 1.0)?;
    let weights = found.iter().map(|weight| weight * factor).collect();
    let value = weighted(all, rows, weights, *outputs)?;
    let sums = Rows { value, ..rows };
    if node.inputs.get(2).is_none_or(|name| name.is_empty()) {
        return Ok(Known::Rows(sums));
    }
    let bias = all.constant_of(node, 2)?;
    let factor = node.float("beta", 1.0)?;
    let added: Vec<f32> = broadcast_constant(&bias, 2, *outputs)?.iter().map(|number| number * factor).collect();
    with_array(all, Rule::Add, sums, added).map(Known::Rows)
}

/// Batch normalization in inference mode: the same for every row.
pub(super) fn normalized(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let rows = all.rows_of(node, 0)?;
    if node.whole("training_mode", 0)? != 0 || rows.rank != 2 {
        return Err(refused("it normalizes by the rows of the batch; export it for inference, on rows of numbers"));
    }
    let width = all.width(rows);
    let mut parts = Vec::new();
    for input in 1..5 {
        let part = all.constant_of(node, input)?;
        let numbers = part.numbers().filter(|numbers| numbers.len() == width);
        parts.push(numbers.ok_or_else(|| refused("it has another number of weights than a row has numbers"))?.to_vec());
    }
    let epsilon = f64::from(node.float("epsilon", 1e-5)?);
    let [scale, bias, mean, variance] = parts.as_slice() else { return Err(refused("one of its inputs is missing")) };
    let factors = scale.iter().zip(variance);
    let factors = factors.map(|(scale, variance)| (f64::from(*scale) / (f64::from(*variance) + epsilon).sqrt()) as f32);
    let shifted = with_array(all, Rule::Subtract, rows, mean.clone())?;
    let scaled = with_array(all, Rule::Multiply, shifted, factors.collect())?;
    with_array(all, Rule::Add, scaled, bias.clone()).map(Known::Rows)
}

pub(super) fn is_missing(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    all.rows_of(node, 0).map(Known::Missing)
}

/// Replaces missing numbers: the only supported use of Where.
pub(super) fn chosen(all: &mut Translation<'_>, node: &Node<'_>) -> Result<Known, ImportRefusal> {
    let (Known::Missing(of), Known::Constant(replacement), Known::Rows(rows)) =
        (all.input_of(node, 0)?, all.input_of(node, 1)?, all.input_of(node, 2)?)
    else {
        return Err(refused("it is not of the form `Where(IsNaN(x), constant, x)`"));
    };
    if of != rows {
        return Err(refused("it is not of the form `Where(IsNaN(x), constant, x)`"));
    }
    let width = all.width(rows);
    let found = broadcast_constant(&replacement, rows.rank, width)?;
    if found.len() > width {
        return Err(refused("it has another number of weights than a row has numbers"));
    }
    replace_missing(all, rows, found.to_vec()).map(Known::Rows)
}

/// Replaces missing numbers, by a constant of the row's width or a scalar.
pub(super) fn replace_missing(
    all: &mut Translation<'_>, rows: Rows, replacement: Vec<f32>,
) -> Result<Rows, ImportRefusal> {
    let width = all.width(rows);
    let replacement = if replacement.len() == 1 { vec![replacement[0]; width] } else { replacement };
    if replacement.len() != width {
        return Err(refused("it has another number of weights than a row has numbers"));
    }
    all.reserve(width)?;
    let value = all.push_with(Step::Fill(rows.value), width, replacement)?;
    Ok(Rows { value, ..rows })
}
