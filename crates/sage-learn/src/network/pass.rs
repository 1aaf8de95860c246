//! The forward pass to the prediction and the backward pass to the errors at every layer.
//!
//! Rows are processed in blocks for speed, and are independent: every value of a row is computed by the same
//! operations in the same order whatever rows are beside it. There is no batch statistic here, and there must never
//! be one.

use pulp::{Simd, WithSimd};
use sage_kernel::{LayerRows, LayerShape, Sample};
use sage_numerics::dispatch;

use super::product::Initial;
use super::relu_sparse::{LeftSide, PackedWeights};
use super::shape::Loss;
use super::weights::Network;
use crate::encode::{Encoded, Example};

/// Outputs that are accumulated at a time in a layer of one-hot indices.
const OUTPUTS: usize = 512;

/// The logistic function.
pub fn logistic(value: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-value))
}

/// Softmax in place: probabilities from the outputs of the last layer. NaN makes all of them NaN.
pub fn softmax(values: &mut [f32]) {
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    values.iter_mut().for_each(|value| *value = libm::expf(*value - greatest));
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

/// A dense layer with packed weights.
struct Layer<'net> {
    shape: LayerShape,
    weights: &'net [f32],
    /// The weights of the numeric inputs.
    forward: PackedWeights,
    /// The same transposed, if errors are propagated to an earlier layer.
    back: Option<PackedWeights>,
}

/// Number of weights from which packing on a second thread pays off.
const PARALLEL_WEIGHTS: u32 = 1 << 16;

/// The dense layers of a network, each with the weights of its numeric inputs.
fn dense(network: &Network) -> impl Iterator<Item = (LayerShape, &[f32])> {
    let layers = network.shape().layers().into_iter().zip(network.parameters());
    let numeric_weights = |shape: LayerShape| shape.numeric as usize * shape.outputs as usize;
    layers.skip(network.shape().embeddings()).map(move |(shape, weights)| (shape, &weights[..numeric_weights(shape)]))
}

/// Packs the weights for the forward pass, reusing allocations.
fn forward(network: &Network, mut memory: Vec<Vec<f32>>) -> Vec<PackedWeights> {
    let packed = |(depth, (shape, weights)): (usize, (LayerShape, &[f32]))| {
        let (numbers, outputs, memory) = (shape.numeric as usize, shape.outputs as usize, memory.pop());
        // After the first layer the inputs are outputs of a ReLU.
        let left = if depth > 0 { LeftSide::ReluSparse } else { LeftSide::Dense };
        PackedWeights::new(left, weights, numbers, outputs, memory.unwrap_or_default())
    };
    dense(network).enumerate().map(packed).collect()
}

/// Packs the weights for the backward pass, where errors are propagated.
fn back(network: &Network, mut memory: Vec<Vec<f32>>) -> Vec<Option<PackedWeights>> {
    let shape = network.shape();
    let packed = |(depth, (layer, weights)): (usize, (LayerShape, &[f32]))| {
        if depth == 0 && shape.embeddings() == 0 {
            return None;
        }
        // No errors are propagated to the row's own numbers.
        let own = if depth == 0 { shape.layout().numbers as usize } else { 0 };
        let (numbers, outputs, memory) = (layer.numeric as usize - own, layer.outputs as usize, memory.pop());
        let weights = &weights[own * outputs..];
        // Before the last layer errors went through the gradient of a ReLU.
        let left = if depth < shape.hidden().len() { LeftSide::ReluSparse } else { LeftSide::Dense };
        Some(PackedWeights::transposed(left, weights, outputs, numbers, memory.unwrap_or_default()))
    };
    dense(network).enumerate().map(packed).collect()
}

/// A network with packed weights, for one step.
pub(super) struct PackedNetwork<'net> {
    network: &'net Network,
    embeddings: Vec<LayerShape>,
    starts: Vec<u32>,
    layers: Vec<Layer<'net>>,
}

/// Allocations that are passed from step to step: for the forward and the backward pass.
pub(super) type Memory = [Vec<Vec<f32>>; 2];

