//! Evaluates the layers of a graph in this process, without a pass over memory for each node.
//!
//! Rows are processed in blocks that stay in the cache, with the matrix products of training. A row's prediction does
//! not depend on the rows beside it, to the last bit.

use super::graph::{Activation, Field, Graph, Link};
use sage_learn::encode::Example;
use sage_learn::network::{Initial, LeftSide, OneHotSum, PackedWeights, logistic, relu, softmax};

/// Rows of a block.
const ROWS: usize = 96;

/// The values of a field for every row of a batch.
pub(super) enum FieldValues<'batch> {
    /// Of a numeric field.
    Numbers(&'batch [f32]),
    /// The category index of any other field, a whole number.
    Indices(&'batch [f64]),
}

/// A layer with packed weights.
struct PackedLayer {
    activation: Activation,
    /// Weights of the numeric inputs, if there are any.
    packed: Option<PackedWeights>,
    bias: Vec<f32>,
}

/// How a field enters the first layer.
enum FieldInput {
    /// As a number.
    Number,
    /// As a row of this table, of this width.
    Embedded { table: Vec<f32>, width: usize },
    /// As a one-hot index, after those of the fields before it.
    OneHot { before: f64 },
}

/// The layers of a graph.
pub(super) struct Layers {
    inputs: Vec<FieldInput>,
    /// Numeric inputs of the first layer, and one-hot indices of a row.
    numbers: usize,
    active: usize,
    /// The first layer's weights for each one-hot index.
    table: Vec<f32>,
    layers: Vec<PackedLayer>,
    link: Link,
}

impl Layers {
    /// Packs the layers of a graph.
    pub(super) fn new(graph: &Graph) -> Self {
        let outline = graph.outline();
        let (mut embeddings, mut before) = (graph.weights().embeddings.iter(), 0.0);
        let input = |field: &Field| match field {
            Field::Number(_) | Field::Plain(_) => FieldInput::Number,
            Field::Embedded { width, .. } => {
                FieldInput::Embedded { table: embeddings.next().cloned().unwrap_or_default(), width: *width as usize }
            }
            Field::OneHot(category) => {
                let input = FieldInput::OneHot { before };
                before += category.categories() as f64;
                input
            }
        };
        let inputs: Vec<FieldInput> = outline.fields.iter().map(input).collect();
        let active = inputs.iter().filter(|input| matches!(input, FieldInput::OneHot { .. })).count();
        let [scaled, embedded, _] = outline.inputs();
        let numbers = (scaled + embedded) as usize;
        let (mut table, mut layers, mut left) = (Vec::new(), Vec::new(), LeftSide::Dense);
        for (shape, layer) in outline.layers.iter().zip(&graph.weights().layers) {
            let outputs = shape.outputs as usize;
            let width = layer.weights.len() / outputs;
            let dense = if layers.is_empty() { numbers } else { width };
            // Input-major: the weights of all outputs for one input after the other.
            let weights_of = |input: usize| layer.weights[input..].iter().step_by(width).copied();
            let mut input_major: Vec<f32> = (0..width).flat_map(weights_of).collect();
            if layers.is_empty() {
                table = input_major.split_off(dense * outputs);
            }
            let packed = (dense > 0).then(|| PackedWeights::new(left, &input_major, dense, outputs, Vec::new()));
            layers.push(PackedLayer { activation: shape.activation, packed, bias: layer.bias.clone() });
            left = if shape.activation == Activation::Relu { LeftSide::ReluSparse } else { LeftSide::Dense };
        }
        Self { inputs, numbers, active, table, layers, link: outline.link }
    }

    /// The number of outputs of a prediction.
    pub(super) fn outputs(&self) -> usize {
        self.layers.last().map_or(1, |layer| layer.bias.len())
    }

    /// The predictions for `count` rows, row by row.
    pub(super) fn run(&self, fields: &[FieldValues<'_>], count: usize) -> Vec<f32> {
        let outputs = self.outputs();
        let mut predicted = vec![0.0; count * outputs];
        // The inputs of each layer, and the one-hot indices of the first.
        let hidden = self.layers.iter().map(|layer| layer.bias.len()).take(self.layers.len() - 1);
        let widths: Vec<usize> = std::iter::once(self.numbers).chain(hidden).collect();
        let mut buffers: Vec<Vec<f32>> = widths.iter().map(|width| vec![0.0; ROWS.min(count) * width]).collect();
        let mut indices = vec![0; ROWS.min(count) * self.active];
        for (block, predicted) in predicted.chunks_mut(ROWS * outputs).enumerate() {
            let rows = predicted.len() / outputs;
            self.fill(fields, block * ROWS, rows, &mut buffers[0], &mut indices);
            for (depth, (layer, width)) in self.layers.iter().zip(&widths).enumerate() {
                let (before, after) = buffers.split_at_mut(depth + 1);
                let values = &before[depth][..rows * width];
                let out = match after.first_mut() {
                    Some(next) => &mut next[..rows * layer.bias.len()],
                    None => &mut *predicted,
                };
                let initial = if depth == 0 && self.active > 0 {
                    let example = |row: usize| Example {
                        numbers: &[],
                        indices: &indices[row * self.active..][..self.active],
                        label: 0.0,
                        beside: &[],
                    };
                    let examples: Vec<Example<'_>> = (0..rows).map(example).collect();
                    let (table, bias) = (&self.table[..], &layer.bias[..]);
                    sage_numerics::dispatch(OneHotSum { table, bias, examples: &examples, out });
                    Initial::Existing
                } else {
                    Initial::Bias(&layer.bias)
                };
                if let Some(packed) = &layer.packed {
                    packed.product(values, out, initial);
                }
                activate(layer.activation, out);
            }
        }
        link(self.link, outputs, &mut predicted);
        predicted
    }

    /// Fills the inputs of the first layer, for `rows` rows from `first` on.
    fn fill(&self, fields: &[FieldValues<'_>], first: usize, rows: usize, numbers: &mut [f32], indices: &mut [u32]) {
        // Numbers come first, then embedded fields, each in the order of the fields.
        let scaled = self.inputs.iter().filter(|input| matches!(input, FieldInput::Number)).count();
        let (mut number, mut embedded, mut active) = (0, scaled, 0);
        for (input, values) in self.inputs.iter().zip(fields) {
            match (input, values) {
                (FieldInput::Number, FieldValues::Numbers(found)) => {
                    let targets = numbers.iter_mut().skip(number).step_by(self.numbers);
                    targets.zip(&found[first..][..rows]).for_each(|(target, found)| *target = *found);
                    number += 1;
                }
                (FieldInput::Embedded { table, width }, FieldValues::Indices(found)) => {
                    for (row, &index) in found[first..][..rows].iter().enumerate() {
                        let start = (index as usize).saturating_mul(*width);
                        let target = &mut numbers[row * self.numbers + embedded..][..*width];
                        match table.get(start..start.saturating_add(*width)) {
                            Some(found) => target.copy_from_slice(found),
                            None => target.fill(0.0),
                        }
                    }
                    embedded += width;
                }
                (FieldInput::OneHot { before }, FieldValues::Indices(found)) => {
                    let targets = indices.iter_mut().skip(active).step_by(self.active);
                    targets.zip(&found[first..][..rows]).for_each(|(target, found)| *target = (found + before) as u32);
                    active += 1;
                }
                _ => {}
            }
        }
    }
}

fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Identity => {}
        Activation::Relu => relu(values),
        Activation::Tanh => values.iter_mut().for_each(|value| *value = libm::tanhf(*value)),
        Activation::Sigmoid => values.iter_mut().for_each(|value| *value = logistic(*value)),
    }
}

fn link(link: Link, outputs: usize, predicted: &mut [f32]) {
    match link {
        Link::Identity => {}
        Link::Clipped { low, high } => predicted.iter_mut().for_each(|value| *value = value.max(low).min(high)),
        Link::Sigmoid => predicted.iter_mut().for_each(|value| *value = logistic(*value)),
        Link::Softmax => predicted.chunks_exact_mut(outputs).for_each(softmax),
    }
}
