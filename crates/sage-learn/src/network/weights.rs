//! The weights of a network, and what it predicts with them.

use std::cell::RefCell;

use sage_kernel::Rows;

use super::pass::{Ready, Room, logistic};
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
    /// A network to start from: the same weights for the same seed, on every machine.
    ///
    /// What a network starts from is public; nothing is gained by keeping it secret. Weights of layers before
    /// a bend are even with a variance of two over the inputs that are not zero in a row, those of the last
    /// layer with half of that; biases, and a network without hidden layers, begin at zero.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let last = shape.layers().len() - 1;
        let embeddings = shape.embeddings();
        let mut parameters = Vec::new();
        for (place, layer) in shape.layers().into_iter().enumerate() {
            let mut weights = vec![0.0; layer.parameters() as usize];
            let active = f64::from(layer.numeric) + f64::from(layer.active);
            let reach = match place {
                _ if shape.hidden().is_empty() && place >= embeddings => 0.0,
                _ if place < embeddings => 0.1,
                _ if place == last => (3.0 / active).sqrt(),
                _ => (6.0 / active).sqrt(),
            };
            let bias = if place < embeddings { 0 } else { layer.outputs as usize };
            let drawn = weights.len() - bias;
            weights[..drawn].fill_with(|| (reach * dice.even()) as f32);
            parameters.push(weights);
        }
        Self { shape, parameters }
    }

    /// A network with these weights; nothing if their numbers do not fit the shape, or one is not finite.
    pub fn from_parameters(shape: Shape, parameters: Vec<Vec<f32>>) -> Option<Self> {
        let layers = shape.layers();
        let sized = layers.len() == parameters.len()
            && layers.iter().zip(&parameters).all(|(layer, weights)| layer.parameters() == weights.len() as u128);
        let network = Self { shape, parameters };
        (sized && network.is_finite()).then_some(network)
    }

    /// The network of labels in these bounds, where this one is of labels moved from there to the range from 0 to 1:
    /// its last layer is stretched. Nothing if it predicts chances, which have no bounds of their own, or if a weight
    /// leaves the range of numbers.
    pub fn stretched(mut self, (low, high): (f64, f64)) -> Option<Self> {
        let last = self.parameters.last_mut().filter(|_| self.shape.loss() == Loss::Squared)?;
        let width = (high - low) as f32;
        last.iter_mut().for_each(|weight| *weight *= width);
        if let Some(bias) = last.last_mut() {
            *bias += low as f32;
        }
        self.is_finite().then_some(self)
    }

    /// What it looks like.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The weights, layer by layer in the order of [`Shape::layers`]; in a layer, for each number, then for
    /// each place, then for the bias, output by output.
    pub fn parameters(&self) -> &[Vec<f32>] {
        &self.parameters
    }

    pub(super) fn parameters_mut(&mut self) -> &mut [Vec<f32>] {
        &mut self.parameters
    }

    fn is_finite(&self) -> bool {
        self.parameters.iter().all(|weights| weights.iter().all(|weight| weight.is_finite()))
    }

    /// What it predicts for one row: a number, or the chance of a label of one.
    ///
    /// A place that does not exist counts as none; what is no number gives no number.
    pub fn forward(&self, example: &Example<'_>) -> f32 {
        self.one_by_one().forward(example)
    }

    /// The network made ready to predict row after row.
    pub fn one_by_one(&self) -> OneByOne<'_> {
        OneByOne { network: self, ready: Ready::forward_only(self), room: RefCell::new(Room::new(self, 1)) }
    }

    /// What it predicts for every row of a batch.
    pub fn predict(&self, rows: &Encoded) -> Vec<f32> {
        let ready = Ready::forward_only(self);
        let mut room = Room::new(self, ROWS);
        let mut predicted = vec![0.0; rows.count()];
        for (block, predicted) in predicted.chunks_mut(ROWS).enumerate() {
            let examples: Vec<Example<'_>> = (0..predicted.len()).map(|place| rows.row(block * ROWS + place)).collect();
            ready.predict(&mut room, &examples, predicted);
        }
        predicted.iter_mut().for_each(|value| *value = self.shown(*value));
        predicted
    }

    fn shown(&self, value: f32) -> f32 {
        match self.shape.loss() {
            Loss::Squared => value,
            Loss::Logistic => logistic(value),
        }
    }

    /// The first place of each embedded field; nothing where places are inputs.
    pub(super) fn field_starts(&self) -> Vec<u32> {
        match self.shape.inputs() {
            Inputs::Direct => Vec::new(),
            Inputs::Embedded { fields, .. } => fields
                .iter()
                .scan(0, |start, &places| {
                    let first = *start;
                    *start += places;
                    Some(first)
                })
                .collect(),
        }
    }
}

/// A network that is ready to predict row after row.
pub struct OneByOne<'network> {
    network: &'network Network,
    ready: Ready<'network>,
    room: RefCell<Room>,
}

impl OneByOne<'_> {
    /// As [`Network::forward`].
    pub fn forward(&self, example: &Example<'_>) -> f32 {
        let mut predicted = [0.0];
        self.ready.predict(&mut self.room.borrow_mut(), &[*example], &mut predicted);
        self.network.shown(predicted[0])
    }
}

/// A public sequence of numbers for weights to start from. It has no part in any noise.
struct Dice(u64);

impl Dice {
    /// An even number from minus one to one, by the generator known as SplitMix64.
    fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