/// Buffers for the activations of a block of rows at every dense layer.
pub(super) struct Buffers {
    values: Vec<Vec<f32>>,
}

impl Buffers {
    /// Buffers for `rows` rows at a time.
    pub(super) fn new(network: &Network, rows: usize) -> Self {
        let layers = network.shape().layers();
        let dense = layers[network.shape().embeddings()..].iter();
        Self { values: dense.map(|layer| vec![0.0; rows * layer.numeric as usize]).collect() }
    }
}

/// The part of one layer's rows that a block works on.
struct Block<'data> {
    values: &'data mut [f32],
    indices: &'data mut [u32],
    errors: &'data mut [f32],
}

impl<'net> PackedNetwork<'net> {
    /// For predictions.
    pub(super) fn for_prediction(network: &'net Network) -> Self {
        Self::new(network, forward(network, Vec::new()), Vec::new())
    }

    /// For a training step: with the transposed weights of layers that propagate errors. Reuses the allocations of an
    /// earlier step.
    pub(super) fn for_training(network: &'net Network, [one, other]: &mut Memory, threads: usize) -> Self {
        let (one, other) = (std::mem::take(one), std::mem::take(other));
        if threads == 1 || network.shape().parameters() < PARALLEL_WEIGHTS {
            return Self::new(network, forward(network, one), back(network, other));
        }
        std::thread::scope(|scope| {
            let back = scope.spawn(|| back(network, other));
            let forward = forward(network, one);
            let back = back.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Self::new(network, forward, back)
        })
    }

    /// Returns its allocations for the next step.
    pub(super) fn recycle(self, [forward, back]: &mut Memory) {
        for layer in self.layers.into_iter().rev() {
            forward.push(layer.forward.into_memory());
            back.extend(layer.back.map(PackedWeights::into_memory));
        }
    }

