//! The weights of a network, and its predictions.

use std::cell::RefCell;

use sage_kernel::Rows;

use super::pass::{Buffers, PackedNetwork, logistic, softmax};
use super::shape::{Inputs, Loss, Shape};
use crate::encode::{Encoded, Example};

/// Rows that are predicted together.
const ROWS: usize = 96;

/// A network with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    shape: Shape,
    parameters: Vec<Vec<f32>>,
}

impl Network {
    /// An untrained network: the same weights for the same seed, on every machine.
    ///
    /// The initial weights are public. Weights of layers before a ReLU are uniform with a variance of two over the
    /// number of active inputs (He initialisation), those of the last layer with half of that; biases, and a network
    /// without hidden layers, start at zero.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let last = shape.layers().len() - 1;
        let embeddings = shape.embeddings();
        let mut parameters = Vec::new();
        for (index, layer) in shape.layers().into_iter().enumerate() {
            let mut weights = vec![0.0; layer.parameters() as usize];
            let active = f64::from(layer.numeric) + f64::from(layer.active);
            let reach = match index {
                _ if shape.hidden().is_empty() && index >= embeddings => 0.0,
                _ if index < embeddings => 0.1,
                _ if index == last => (3.0 / active).sqrt(),
                _ => (6.0 / active).sqrt(),
            };
            let bias = if index < embeddings { 0 } else { layer.outputs as usize };
            let drawn = weights.len() - bias;
            weights[..drawn].fill_with(|| (reach * random.uniform()) as f32);
            parameters.push(weights);
        }
        Self { shape, parameters }
    }

    /// A network with these weights; `None` if they do not fit the shape, or one is not finite.
    pub fn from_parameters(shape: Shape, parameters: Vec<Vec<f32>>) -> Option<Self> {
        let layers = shape.layers();
        let sized = layers.len() == parameters.len()
            && layers.iter().zip(&parameters).all(|(layer, weights)| layer.parameters() == weights.len() as u128);
        let network = Self { shape, parameters };
        (sized && network.is_finite()).then_some(network)
    }

    /// Rescales the last layer from labels normalised to [0, 1] to labels in these bounds. `None` if the network
    /// predicts probabilities, or if a weight overflows.
    pub fn rescaled(mut self, (low, high): (f64, f64)) -> Option<Self> {
        let last = self.parameters.last_mut().filter(|_| self.shape.loss() == Loss::Squared)?;
        let width = (high - low) as f32;
        last.iter_mut().for_each(|weight| *weight *= width);
        if let Some(bias) = last.last_mut() {
            *bias += low as f32;
        }
        self.is_finite().then_some(self)
    }

    /// The same network with the outputs of its last layer multiplied by a slope, plus an intercept each. Itself if a
    /// weight overflows.
    pub(super) fn corrected(&self, slope: f64, intercepts: &[f64]) -> Self {
        let mut network = self.clone();
        if let Some(last) = network.parameters.last_mut() {
            last.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * slope) as f32);
            let biases = last.iter_mut().rev().zip(intercepts.iter().rev());
            biases.for_each(|(bias, intercept)| *bias = (f64::from(*bias) + intercept) as f32);
        }
        if network.is_finite() { network } else { self.clone() }
    }

    /// Its shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The weights, layer by layer in the order of [`Shape::layers`]; in a layer for each number, then for each
    /// one-hot index, then the bias, output by output.
    pub fn parameters(&self) -> &[Vec<f32>] {
        &self.parameters
    }

    pub(super) fn parameters_mut(&mut self) -> &mut [Vec<f32>] {
        &mut self.parameters
    }

    fn is_finite(&self) -> bool {
        self.parameters.iter().all(|weights| weights.iter().all(|weight| weight.is_finite()))
    }

    /// The prediction for one row: a number, the probability of a label of one, or the probability of the first class.
    ///
    /// A one-hot index that does not exist is ignored; NaN gives NaN.
    pub fn forward(&self, example: &Example<'_>) -> f32 {
        self.row_predictor().forward(example)
    }

    /// Packs the network to predict row after row.
    pub fn row_predictor(&self) -> RowPredictor<'_> {
        RowPredictor {
            network: self,
            packed: PackedNetwork::for_prediction(self),
            buffers: RefCell::new(Buffers::new(self, 1)),
        }
    }

    /// The predictions for every row of a batch, row after row: one for each output.
    pub fn predict(&self, rows: &Encoded) -> Vec<f32> {
        let packed = PackedNetwork::for_prediction(self);
        let mut buffers = Buffers::new(self, ROWS);
        let outputs = self.shape.loss().outputs() as usize;
        let mut predicted = vec![0.0; rows.count() * outputs];
        for (block, predicted) in predicted.chunks_mut(ROWS * outputs).enumerate() {
            let count = predicted.len() / outputs;
            let examples: Vec<Example<'_>> = (0..count).map(|index| *rows.row(block * ROWS + index)).collect();
            packed.predict(&mut buffers, &examples, predicted);
        }
        predicted.chunks_exact_mut(outputs).for_each(|outputs| self.activate(outputs));
        predicted
    }

    /// The prediction for a row, in place of the last layer's outputs.
    fn activate(&self, outputs: &mut [f32]) {
        match self.shape.loss() {
            Loss::Squared => {}
            Loss::Logistic => outputs.iter_mut().for_each(|value| *value = logistic(*value)),
            Loss::Softmax { .. } => softmax(outputs),
        }
    }

    /// The first one-hot index of each embedded field; empty if there are no embeddings.
    pub(super) fn field_starts(&self) -> Vec<u32> {
        match self.shape.inputs() {
            Inputs::Direct => Vec::new(),
            Inputs::Embedded { fields, .. } => fields
                .iter()
                .scan(0, |start, &categories| {
                    let first = *start;
                    *start += categories;
                    Some(first)
                })
                .collect(),
        }
    }
}

/// A network that is packed to predict row after row.
pub struct RowPredictor<'network> {
    network: &'network Network,
    packed: PackedNetwork<'network>,
    buffers: RefCell<Buffers>,
}

impl RowPredictor<'_> {
    /// As [`Network::forward`].
    pub fn forward(&self, example: &Example<'_>) -> f32 {
        let mut predicted = [0.0];
        if self.network.shape.loss().outputs() == 1 {
            self.predict(example, &mut predicted);
            return predicted[0];
        }
        let mut predicted = vec![0.0; self.network.shape.loss().outputs() as usize];
        self.predict(example, &mut predicted);
        predicted[0]
    }

    /// Writes the predictions for one row: as many numbers as the network has outputs.
    pub fn predict(&self, example: &Example<'_>, predicted: &mut [f32]) {
        self.outputs(example, predicted);
        self.network.activate(predicted);
    }

    /// Writes the outputs of the last layer: the prediction before the logistic function or the softmax, if the network
    /// has one.
    pub(super) fn outputs(&self, example: &Example<'_>, predicted: &mut [f32]) {
        self.packed.predict(&mut self.buffers.borrow_mut(), &[*example], predicted);
    }
}

/// A public pseudo-random sequence for initial weights. It is not used for noise.
struct SplitMix64(u64);

impl SplitMix64 {
    /// A uniform number from minus one to one, by SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
