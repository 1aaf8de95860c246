//! Training: noisy gradient steps and the optimizer.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Session, SessionError};
use sage_numerics::{balanced_chunks, dispatch, map_parallel};

use super::pass::PackedNetwork;
use super::plan::Plan;
use super::weights::Network;
use crate::encode::Encoded;

/// The learning rate over a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rates {
    /// Constant.
    Constant(f64),
    /// Multiplied by a factor after every `every` steps.
    Stepwise {
        /// The first learning rate.
        start: f64,
        /// The factor.
        factor: f64,
        /// The number of steps between reductions.
        every: u32,
    },
    /// Falls along half a cosine, to zero after the last step.
    Cosine(f64),
}

impl Rates {
    fn at(self, step: u32, steps: u32) -> f64 {
        match self {
            Self::Constant(rate) => rate,
            Self::Stepwise { start, factor, every } => start * factor.powi((step / every.max(1)) as i32),
            Self::Cosine(start) => {
                start * 0.5 * (1.0 + libm::cos(std::f64::consts::PI * f64::from(step) / f64::from(steps.max(1))))
            }
        }
    }
}

/// The public parameters of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The learning rates.
    pub rates: Rates,
    /// The momentum, from zero to below one.
    pub momentum: f64,
    /// The weight decay.
    pub decay: f64,
    /// Number of threads; it does not change the result.
    pub threads: usize,
}

/// A weight became NaN or infinite: the learning rate is too large for this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// The step after which a weight was not finite.
    pub step: u32,
}

/// Why training failed. The charge is not refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainError {
    /// The kernel refused a step.
    Session(SessionError),
    /// A weight became NaN or infinite.
    Diverged(Diverged),
    /// A parameter of the training is NaN or out of range; the text names it.
    Parameter(&'static str),
    /// The caller stopped it before this step.
    Stopped {
        /// The step, the first of which is zero.
        step: u32,
    },
}

impl std::fmt::Display for TrainError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(error) => error.fmt(out),
            Self::Diverged(Diverged { step }) => write!(
                out,
                "training diverged: after step {step} a weight was not finite; use a smaller learning rate, \
                 a smaller clip or less momentum"
            ),
            Self::Parameter(text) => out.write_str(text),
            Self::Stopped { step } => write!(out, "training was stopped before step {step}"),
        }
    }
}

impl std::error::Error for TrainError {}

/// Trains a network on a lane of the session's rows with the planned steps.
///
/// A lane without rows returns a network of noise; any other result would reveal that it is empty. The kernel
/// leaves rows with non-finite values or predictions out of a step, so weights stay finite unless the learning
/// rate is far too large. If they do not, training stops with an error: the weights are public, so stopping
/// reveals nothing about a row, and a clamped network would only look trained.
///
/// # Errors
/// When the charge does not cover a step, a parameter is out of range, or the weights diverge.
pub fn train<N: NoiseSource>(
    session: &mut Session<Encoded, N>, lane: Lane, plan: &Plan, training: &Training, network: Network,
) -> Result<Network, TrainError> {
    train_while(session, lane, plan, training, network, &mut |_| true)
}

/// Like [`train`], but stops as soon as `keep_going` returns false; it is called before each step with its index.
///
/// # Errors
/// As [`train`], and if it was stopped. The steps done so far stay charged, and the network is discarded.
pub fn train_while<N: NoiseSource>(
    session: &mut Session<Encoded, N>, lane: Lane, plan: &Plan, training: &Training, mut network: Network,
    keep_going: &mut dyn FnMut(u32) -> bool,
) -> Result<Network, TrainError> {
    check(training)?;
    session.use_threads(training.threads);
    let layers = network.shape().layers();
    let mut velocity: Vec<Vec<f32>> = network.parameters().iter().map(|weights| vec![0.0; weights.len()]).collect();
    let mut spare = Default::default();
    for step in 0..plan.steps() {
        if !keep_going(step) {
            return Err(TrainError::Stopped { step });
        }
        let packed = PackedNetwork::for_training(&network, &mut spare, training.threads);
        let sums = session.sampled_sum(lane, plan.step(), &layers, |sample, filled| {
            packed.backward(sample, filled);
        });
        packed.recycle(&mut spare);
        let sums = sums.map_err(TrainError::Session)?;
        let share = (1.0 / plan.expected()) as f32;
        let rate = training.rates.at(step, plan.steps()) as f32;
        let update = Update { rate, share, momentum: training.momentum as f32, decay: training.decay as f32 };
        if !update.apply(network.parameters_mut(), &mut velocity, &sums, training.threads) {
            return Err(TrainError::Diverged(Diverged { step }));
        }
    }
    Ok(network)
}

fn check(training: &Training) -> Result<(), TrainError> {
    let (start, factor) = match training.rates {
        Rates::Constant(start) | Rates::Cosine(start) => (start, 1.0),
        Rates::Stepwise { start, factor, .. } => (start, factor),
    };
    if !(start > 0.0 && start.is_finite() && factor > 0.0 && factor <= 1.0) {
        return Err(TrainError::Parameter("a learning rate is a finite number above zero, and its factor at most one"));
    }
    if !(0.0..1.0).contains(&training.momentum) {
        return Err(TrainError::Parameter("momentum is from zero to below one"));
    }
    if !(training.decay >= 0.0 && training.decay.is_finite()) {
        return Err(TrainError::Parameter("weight decay is a finite number, zero or more"));
    }
    Ok(())
}

/// One optimizer step.
#[derive(Clone, Copy)]
struct Update {
    rate: f32,
    /// One over the expected number of rows.
    share: f32,
    momentum: f32,
    decay: f32,
}

/// Maximum number of weights in one work item.
const PIECE: usize = 1 << 15;

/// Weights, their momentum and the noisy sums.
struct Piece<'data> {
    update: Update,
    weights: &'data mut [f32],
    velocity: &'data mut [f32],
    sums: &'data [f32],
}

impl Update {
    /// Updates all weights; returns false if one is not finite afterwards.
    fn apply(self, weights: &mut [Vec<f32>], velocity: &mut [Vec<f32>], sums: &[Vec<f32>], threads: usize) -> bool {
        let mut pieces = Vec::new();
        for ((weights, velocity), sums) in weights.iter_mut().zip(velocity).zip(sums) {
            let parts = weights.chunks_mut(PIECE).zip(velocity.chunks_mut(PIECE)).zip(sums.chunks(PIECE));
            pieces.extend(parts.map(|((weights, velocity), sums)| Piece { update: self, weights, velocity, sums }));
        }
        let total: usize = pieces.iter().map(|piece| piece.weights.len()).sum();
        let chunks = balanced_chunks(pieces, threads.min(1 + total / (2 * PIECE)), |piece| piece.weights.len());
        let finite =
            map_parallel(chunks, |chunk| chunk.into_iter().fold(true, |finite, piece| dispatch(piece) & finite));
        finite.into_iter().all(|finite| finite)
    }
}

impl pulp::WithSimd for Piece<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> bool {
        let Self { update, weights, velocity, sums } = self;
        let mut finite = true;
        for ((weight, velocity), sum) in weights.iter_mut().zip(velocity).zip(sums) {
            *velocity = update.momentum * *velocity + sum * update.share + update.decay * *weight;
            *weight -= update.rate * *velocity;
            finite &= weight.is_finite();
        }
        finite
    }
}