    fn new(network: &'net Network, forward: Vec<PackedWeights>, back: Vec<Option<PackedWeights>>) -> Self {
        let mut embeddings = network.shape().layers();
        let dense = embeddings.split_off(network.shape().embeddings());
        let back = back.into_iter().chain(std::iter::repeat_with(|| None));
        let layers = dense.into_iter().zip(&network.parameters()[embeddings.len()..]).zip(forward).zip(back);
        let layer = |(((shape, weights), forward), back): (((_, &'net Vec<f32>), _), _)| Layer {
            shape,
            weights,
            forward,
            back,
        };
        let layers = layers.map(layer).collect();
        Self { network, embeddings, starts: network.field_starts(), layers }
    }

    /// The raw predictions of some rows.
    pub(super) fn predict(&self, buffers: &mut Buffers, examples: &[Example<'_>], predicted: &mut [f32]) {
        let count = examples.len();
        self.fill_first(examples, &mut buffers.values[0][..count * self.layers[0].shape.numeric as usize]);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, after) = buffers.values.split_at_mut(index + 1);
            let values = &before[index][..count * layer.shape.numeric as usize];
            if let Some(next) = after.first_mut() {
                let next = &mut next[..count * layer.shape.outputs as usize];
                layer.forward(values, examples, next);
                relu(next);
            } else {
                layer.forward(values, examples, predicted);
            }
        }
    }

    /// Computes the gradient factors that a step of the kernel needs.
    pub(super) fn backward(&self, sample: &Sample<'_, Encoded>, filled: &mut [LayerRows]) {
        let examples: Vec<Example<'_>> = (0..sample.count()).map(|index| *sample.row(index)).collect();
        let mut blocks: Vec<Block<'_>> = filled.iter_mut().map(Block::whole).collect();
        let mut spare = vec![0.0; examples.len() * self.layers[0].shape.numeric as usize];
        self.block(&examples, &mut blocks, &mut spare);
    }

    /// Forward and backward pass of one block of rows.
    fn block(&self, examples: &[Example<'_>], blocks: &mut [Block<'_>], spare: &mut [f32]) {
        let (embedded, dense) = blocks.split_at_mut(self.embeddings.len());
        self.fill_first(examples, dense[0].values);
        self.fill_indices(examples, embedded, dense[0].indices);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, after) = dense.split_at_mut(index + 1);
            if let Some(next) = after.first_mut() {
                layer.forward(before[index].values, examples, next.values);
                relu(next.values);
            } else {
                layer.forward(before[index].values, examples, before[index].errors);
                self.errors_of_predictions(examples, before[index].errors);
            }
        }
        for index in (1..self.layers.len()).rev() {
            let (before, after) = dense.split_at_mut(index);
            let errors = &mut *before[index - 1].errors;
            self.layers[index].back(after[0].errors, errors);
            dispatch(ReluGradient { errors, values: after[0].values });
        }
        if !embedded.is_empty() {
            let width = self.layers[0].shape.numeric as usize - self.network.shape().layout().numbers as usize;
            let spare = &mut spare[..examples.len() * width];
            self.layers[0].back(dense[0].errors, spare);
            self.split_errors(spare, width, embedded);
        }
    }

    /// The numeric inputs of the first dense layer. A row that does not fit the layout becomes NaN.
    fn fill_first(&self, examples: &[Example<'_>], values: &mut [f32]) {
        let width = self.layers[0].shape.numeric as usize;
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
                self.starts.iter().zip(example.indices).zip(self.embeddings.iter().zip(self.network.parameters()));
            let mut targets = &mut values[numbers..];
            for ((start, index), (embedding, table)) in fields {
                let outputs = embedding.outputs as usize;
                let (target, behind) = std::mem::take(&mut targets).split_at_mut(outputs);
                targets = behind;
                match index.checked_sub(*start).filter(|&index| index < embedding.columns) {
                    Some(index) => copy_short(&table[index as usize * outputs..][..outputs], target),
                    None => target.fill(0.0),
                }
            }
        }
    }

    /// The rows' one-hot indices, for the layers that have them. A row that does not fit the layout gets an index that
    /// does not exist: the kernel then leaves the row out.
    fn fill_indices(&self, examples: &[Example<'_>], embedded: &mut [Block<'_>], direct: &mut [u32]) {
        let active = self.network.shape().layout().active as usize;
        for (row, example) in examples.iter().enumerate() {
            let indices = Some(example.indices).filter(|indices| indices.len() == active);
            let index = |field: usize| indices.and_then(|indices| indices.get(field)).copied();
            for (field, (block, start)) in embedded.iter_mut().zip(&self.starts).enumerate() {
                block.indices[row] = index(field).and_then(|index| index.checked_sub(*start)).unwrap_or(u32::MAX);
            }
            if embedded.is_empty() {
                let target = &mut direct[row * active..][..active];
                match indices {
                    Some(indices) => target.copy_from_slice(indices),
                    None => target.fill(u32::MAX),
                }
            }
        }
    }

    /// From raw predictions to the derivative of the loss.
    fn errors_of_predictions(&self, examples: &[Example<'_>], errors: &mut [f32]) {
        let loss = self.network.shape().loss();
        for (errors, example) in errors.chunks_exact_mut(loss.outputs() as usize).zip(examples) {
            match (loss, &mut *errors) {
                (Loss::Squared, [error]) => *error -= example.label,
                (Loss::Logistic, [error]) => *error = logistic(*error) - example.label.clamp(0.0, 1.0),
                _ => {
                    softmax(errors);
                    if let Some(error) = errors.get_mut(example.label as usize) {
                        *error -= 1.0;
                    }
                }
            }
        }
    }

    /// Splits the errors at the embedded inputs of the first layer by field.
    fn split_errors(&self, errors: &[f32], width: usize, embedded: &mut [Block<'_>]) {
        for (row, mut errors) in errors.chunks_exact(width).enumerate() {
            for (block, embedding) in embedded.iter_mut().zip(&self.embeddings) {
                let (mine, behind) = errors.split_at(embedding.outputs as usize);
                copy_short(mine, &mut block.errors[row * mine.len()..][..mine.len()]);
                errors = behind;
            }
        }
    }
}

impl<'data> Block<'data> {
    fn whole(rows: &'data mut LayerRows) -> Self {
        Self { values: &mut rows.values, indices: &mut rows.indices, errors: &mut rows.errors }
    }
}

/// Copies an embedding. Most have eight values; with a known size the copy is not a call.
#[inline(always)]
fn copy_short(from: &[f32], to: &mut [f32]) {
    if let (Ok(from), Ok(to)) = (<&[f32; 8]>::try_from(from), <&mut [f32; 8]>::try_from(&mut *to)) {
        *to = *from;
    } else {
        to.copy_from_slice(from);
    }
}

/// ReLU in place. NaN stays NaN, so that the kernel leaves the row out.
pub fn relu(values: &mut [f32]) {
    dispatch(Relu { values });
}

struct Relu<'data> {
    values: &'data mut [f32],
}

