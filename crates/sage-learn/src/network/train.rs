//! Training: steps of noisy gradients, and what they do to the weights.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Session, SessionError};
use sage_numerics::{balanced_chunks, dispatch, map_parallel};

use super::pass::Ready;
use super::plan::Plan;
use super::weights::Network;
use crate::encode::Encoded;

/// How far a step goes, over the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rates {
    /// Always as far.
    Constant(f64),
    /// Shorter by a factor after every so many steps.
    Stepwise {
        /// At first.
        start: f64,
        /// What it is multiplied with.
        factor: f64,
        /// After so many steps.
        every: u32,
    },
    /// Falling along half a cosine, to zero after the last step.
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

/// What is done with the noisy gradients. All of it is public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// How far steps go.
    pub rates: Rates,
    /// How much of the last step's direction is kept, from zero to below one.
    pub momentum: f64,
    /// How strongly weights are drawn to zero.
    pub decay: f64,
    /// Threads to use; they change no result.
    pub threads: usize,
}

/// The weights left the range of numbers: the steps are too long for this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// The step after which a weight was no finite number.
    pub step: u32,
}

/// Why there is no trained network. What was charged stays charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainError {
    /// The kernel refused a step.
    Session(SessionError),
    /// A weight was no finite number any more.
    Diverged(Diverged),
    /// A parameter of the training is no number or out of range; the text says which.
    Parameter(&'static str),
    /// Whoever looked on had it stopped before this step.
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
                "training diverged: after step {step} a weight was no finite number; take a smaller learning rate, \
                 a smaller clip or less momentum"
            ),
            Self::Parameter(text) => out.write_str(text),
            Self::Stopped { step } => write!(out, "training was stopped before step {step}"),
        }
    }
}

impl std::error::Error for TrainError {}

/// Trains a network on a lane of the session's rows, by the steps that were planned.
///
/// A lane without rows gives a network of noise, as any other answer would tell of it. Rows that hold
/// anything but finite numbers, or whose predictions leave the range of numbers, are left out of a step by
/// the kernel, so weights stay finite unless steps are far too long. When they are, the training stops: the
/// weights are public, so that it stopped tells nothing of a row, and a clamped network would only look
/// trained.
///
/// # Errors
/// When the charge does not cover a step, a parameter is out of range, or the weights diverge.
pub fn train<N: NoiseSource>(
    session: &mut Session<Encoded, N>, lane: Lane, plan: &Plan, training: &Training, network: Network,
) -> Result<Network, TrainError> {
    train_while(session, lane, plan, training, network, &mut |_| true)
}

/// As [`train`], as long as whoever looks on lets it go on: asked before each step, with its number from zero.
///
/// # Errors
/// As [`train`], and when it was stopped. Steps that were done are spent, and their network is given to nobody.
pub fn train_while<N: NoiseSource>(
    session: &mut Session<Encoded, N>, lane: Lane, plan: &Plan, training: &Training, mut network: Network,
    goes_on: &mut dyn FnMut(u32) -> bool,
) -> Result<Network, TrainError> {
    check(training)?;
    session.use_threads(training.threads);
    let layers = network.shape().layers();
    let mut pace: Vec<Vec<f32>> = network.parameters().iter().map(|weights| vec![0.0; weights.len()]).collect();
    let mut spare = Default::default();
    for step in 0..plan.steps() {
        if !goes_on(step) {
            return Err(TrainError::Stopped { step });
        }
        let ready = Ready::both_ways(&network, &mut spare, training.threads);
        let sums = session.sampled_sum(lane, plan.step(), &layers, |sample, filled| {
            ready.backward(sample, filled);
        });
        ready.leave(&mut spare);
        let sums = sums.map_err(TrainError::Session)?;
        let share = (1.0 / plan.expected()) as f32;
        let rate = training.rates.at(step, plan.steps()) as f32;
        let update = Update { rate, share, momentum: training.momentum as f32, decay: training.decay as f32 };
        if !update.apply(network.parameters_mut(), &mut pace, &sums, training.threads) {
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

/// How a noisy sum moves weights.
#[derive(Clone, Copy)]
struct Update {
    rate: f32,
    /// One over the expected number of rows.
    share: f32,
    momentum: f32,
    decay: f32,
}

/// Weights that are moved by one thread after the other, at most.
const PIECE: usize = 1 << 15;

/// Weights, their pace and the sums that move them.
struct Piece<'data> {
    update: Update,
    weights: &'data mut [f32],
    pace: &'data mut [f32],
    sums: &'data [f32],
}

impl Update {
    /// Moves all weights; false if one is no finite number afterwards.
    fn apply(self, weights: &mut [Vec<f32>], pace: &mut [Vec<f32>], sums: &[Vec<f32>], threads: usize) -> bool {
        let mut pieces = Vec::new();
        for ((weights, pace), sums) in weights.iter_mut().zip(pace).zip(sums) {
            let parts = weights.chunks_mut(PIECE).zip(pace.chunks_mut(PIECE)).zip(sums.chunks(PIECE));
            pieces.extend(parts.map(|((weights, pace), sums)| Piece { update: self, weights, pace, sums }));
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
        let Self { update, weights, pace, sums } = self;
        let mut finite = true;
        for ((weight, pace), sum) in weights.iter_mut().zip(pace).zip(sums) {
            *pace = update.momentum * *pace + sum * update.share + update.decay * *weight;
            *weight -= update.rate * *pace;
            finite &= weight.is_finite();
        }
        finite
    }
}
