//! The layers of a graph run in this process, without a pass over memory for each node.
//!
//! Rows go through in blocks that stay in a near cache, by the products that training uses. A row's prediction
//! does not depend on the rows beside it, to the last bit.

use super::graph::{Activation, Field, Graph, Link};
use sage_learn::encode::Example;
use sage_learn::network::{Initial, LeftSide, OneHotSum, PackedWeights, logistic, relu};

/// Rows of a block.
const ROWS: usize = 96;

/// What the fields of a batch are, for every row.
pub(super) enum FieldValues<'batch> {
    /// The number of a number field.
    Numbers(&'batch [f32]),
    /// The place of any other, a whole number.
    Places(&'batch [f64]),
}

/// A layer made ready.
struct Ready {
    activation: Activation,
    /// Weights of the numbers that go in, if any do.
    met: Option<PackedWeights>,
    bias: Vec<f32>,
}

/// How a field reaches the first layer.
enum Way {
    /// As a number.
    Number,
    /// As a row of this table, of this width.
    Embedded { table: Vec<f32>, width: usize },
    /// As a place behind so many others.
    Place { before: f64 },
}

/// The layers of a graph.
pub(super) struct Layers {
    ways: Vec<Way>,
    /// Numbers of a row before the first layer, and places that it names.
    numbers: usize,
    named: usize,
    /// For each place the first layer's weights.
    table: Vec<f32>,
    layers: Vec<Ready>,
    link: Link,
}

impl Layers {
    /// The layers of a graph, made ready.
    pub(super) fn new(graph: &Graph) -> Self {
        let outline = graph.outline();
        let (mut embeddings, mut before) = (graph.weights().embeddings.iter(), 0.0);
        let way = |field: &Field| match field {
            Field::Number(_) | Field::Plain(_) => Way::Number,
            Field::Embedded { width, .. } => {
                Way::Embedded { table: embeddings.next().cloned().unwrap_or_default(), width: *width as usize }
            }
            Field::Place(place) => {
                let way = Way::Place { before };
                before += place.places() as f64;
                way
            }
        };
        let ways: Vec<Way> = outline.fields.iter().map(way).collect();
        let named = ways.iter().filter(|way| matches!(way, Way::Place { .. })).count();
        let [scaled, embedded, _] = outline.inputs();
        let numbers = (scaled + embedded) as usize;
        let (mut table, mut layers, mut left) = (Vec::new(), Vec::new(), LeftSide::Dense);
        for (shape, layer) in outline.layers.iter().zip(&graph.weights().layers) {
            let outputs = shape.outputs as usize;
            let width = layer.weights.len() / outputs;
            let dense = if layers.is_empty() { numbers } else { width };
            // The weights of all outputs, an input after the other.
            let of = |input: usize| layer.weights[input..].iter().step_by(width).copied();
            let mut turned: Vec<f32> = (0..width).flat_map(of).collect();
            if layers.is_empty() {
                table = turned.split_off(dense * outputs);
            }
            let met = (dense > 0).then(|| PackedWeights::new(left, &turned, dense, outputs, Vec::new()));
            layers.push(Ready { activation: shape.activation, met, bias: layer.bias.clone() });
            left = if shape.activation == Activation::Relu { LeftSide::ReluSparse } else { LeftSide::Dense };
        }
        Self { ways, numbers, named, table, layers, link: outline.link }
    }

    /// How many numbers a prediction has.
    pub(super) fn outputs(&self) -> usize {
        self.layers.last().map_or(1, |layer| layer.bias.len())
    }

    /// The predictions for so many rows, one row's after the other.
    pub(super) fn run(&self, fields: &[FieldValues<'_>], count: usize) -> Vec<f32> {
        let outputs = self.outputs();
        let mut predicted = vec![0.0; count * outputs];
        // What goes into each layer, and the places that go into the first.
        let hidden = self.layers.iter().map(|layer| layer.bias.len()).take(self.layers.len() - 1);
        let widths: Vec<usize> = std::iter::once(self.numbers).chain(hidden).collect();
        let mut rooms: Vec<Vec<f32>> = widths.iter().map(|width| vec![0.0; ROWS.min(count) * width]).collect();
        let mut places = vec![0; ROWS.min(count) * self.named];
        for (block, predicted) in predicted.chunks_mut(ROWS * outputs).enumerate() {
            let rows = predicted.len() / outputs;
            self.fill(fields, block * ROWS, rows, &mut rooms[0], &mut places);
            for (place, (layer, width)) in self.layers.iter().zip(&widths).enumerate() {
                let (before, after) = rooms.split_at_mut(place + 1);
                let values = &before[place][..rows * width];
                let out = match after.first_mut() {
                    Some(next) => &mut next[..rows * layer.bias.len()],
                    None => &mut *predicted,
                };
                let initial = if place == 0 && self.named > 0 {
                    let example = |row: usize| Example {
                        numbers: &[],
                        places: &places[row * self.named..][..self.named],
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
                if let Some(met) = &layer.met {
                    met.product(values, out, initial);
                }
                activate(layer.activation, out);
            }
        }
        link(self.link, outputs, &mut predicted);
        predicted
    }

    /// What goes into the first layer, for so many rows from one on.
    fn fill(&self, fields: &[FieldValues<'_>], first: usize, rows: usize, numbers: &mut [f32], places: &mut [u32]) {
        // Numbers come first and embedded fields behind them, each in the order of the fields.
        let scaled = self.ways.iter().filter(|way| matches!(way, Way::Number)).count();
        let (mut number, mut embedded, mut named) = (0, scaled, 0);
        for (way, values) in self.ways.iter().zip(fields) {
            match (way, values) {
                (Way::Number, FieldValues::Numbers(found)) => {
                    let targets = numbers.iter_mut().skip(number).step_by(self.numbers);
                    targets.zip(&found[first..][..rows]).for_each(|(target, found)| *target = *found);
                    number += 1;
                }
                (Way::Embedded { table, width }, FieldValues::Places(found)) => {
                    for (row, &place) in found[first..][..rows].iter().enumerate() {
                        let start = (place as usize).saturating_mul(*width);
                        let target = &mut numbers[row * self.numbers + embedded..][..*width];
                        match table.get(start..start.saturating_add(*width)) {
                            Some(found) => target.copy_from_slice(found),
                            None => target.fill(0.0),
                        }
                    }
                    embedded += width;
                }
                (Way::Place { before }, FieldValues::Places(found)) => {
                    let targets = places.iter_mut().skip(named).step_by(self.named);
                    targets.zip(&found[first..][..rows]).for_each(|(target, found)| *target = (found + before) as u32);
                    named += 1;
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
        Link::Softmax => {
            for row in predicted.chunks_exact_mut(outputs) {
                let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|value| *value = libm::expf(*value - greatest));
                let sum: f32 = row.iter().sum();
                row.iter_mut().for_each(|value| *value /= sum);
            }
        }
    }
}
