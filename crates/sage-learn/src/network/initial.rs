//! The initial network of a training by noisy steps, and the public scale of its gradients.
//!
//! A training under privacy has few steps' worth of signal, so it starts at the best constant that is known, and with
//! layers that all learn. Everything here follows from the shape alone.

use super::shape::{Inputs, Shape};
use super::weights::Network;

/// How much more of the squared gradient the layers before the last one get than the last one. Below one, a network is
/// a linear model of random features; far above, it is additive in its inputs until late in a training.
const EARLIER_SHARE: f64 = 4.0;

/// The expected squares of the parts of the gradient of a network's output, for [`Network::new`].
struct GradientParts {
    /// Of the last layer.
    last: f64,
    /// Of all other layers, with output weights that are not rescaled.
    earlier: f64,
}

impl Shape {
    /// With He initialisation the squared norm of a layer's values is its width times the mean square of its inputs, and
    /// the squared norm of the errors stays half of that of the output weights, which is one.
    fn gradient_parts(&self) -> GradientParts {
        let layout = self.layout();
        // Numbers are taken as uniform over their span.
        let mut square = f64::from(layout.active) + f64::from(layout.numbers) / 3.0;
        let mut active = f64::from(layout.active) + f64::from(layout.numbers);
        if let Inputs::Embedded { width, .. } = self.inputs() {
            active = f64::from(layout.numbers) + f64::from(layout.active) * f64::from(*width);
        }
        let mut earlier = 0.0;
        for &width in self.hidden() {
            earlier += 0.5 * (square + 1.0);
            square *= f64::from(width) / active.max(1.0);
            active = f64::from(width);
        }
        GradientParts { last: square + 1.0, earlier }
    }

    /// The factor by which [`Network::centred`] scales the output weights.
    fn output_gain(&self) -> f64 {
        let GradientParts { last, earlier } = self.gradient_parts();
        if earlier > 0.0 { (EARLIER_SHARE * last / earlier).sqrt() } else { 1.0 }
    }

    /// The typical L2 norm of the gradient of an output of the last layer by all weights, at [`Network::centred`]. The
    /// gradient of a row's loss is this times its error, or the norm of its errors if there are several outputs.
    pub fn gradient_norm(&self) -> f64 {
        let GradientParts { last, earlier } = self.gradient_parts();
        let gain = self.output_gain();
        (last + gain * gain * earlier).sqrt()
    }
}

impl Network {
    /// An untrained network whose last layer has these outputs for every row.
    ///
    /// The units of the last hidden layer are pairs with equal inputs and opposite output weights, which cancel until
    /// they are trained apart. Output weights are scaled up so that the earlier layers learn too. The same weights for
    /// the same seed, on every machine.
    pub fn centred(shape: Shape, seed: u64, outputs: &[f64]) -> Self {
        let gain = shape.output_gain() as f32;
        let (mut network, each) = (Self::new(shape, seed), outputs.len());
        let Some((last, before)) = network.parameters_mut().split_last_mut() else { return network };
        let Some((weights, biases)) = last.len().checked_sub(each).map(|weights| last.split_at_mut(weights)) else {
            return network;
        };
        biases.iter_mut().zip(outputs).for_each(|(bias, output)| *bias = *output as f32);
        let width = weights.len() / each.max(1);
        let half = width / 2;
        let Some(hidden) = before.last_mut().filter(|_| half > 0) else { return network };
        for units in hidden.chunks_exact_mut(width) {
            units.copy_within(..half, half);
        }
        weights.iter_mut().for_each(|weight| *weight *= gain);
        weights.copy_within(..half * each, half * each);
        weights[half * each..2 * half * each].iter_mut().for_each(|weight| *weight = -*weight);
        // The unit without a partner starts without influence.
        weights[2 * half * each..].fill(0.0);
        network
    }
}
