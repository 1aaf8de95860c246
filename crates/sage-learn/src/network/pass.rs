//! The passes through a network: forward to the prediction, back to the errors at every layer.
//!
//! Rows go through in blocks, for speed, and never see each other: every number of a row is computed by the
//! same operations in the same order whatever stands beside it. There is no statistic of a batch here and
//! there must never be one.

use sage_kernel::{LayerRows, LayerShape, Sample};

use super::product::{Onto, Right};
use super::shape::Loss;
use super::weights::Network;
use crate::encode::{Encoded, Example};

/// Rows of a block: a multiple of a tile's, few enough for a block to stay in a near cache.
const ROWS: usize = 96;
/// Outputs of a layer of places that are gathered at a time.
const OUTPUTS: usize = 512;

/// The logistic function.
pub(super) fn logistic(value: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-value))
}

/// A dense layer's weights, made ready for products.
struct Layer<'net> {
    shape: LayerShape,
    weights: &'net [f32],
    /// The part that the numbers meet.
    forward: Right,
    /// The same the other way round, where errors go on to what is before.
    back: Option<Right>,
}

/// A network made ready for one step.
pub(super) struct Ready<'net> {
    network: &'net Network,
    embeddings: Vec<LayerShape>,
    starts: Vec<u32>,
    layers: Vec<Layer<'net>>,
}

/// What the rows of a block have at every dense layer.
pub(super) struct Room {
    values: Vec<Vec<f32>>,
}

impl Room {
    /// For so many rows at a time.
    pub(super) fn new(network: &Network, rows: usize) -> Self {
        let layers = network.shape().layers();
        let dense = layers[network.shape().embeddings()..].iter();
        Self { values: dense.map(|layer| vec![0.0; rows * layer.numbers as usize]).collect() }
    }
}

/// The part of one layer's rows that a block works on.
struct Block<'data> {
    values: &'data mut [f32],
    places: &'data mut [u32],
    errors: &'data mut [f32],
}

impl<'net> Ready<'net> {
    /// For predictions.
    pub(super) fn forward_only(network: &'net Network) -> Self {
        Self::with(network, |_| false, &mut Vec::new())
    }

    /// For a step: with the way back wherever errors go on. Takes memory that an earlier step has left.
    pub(super) fn both_ways(network: &'net Network, spare: &mut Vec<Vec<f32>>) -> Self {
        let embeddings = network.shape().embeddings();
        Self::with(network, |place| place > embeddings || embeddings > 0, spare)
    }

    /// Leaves its memory to the next step.
    pub(super) fn leave(self, spare: &mut Vec<Vec<f32>>) {
        for layer in self.layers.into_iter().rev() {
            spare.extend(layer.back.map(Right::into_memory));
            spare.push(layer.forward.into_memory());
        }
    }

    fn with(network: &'net Network, goes_back: impl Fn(usize) -> bool, spare: &mut Vec<Vec<f32>>) -> Self {
        let shapes = network.shape().layers();
        let (embeddings, dense) = shapes.split_at(network.shape().embeddings());
        let layers = dense.iter().enumerate().map(|(place, &shape)| {
            let place = place + embeddings.len();
            let weights = network.parameters()[place].as_slice();
            let (numbers, outputs) = (shape.numbers as usize, shape.outputs as usize);
            let met = &weights[..numbers * outputs];
            let mut memory = || spare.pop().unwrap_or_default();
            let forward = Right::new(met, numbers, outputs, memory());
            let back = goes_back(place).then(|| Right::transposed(met, outputs, numbers, memory()));
            Layer { shape, weights, forward, back }
        });
        Self { network, embeddings: embeddings.to_vec(), starts: network.field_starts(), layers: layers.collect() }
    }

