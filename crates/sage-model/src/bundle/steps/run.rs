//! Evaluates steps on blocks of rows.
//!
//! Matrix products are those of training, in which a row's sums do not depend on the rows beside it; everything else is
//! elementwise.

use super::{Map, Operand, Rule, Step};
use crate::bundle::graph::Graph;
use crate::bundle::layers::FieldValues;
use sage_learn::network::{Initial, LeftSide, PackedWeights, logistic, relu};

/// Rows of a block.
const ROWS: usize = 96;

/// The prepared steps of a graph.
pub(in crate::bundle) struct Steps {
    fields: usize,
    widths: Vec<usize>,
    prepared: Vec<PreparedStep>,
}

/// A step with its arrays.
struct PreparedStep {
    step: Step,
    product: Option<PackedWeights>,
    /// Its array operands, the left one first.
    arrays: Vec<Vec<f32>>,
}

impl Steps {
    /// The steps of a graph that was checked.
    pub(in crate::bundle) fn new(graph: &Graph) -> Self {
        let outline = graph.outline();
        let widths = super::widths(outline).unwrap_or_default();
        let widths: Vec<usize> = widths.into_iter().map(|width| width as usize).collect();
        let mut arrays = graph.weights().arrays.iter().cloned();
        let mut prepared = Vec::with_capacity(outline.steps.len());
        for step in &outline.steps {
            let (mut product, mut own) = (None, Vec::new());
            match step {
                Step::Product { of, outputs } => {
                    let weights = arrays.next().unwrap_or_default();
                    let (inputs, outputs) = (widths[*of as usize], *outputs as usize);
                    product = Some(PackedWeights::transposed(LeftSide::Dense, &weights, inputs, outputs, Vec::new()));
                }
                Step::Fill(_) => own.extend(arrays.next()),
                Step::Pair { left, right, .. } => {
                    let sides = [left, right].into_iter().filter(|side| matches!(side, Operand::Array(_)));
                    own.extend(sides.filter_map(|_| arrays.next()));
                }
                _ => {}
            }
            prepared.push(PreparedStep { step: step.clone(), product, arrays: own });
        }
        Self { fields: outline.fields.len(), widths, prepared }
    }

    /// The number of outputs of a prediction.
    pub(in crate::bundle) fn outputs(&self) -> usize {
        self.widths.last().copied().unwrap_or(1)
    }

    /// The predictions for `count` rows, row by row.
    pub(in crate::bundle) fn run(&self, fields: &[FieldValues<'_>], count: usize) -> Vec<f32> {
        let outputs = self.outputs();
        let most = ROWS.min(count);
        let mut buffers: Vec<Vec<f32>> = self.widths.iter().map(|width| vec![0.0; most * width]).collect();
        let mut predicted = Vec::with_capacity(count * outputs);
        for first in (0..count).step_by(ROWS) {
            let rows = most.min(count - first);
            for ((buffer, width), field) in buffers.iter_mut().zip(&self.widths).zip(fields) {
                fill(&mut buffer[..rows * width], *width, field, first);
            }
            for (prepared, index) in self.prepared.iter().zip(self.fields..) {
                let (before, after) = buffers.split_at_mut(index);
                let width = self.widths[index];
                let values = Values { buffers: before, widths: &self.widths, rows };
                prepared.perform(&values, &mut after[0][..rows * width], width);
            }
            if let Some(last) = buffers.last() {
                predicted.extend_from_slice(&last[..rows * outputs]);
            }
        }
        predicted
    }
}

/// A field of some rows as numbers: itself, or one-hot encoded.
fn fill(buffer: &mut [f32], width: usize, field: &FieldValues<'_>, first: usize) {
    match field {
        FieldValues::Numbers(found) => buffer.copy_from_slice(&found[first..][..buffer.len()]),
        FieldValues::Indices(found) => {
            buffer.fill(0.0);
            for (row, index) in buffer.chunks_exact_mut(width).zip(&found[first..]) {
                if let Some(number) = row.get_mut(*index as usize) {
                    *number = 1.0;
                }
            }
        }
    }
}

/// The values computed so far for some rows.
struct Values<'buffers> {
    buffers: &'buffers [Vec<f32>],
    widths: &'buffers [usize],
    rows: usize,
}