impl WithSimd for Relu<'_> {
    type Output = ();

    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "NaN must stay NaN")]
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for value in self.values {
            *value = keep_if(!(*value < 0.0), *value);
        }
    }
}

/// The number or zero, by a bit mask: a branch becomes a masked store on AVX2, which is slow.
#[inline(always)]
fn keep_if(condition: bool, number: f32) -> f32 {
    f32::from_bits(number.to_bits() & u32::from(condition).wrapping_neg())
}

/// The gradient of the ReLU: errors pass only where the activation is above zero.
struct ReluGradient<'data> {
    errors: &'data mut [f32],
    values: &'data [f32],
}

impl WithSimd for ReluGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (error, &value) in self.errors.iter_mut().zip(self.values) {
            *error = keep_if(value > 0.0, *error);
        }
    }
}

impl Layer<'_> {
    /// The outputs of the layer, before the activation.
    fn forward(&self, values: &[f32], examples: &[Example<'_>], out: &mut [f32]) {
        let outputs = self.shape.outputs as usize;
        let (rest, bias) = self.weights.split_at(self.weights.len() - outputs);
        if self.shape.active == 0 && self.shape.numeric > 0 {
            return self.forward.product(values, out, Initial::Bias(bias));
        }
        let table = &rest[self.shape.numeric as usize * outputs..];
        dispatch(OneHotSum { table, bias, examples, out });
        self.forward.product(values, out, Initial::Existing);
    }

    /// Propagates errors to the inputs of the layer.
    fn back(&self, errors: &[f32], before: &mut [f32]) {
        if let Some(back) = &self.back {
            back.product(errors, before, Initial::Zero);
        }
    }
}

/// The product of one-hot rows with a table: the bias and the weights of each row's indices.
pub struct OneHotSum<'data> {
    /// For each index the weights of all outputs; an index that does not exist is ignored.
    pub table: &'data [f32],
    /// The bias of each output.
    pub bias: &'data [f32],
    /// The rows.
    pub examples: &'data [Example<'data>],
    /// The outputs, row by row.
    pub out: &'data mut [f32],
}

impl WithSimd for OneHotSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { table, bias, examples, out } = self;
        let outputs = bias.len();
        if let [bias] = *bias {
            // A single output is summed in a register; slices of length one would be copied by calls.
            for (example, out) in examples.iter().zip(out) {
                let weights = example.indices.iter().filter_map(|&index| table.get(index as usize));
                *out = weights.fold(bias, |sum, weight| sum + weight);
            }
            return;
        }
        let columns = table.len() / outputs;
        for first in (0..outputs).step_by(OUTPUTS) {
            let some = first..outputs.min(first + OUTPUTS);
            for (example, out) in examples.iter().zip(out.chunks_exact_mut(outputs)) {
                let out = &mut out[some.clone()];
                out.copy_from_slice(&bias[some.clone()]);
                let weights = |index: u32| &table[index as usize * outputs..][some.clone()];
                let mut known = example.indices.iter().copied().filter(|&index| (index as usize) < columns);
                // Two indices at a time, in order: half as many passes over the outputs.
                while let Some(one) = known.next() {
                    let Some(other) = known.next() else {
                        out.iter_mut().zip(weights(one)).for_each(|(out, weight)| *out += weight);
                        break;
                    };
                    let both = weights(one).iter().zip(weights(other));
                    out.iter_mut().zip(both).for_each(|(out, (one, other))| *out = *out + one + other);
                }
            }
        }
    }
}