    /// The raw predictions of some rows.
    pub(super) fn predict(&self, room: &mut Room, examples: &[Example<'_>], predicted: &mut [f32]) {
        let count = examples.len();
        self.fill_first(examples, &mut room.values[0][..count * self.layers[0].shape.numbers as usize]);
        for (place, layer) in self.layers.iter().enumerate() {
            let (before, after) = room.values.split_at_mut(place + 1);
            let values = &before[place][..count * layer.shape.numbers as usize];
            if let Some(next) = after.first_mut() {
                let next = &mut next[..count * layer.shape.outputs as usize];
                layer.forward(values, examples, next);
                bend(next);
            } else {
                layer.forward(values, examples, predicted);
            }
        }
    }

    /// Fills in what a step of the kernel asks for, with so many threads.
    pub(super) fn backward(&self, sample: &Sample<'_, Encoded>, filled: &mut [LayerRows], threads: usize) {
        let count = sample.count();
        let shapes = &self.network.shape().layers();
        let mut rest: Vec<Block<'_>> = filled.iter_mut().map(Block::whole).collect();
        std::thread::scope(|scope| {
            for thread in 0..threads.max(1) {
                let rows = count * thread / threads.max(1)..count * (thread + 1) / threads.max(1);
                let mine = rest.iter_mut().zip(shapes).map(|(rest, shape)| rest.cut(*shape, rows.len())).collect();
                let work = move || self.backward_rows(sample, rows, mine, shapes);
                if thread + 1 == threads.max(1) {
                    work();
                } else {
                    scope.spawn(work);
                }
            }
        });
    }

    fn backward_rows(
        &self, sample: &Sample<'_, Encoded>, rows: std::ops::Range<usize>, mut layers: Vec<Block<'_>>,
        shapes: &[LayerShape],
    ) {
        let mut spare = vec![0.0; ROWS * self.layers[0].shape.numbers as usize];
        for first in rows.clone().step_by(ROWS) {
            let some = first..rows.end.min(first + ROWS);
            let examples: Vec<Example<'_>> = some.map(|place| sample.row(place)).collect();
            let blocks = layers.iter_mut().zip(shapes).map(|(layer, shape)| layer.cut(*shape, examples.len()));
            self.block(&examples, &mut blocks.collect::<Vec<_>>(), &mut spare);
        }
    }

    /// One block of rows, forward and back.
    fn block(&self, examples: &[Example<'_>], blocks: &mut [Block<'_>], spare: &mut [f32]) {
        let (embedded, dense) = blocks.split_at_mut(self.embeddings.len());
        self.fill_first(examples, dense[0].values);
        self.fill_places(examples, embedded, dense[0].places);
        for (place, layer) in self.layers.iter().enumerate() {
            let (before, after) = dense.split_at_mut(place + 1);
            if let Some(next) = after.first_mut() {
                layer.forward(before[place].values, examples, next.values);
                bend(next.values);
            } else {
                layer.forward(before[place].values, examples, before[place].errors);
                self.errors_of_predictions(examples, before[place].errors);
            }
        }
        for place in (1..self.layers.len()).rev() {
            let (before, after) = dense.split_at_mut(place);
            let errors = &mut *before[place - 1].errors;
            self.layers[place].back(after[0].errors, errors);
            let bent = errors.iter_mut().zip(&*after[0].values);
            bent.for_each(|(error, &value)| *error = if value > 0.0 { *error } else { 0.0 });
        }
        if !embedded.is_empty() {
            let width = self.layers[0].shape.numbers as usize;
            let spare = &mut spare[..examples.len() * width];
            self.layers[0].back(dense[0].errors, spare);
            self.split_errors(spare, width, embedded);
        }
    }

    /// What goes into the first dense layer as numbers. A row that does not fit becomes no number.
    fn fill_first(&self, examples: &[Example<'_>], values: &mut [f32]) {
        let width = self.layers[0].shape.numbers as usize;
        if width == 0 {
            return;
        }
        let numbers = self.network.shape().layout().numbers as usize;
        for (example, values) in examples.iter().zip(values.chunks_exact_mut(width)) {
            values.fill(f32::NAN);
            if example.numbers.len() == numbers {
                values[..numbers].copy_from_slice(example.numbers);
            }
            let fields =
                self.starts.iter().zip(example.places).zip(self.embeddings.iter().zip(self.network.parameters()));
            let mut targets = values[numbers..].iter_mut();
            for ((start, place), (embedding, table)) in fields {
                let outputs = embedding.outputs as usize;
                let target = targets.by_ref().take(outputs);
                match place.checked_sub(*start).filter(|&place| place < embedding.places) {
                    Some(place) => {
                        target.zip(&table[place as usize * outputs..]).for_each(|(target, &value)| *target = value);
                    }
                    None => target.for_each(|target| *target = 0.0),
                }
            }
        }
    }

    /// The places that rows name, at the layers that have them. Where they do not fit, one that does not exist:
    /// the kernel then leaves the row out.
    fn fill_places(&self, examples: &[Example<'_>], embedded: &mut [Block<'_>], direct: &mut [u32]) {
        let named = self.network.shape().layout().named as usize;
        for (row, example) in examples.iter().enumerate() {
            let place = |field: usize| example.places.get(field).copied().filter(|_| example.places.len() == named);
            for (field, (block, start)) in embedded.iter_mut().zip(&self.starts).enumerate() {
                block.places[row] = place(field).and_then(|place| place.checked_sub(*start)).unwrap_or(u32::MAX);
            }
            if embedded.is_empty() {
                let target = direct[row * named..][..named].iter_mut().enumerate();
                target.for_each(|(field, target)| *target = place(field).unwrap_or(u32::MAX));
            }
        }
    }

    /// From raw predictions to how the loss changes with them.
    fn errors_of_predictions(&self, examples: &[Example<'_>], errors: &mut [f32]) {
        for (error, example) in errors.iter_mut().zip(examples) {
            *error = match self.network.shape().loss() {
                Loss::Squared => *error - example.label,
                Loss::Logistic => logistic(*error) - example.label.clamp(0.0, 1.0),
            };
        }
    }

    /// The errors at the first layer's inputs, field by field.
    fn split_errors(&self, errors: &[f32], width: usize, embedded: &mut [Block<'_>]) {
        let numbers = self.network.shape().layout().numbers as usize;
        for (row, errors) in errors.chunks_exact(width).enumerate() {
            let mut errors = &errors[numbers..];
            for (block, embedding) in embedded.iter_mut().zip(&self.embeddings) {
                let (mine, behind) = errors.split_at(embedding.outputs as usize);
                block.errors[row * mine.len()..][..mine.len()].copy_from_slice(mine);
                errors = behind;
            }
        }
    }
}

impl<'data> Block<'data> {
    fn whole(rows: &'data mut LayerRows) -> Self {
        Self { values: &mut rows.values, places: &mut rows.places, errors: &mut rows.errors }
    }

    /// Cuts off the first so many rows.
    fn cut(&mut self, shape: LayerShape, rows: usize) -> Self {
        Self {
            values: cut(&mut self.values, rows * shape.numbers as usize),
            places: cut(&mut self.places, rows * shape.named as usize),
            errors: cut(&mut self.errors, rows * shape.outputs as usize),
        }
    }
}

fn cut<'data, T>(rest: &mut &'data mut [T], count: usize) -> &'data mut [T] {
    let (first, behind) = std::mem::take(rest).split_at_mut(count);
    *rest = behind;
    first
}

/// What is below zero becomes zero. What is no number stays: the kernel leaves such a row out.
fn bend(values: &mut [f32]) {
    pulp::Arch::new().dispatch(|| {
        for value in values {
            *value = if *value < 0.0 { 0.0 } else { *value };
        }
    });
}

impl Layer<'_> {
    /// What comes out of the layer, before any bend.
    fn forward(&self, values: &[f32], examples: &[Example<'_>], out: &mut [f32]) {
        let outputs = self.shape.outputs as usize;
        let (rest, bias) = self.weights.split_at(self.weights.len() - outputs);
        let table = &rest[self.shape.numbers as usize * outputs..];
        pulp::Arch::new().dispatch(|| {
            for first in (0..outputs).step_by(OUTPUTS) {
                let some = first..outputs.min(first + OUTPUTS);
                for (example, out) in examples.iter().zip(out.chunks_exact_mut(outputs)) {
                    let out = &mut out[some.clone()];
                    out.copy_from_slice(&bias[some.clone()]);
                    if self.shape.named == 0 {
                        continue;
                    }
                    for &place in example.places.iter().filter(|&&place| place < self.shape.places) {
                        let weights = &table[place as usize * outputs..][some.clone()];
                        out.iter_mut().zip(weights).for_each(|(out, weight)| *out += weight);
                    }
                }
            }
        });
        self.forward.product(values, out, Onto::WhatIsThere);
    }

    /// The errors at what went in.
    fn back(&self, errors: &[f32], before: &mut [f32]) {
        if let Some(back) = &self.back {
            back.product(errors, before, Onto::Nothing);
        }
    }
}