impl Values<'_> {
    fn rows(&self, value: u32) -> &[f32] {
        &self.buffers[value as usize][..self.rows * self.widths[value as usize]]
    }

    fn row(&self, value: u32, row: usize) -> &[f32] {
        let width = self.widths[value as usize];
        &self.buffers[value as usize][row * width..][..width]
    }
}

impl PreparedStep {
    fn perform(&self, values: &Values<'_>, out: &mut [f32], width: usize) {
        match &self.step {
            Step::Join(parts) => {
                for (row, out) in out.chunks_exact_mut(width).enumerate() {
                    let numbers = parts.iter().flat_map(|part| values.row(*part, row));
                    out.iter_mut().zip(numbers).for_each(|(out, number)| *out = *number);
                }
            }
            Step::Pick { of, columns } => {
                for (row, out) in out.chunks_exact_mut(width).enumerate() {
                    let numbers = values.row(*of, row);
                    out.iter_mut().zip(columns).for_each(|(out, index)| *out = numbers[*index as usize]);
                }
            }
            Step::Product { of, .. } => {
                if let Some(product) = &self.product {
                    product.product(values.rows(*of), out, Initial::Zero);
                }
            }
            Step::Pair { rule, left, right } => {
                let mut arrays = self.arrays.iter();
                let mut side = |operand: &Operand| match operand {
                    Operand::Value(value) => Side::Value(*value),
                    Operand::Array(_) => Side::Array(arrays.next().map_or(&[], Vec::as_slice)),
                };
                let (left, right) = (side(left), side(right));
                for (row, out) in out.chunks_exact_mut(width).enumerate() {
                    pair(*rule, left.row(values, row), right.row(values, row), out);
                }
            }
            Step::Map { function, of } => {
                out.copy_from_slice(values.rows(*of));
                map(*function, out);
            }
            Step::Clip { of, low, high } => {
                let clip = |number: f32| if number < *low { *low } else { number.min(*high) };
                out.iter_mut().zip(values.rows(*of)).for_each(|(out, number)| *out = clip(*number));
            }
            Step::Softmax(of) => {
                out.copy_from_slice(values.rows(*of));
                out.chunks_exact_mut(width).for_each(softmax);
            }
            Step::Sum(of) => {
                for (row, out) in out.iter_mut().enumerate() {
                    *out = values.row(*of, row).iter().sum();
                }
            }
            Step::Fill(of) => {
                let replacement = self.arrays.first().map_or(&[][..], Vec::as_slice);
                let numbers = values.rows(*of).iter().zip(replacement.iter().cycle());
                for (out, (number, replacement)) in out.iter_mut().zip(numbers) {
                    *out = if number.is_nan() { *replacement } else { *number };
                }
            }
        }
    }
}

/// An operand of a pair.
enum Side<'step> {
    Value(u32),
    Array(&'step [f32]),
}

impl<'step> Side<'step> {
    fn row<'found>(&self, values: &'found Values<'_>, row: usize) -> &'found [f32]
    where
        'step: 'found,
    {
        match self {
            Self::Value(value) => values.row(*value, row),
            Self::Array(array) => array,
        }
    }
}

fn pair(rule: Rule, left: &[f32], right: &[f32], out: &mut [f32]) {
    let of: fn(f32, f32) -> f32 = match rule {
        Rule::Add => |left, right| left + right,
        Rule::Subtract => |left, right| left - right,
        Rule::Multiply => |left, right| left * right,
        Rule::Divide => |left, right| left / right,
        Rule::Least => f32::min,
        Rule::Greatest => f32::max,
    };
    let broadcast = |side: &[f32], index: usize| if side.len() == 1 { side[0] } else { side[index] };
    for (index, out) in out.iter_mut().enumerate() {
        *out = of(broadcast(left, index), broadcast(right, index));
    }
}

fn map(function: Map, values: &mut [f32]) {
    let of: fn(f32) -> f32 = match function {
        Map::Relu => return relu(values),
        Map::Sigmoid => logistic,
        Map::Tanh => libm::tanhf,
        Map::Exp => libm::expf,
        Map::Ln => libm::logf,
        Map::Sqrt => f32::sqrt,
        Map::Abs => f32::abs,
        Map::Negative => |number| -number,
        Map::Erf => libm::erff,
    };
    values.iter_mut().for_each(|value| *value = of(*value));
}

/// Softmax of one row, in place.
fn softmax(row: &mut [f32]) {
    let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|value| *value = libm::expf(*value - greatest));
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|value| *value /= sum);
}
