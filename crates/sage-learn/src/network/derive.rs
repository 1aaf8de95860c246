//! Hyper-parameters of DP-SGD that follow from public and released values.
//!
//! Under a fixed budget the noise in the mean gradient depends on the number of steps and hardly on the batch, once the
//! noise multiplier is above about two; and the noise that all steps together add to a prediction depends on the training
//! time alone, not on the number of steps. So the time comes first, from [`SignalAndNoise`]. The number of steps follows
//! from the largest stable step, the batch from the noise multiplier, the clip from the norm of a typical gradient, and
//! the learning rate from time, steps and that norm. What is decided before a charge uses the planned number of rows;
//! everything else uses the charge and the released moments of the labels, so that a process that
//! performs a training charged by another one derives the same settings.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Rate, Session, Sigma, Step, TableNoise};

use super::calibrate::{LabelMoments, Scale, calibrate};
use super::classes::{ClassShares, calibrate_classes, calibration_width};
use super::duration::SignalAndNoise;
use super::plan::Plan;
use super::shape::{Loss, Shape};
use super::train::{Rates, TrainError, Training, train_while};
use super::weights::Network;
use crate::encode::Encoded;
use crate::validate::LabelSums;

/// How the learning rate changes over a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateSchedule {
    /// It does not change.
    Constant,
    /// It falls along half a cosine, to zero after the last step.
    Cosine,
    /// It is multiplied by a factor after a fixed number of steps.
    Stepwise {
        /// The factor.
        factor: f64,
        /// The steps.
        every: u32,
    },
}

/// Hyper-parameters; `None` where they are derived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyperparameters {
    /// Passes over the rows.
    pub epochs: Option<f64>,
    /// Rows of a step, on average.
    pub batch: Option<u32>,
    /// The learning rate.
    pub learning_rate: Option<f64>,
    /// How it changes.
    pub schedule: RateSchedule,
    /// The momentum, from 0 to below 1.
    pub momentum: f64,
    /// The weight decay.
    pub decay: f64,
    /// The norm to which the gradient of a row is clipped.
    pub clip: Option<f64>,
}

/// The variance of predictions that a good model is assumed to explain: in logits, or as a share of the label's
/// variance.
const SIGNAL: f64 = 0.5;
/// The clip for the squared loss, in standard deviations of the label: most rows of a fair model have smaller errors.
/// Errors of the logistic loss are at most one and are not clipped.
const CLIP_DEVIATIONS: f64 = 2.0;
/// The clip for the cross-entropy of several classes. The errors of a row have at most the norm √2.
const CLIP_CLASSES: f64 = 1.0;
/// The training time of one step, times the curvature of the loss, as planned and at most.
const STEP_TIME: (f64, f64) = (2.0, 4.0);
/// The limits of the number of steps. Fewer are too few for momentum; more take long for little.
const STEPS: (f64, f64) = (64.0, 1024.0);
/// The noise multiplier from which on a larger batch hardly reduces the noise in the mean gradient.
const ENOUGH_SIGMA: f64 = 2.0;
/// The smallest batch: the sampling error of its mean gradient is well below the noise.
const LEAST_BATCH: f64 = 4096.0;
/// From this batch on, more passes over the rows than `PASSES` are not worth their time.
const LARGE_BATCH: f64 = 16_384.0;
const PASSES: f64 = 8.0;
/// The error of the label's mean that the two releases around the steps may have.
const MEAN_ERROR: f64 = 0.02;
/// The limits of the shares of the budget that they get for it.
const MOMENTS_SHARE: (f64, f64) = (0.01, 0.2);
const CALIBRATION_SHARE: (f64, f64) = (0.02, 0.2);
/// The number of sums that the calibration adds up.
const CALIBRATION_SUMS: f64 = 32.0;
/// The noise multiplier of the calibration of several classes that leaves an error of a few hundredths, as a share of the
/// rows.
const CLASS_CALIBRATION_NOISE: f64 = 7.5e-4;
/// Label means are taken as from this to one minus this.
const LEAST_MEAN: f64 = 0.005;
/// The seed of initial weights: public, and the same for all trainings.
const SEED: u64 = 1;

/// What is decided before a training is charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepPlan {
    /// The number of steps.
    pub steps: u32,
    /// The share of the rows that a step samples.
    pub share: f64,
    /// The expected rows of a step.
    pub batch: f64,
    /// The share of the budget for the label's moments.
    pub moments_share: f64,
    /// The share of the budget for the calibration.
    pub calibration_share: f64,
}

/// The noise of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationNoise {
    /// Of a table of labels by prediction, for one output.
    Table(TableNoise),
    /// Of a sum of vectors, for several classes.
    Vector(Sigma),
}

/// A charged training: a table, the steps, the calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChargedSteps {
    /// The noise of the label's moments, or of the shares of the classes.
    pub moments: TableNoise,
    /// The sampling rate of a step.
    pub rate: Rate,
    /// The noise multiplier of a step.
    pub sigma: Sigma,
    /// The number of steps.
    pub steps: u32,
    /// The noise of the calibration.
    pub calibration: CalibrationNoise,
}

impl CalibrationNoise {
    /// What a calibration of this network with this noise is charged; `None` if the noise has no price.
    pub fn mechanism(self, shape: &Shape) -> Option<Mechanism> {
        match self {
            Self::Table(noise) => noise.mechanism().ok(),
            Self::Vector(sigma) => {
                let coordinates = calibration_width(shape.loss().outputs());
                Some(Mechanism::Gaussian { sigma, coordinates, count: 1 })
            }
        }
    }
}

impl ChargedSteps {
    /// What to charge, in the order of use; `None` if a noise has no price.
    pub fn mechanisms(&self, shape: &Shape) -> Option<Vec<Mechanism>> {
        let Self { moments, rate, sigma, steps, calibration } = *self;
        let steps = Mechanism::SampledGaussian { rate, sigma, coordinates: shape.parameters(), steps };
        Some(vec![moments.mechanism().ok()?, steps, calibration.mechanism(shape)?])
    }
}

/// What is released about the labels before a training.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelSummary {
    /// Their moments, for one output.
    Moments(LabelMoments),
    /// The shares of the classes.
    Shares(ClassShares),
}

/// What is decided in a session, from the charge and the label's summary.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedSettings {
    /// The norm to which the gradient of a row is clipped.
    pub clip: f64,
    /// The first learning rate.
    pub learning_rate: f64,
    /// The divisor of a step: the expected number of its rows.
    pub batch: f64,
    /// The outputs of the best constant, where training starts.
    pub centres: Vec<f64>,
    /// The distance of outputs from it that is typical for good predictions.
    pub reach: f64,
}

/// What the length of a training depends on, besides noise and inputs.
struct LossFacts {
    /// The second derivatives of the loss by the outputs, in independent directions, in ascending order.
    curvatures: Vec<f64>,
    /// The variance of outputs that a good model is assumed to explain, in each of them.
    signal: f64,
    /// The size of the error of a row at which its gradient is clipped.
    clip: f64,
}

impl LossFacts {
    /// Before anything is released. In standard deviations of the label the squared loss needs no knowledge of the label.
    fn planned(loss: Loss) -> Self {
        match loss {
            Loss::Squared => Self { curvatures: vec![1.0], signal: SIGNAL, clip: CLIP_DEVIATIONS },
            Loss::Logistic => Self { curvatures: vec![0.25], signal: SIGNAL, clip: 1.0 },
            Loss::Softmax { classes } => Self::of_classes(&ClassShares::equal(classes, 1.0)),
        }
    }

    fn of_moments(loss: Loss, mean: f64, deviation: f64) -> Self {
        match loss {
            Loss::Squared => {
                let signal = SIGNAL * deviation * deviation;
                Self { curvatures: vec![1.0], signal, clip: CLIP_DEVIATIONS * deviation }
            }
            Loss::Logistic | Loss::Softmax { .. } => {
                Self { curvatures: vec![(mean * (1.0 - mean)).max(0.05)], signal: SIGNAL, clip: 1.0 }
            }
        }
    }

    /// The difference of two outputs varies twice as much as one output.
    fn of_classes(known: &ClassShares) -> Self {
        Self { curvatures: known.curvatures(), signal: 0.5 * SIGNAL, clip: CLIP_CLASSES }
    }

    /// The best training time under this noise per unit of time.
    fn best_time(&self, inputs: u32, noise: f64) -> f64 {
        let facts = |&curvature: &f64| SignalAndNoise { inputs, curvature, signal: self.signal, noise };
        SignalAndNoise::common_time(&self.curvatures.iter().map(facts).collect::<Vec<_>>())
    }

    /// The largest curvature, which limits a step.
    fn steepest(&self) -> f64 {
        self.curvatures.last().copied().unwrap_or(1.0)
    }
}

impl Hyperparameters {
    /// Everything is derived.
    pub const DERIVED: Self = Self {
        epochs: None,
        batch: None,
        learning_rate: None,
        schedule: RateSchedule::Cosine,
        momentum: 0.9,
        decay: 0.0,
        clip: None,
    };

    /// The steps for a public number of rows and a budget, given as the noise multiplier of one release that costs all
    /// of it.
    pub fn plan_steps(&self, shape: &Shape, rows: f64, budget_sigma: f64) -> StepPlan {
        let facts = LossFacts::planned(shape.loss());
        let time = facts.best_time(shape.layout().inputs(), facts.clip * budget_sigma / rows);
        let steps = (time * facts.steepest() / STEP_TIME.0).clamp(STEPS.0, STEPS.1).round();
        let enough = (ENOUGH_SIGMA / (budget_sigma * steps.sqrt())).min((PASSES / steps).max(LARGE_BATCH / rows));
        let derived = enough.max(LEAST_BATCH / rows).min(1.0);
        let (steps, share) = match (self.epochs, self.batch.map(f64::from)) {
            (None, None) => (steps, derived),
            (None, Some(batch)) => (steps, batch / rows),
            (Some(epochs), None) => (steps.max(epochs), epochs / steps.max(epochs)),
            (Some(epochs), Some(batch)) => (epochs * rows / batch, batch / rows),
        };
        let share = share.min(1.0);
        // The share of the budget with which one sum over the rows is known to this many rows.
        let budget_share = |error: f64, (least, most): (f64, f64)| (budget_sigma / error).powi(2).clamp(least, most);
        StepPlan {
            steps: steps.round().clamp(1.0, f64::from(u32::MAX)) as u32,
            share,
            batch: share * rows,
            moments_share: budget_share(MEAN_ERROR * rows, MOMENTS_SHARE),
            calibration_share: budget_share(calibration_noise(shape) * rows, CALIBRATION_SHARE),
        }
    }

    /// The settings of a charged training for labels with this released summary.
    pub fn settings(&self, shape: &Shape, charged: &ChargedSteps, labels: &LabelSummary) -> DerivedSettings {
        let (rows, centres, reach, facts) = match labels {
            LabelSummary::Moments(LabelMoments { rows, mean, deviation }) => {
                let mean = mean.clamp(LEAST_MEAN, 1.0 - LEAST_MEAN);
                let (centre, reach) = match shape.loss() {
                    Loss::Squared => (mean, *deviation),
                    Loss::Logistic | Loss::Softmax { .. } => (libm::log(mean / (1.0 - mean)), 1.0),
                };
                (*rows, vec![centre], reach, LossFacts::of_moments(shape.loss(), mean, *deviation))
            }
            LabelSummary::Shares(shares) => (shares.rows, shares.centres(), 1.0, LossFacts::of_classes(shares)),
        };
        let norm = shape.gradient_norm();
        let clip = self.clip.unwrap_or(facts.clip * norm);
        let batch = charged.rate.units() as f64 / Rate::LIMIT.units() as f64 * rows;
        let steps = f64::from(charged.steps);
        let noise = charged.sigma.units() as f64 / 1e9 * (clip / norm) / (batch * steps.sqrt());
        let time = facts.best_time(shape.layout().inputs(), noise).min(STEP_TIME.1 * steps / facts.steepest());
        let average = time / (steps * norm * norm) * (1.0 - self.momentum);
        let highest = match self.schedule {
            // The mean of half a cosine is half of its start.
            RateSchedule::Cosine => 2.0 * average,
            RateSchedule::Constant | RateSchedule::Stepwise { .. } => average,
        };
        DerivedSettings { clip, learning_rate: self.learning_rate.unwrap_or(highest), batch, centres, reach }
    }

    /// Performs a charged training: releases the label's summary, trains from the best constant, and calibrates. The
    /// sums of the labels are returned with the network, unless there are several classes. It stops as soon as
    /// `keep_going` returns false, which is called before each step with its index.
    ///
    /// # Errors
    /// As [`train_while`].
    pub fn train<N: NoiseSource>(
        &self, session: &mut Session<Encoded, N>, lane: Lane, shape: Shape, charged: &ChargedSteps, threads: usize,
        keep_going: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(Network, Option<LabelSums>), TrainError> {
        let (labels, sums) = match shape.loss() {
            Loss::Softmax { classes } => {
                let shares = ClassShares::release(session, lane, classes, charged.moments);
                (LabelSummary::Shares(shares.map_err(TrainError::Session)?), None)
            }
            Loss::Squared | Loss::Logistic => {
                let sums = LabelSums::release(session, lane, charged.moments, |row| Some(f64::from(row.label)));
                let sums = sums.map_err(TrainError::Session)?;
                (LabelSummary::Moments(LabelMoments::new(&sums)), Some(sums))
            }
        };
        let settings = self.settings(&shape, charged, &labels);
        let step = Step { rate: charged.rate, sigma: charged.sigma, clip: settings.clip };
        let plan = Plan::with_noise(&shape, step, charged.steps, settings.batch);
        let plan = plan.map_err(|_| TrainError::Parameter("a training has at least one step and one row"))?;
        let start = settings.learning_rate;
        let rates = match self.schedule {
            RateSchedule::Constant => Rates::Constant(start),
            RateSchedule::Cosine => Rates::Cosine(start),
            RateSchedule::Stepwise { factor, every } => Rates::Stepwise { start, factor, every },
        };
        let training = Training { rates, momentum: self.momentum, decay: self.decay, threads };
        let start = Network::centred(shape, SEED, &settings.centres);
        let network = train_while(session, lane, &plan, &training, start, keep_going)?;
        let calibrated = match (labels, charged.calibration) {
            (LabelSummary::Shares(shares), CalibrationNoise::Vector(sigma)) => {
                calibrate_classes(session, lane, sigma, &shares, network)
            }
            (LabelSummary::Moments(_), CalibrationNoise::Table(noise)) => {
                let scale = Scale { centre: settings.centres[0], reach: settings.reach };
                calibrate(session, lane, noise, scale, network)
            }
            _ => return Err(TrainError::Parameter("the charge has the calibration of another loss")),
        };
        Ok((calibrated.map_err(TrainError::Session)?, sums))
    }
}

/// The noise multiplier of a calibration that is precise enough, as a share of the rows.
fn calibration_noise(shape: &Shape) -> f64 {
    match shape.loss() {
        Loss::Squared | Loss::Logistic => MEAN_ERROR / CALIBRATION_SUMS.sqrt(),
        Loss::Softmax { .. } => CLASS_CALIBRATION_NOISE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Layout;
    use crate::network::Inputs;

    fn shape(loss: Loss, hidden: &[u32]) -> Shape {
        let layout = Layout { numbers: 2, active: 4, columns: 120 };
        Shape::new(layout, Inputs::Direct, hidden.to_vec(), loss).expect("a shape")
    }

    /// Rows and the noise multiplier of the whole budget; steps, expected rows of a step, both shares in thousandths.
    const LOGISTIC: &[[f64; 6]] = &[
        [1e8, 10.0, 1024.0, 625_000.0, 10.0, 20.0],
        [2e6, 10.0, 1024.0, 12_500.0, 10.0, 20.0],
        [2e5, 10.0, 476.0, 4096.0, 10.0, 20.0],
        [2e4, 10.0, 68.0, 4096.0, 10.0, 20.0],
        [2e3, 10.0, 64.0, 2000.0, 62.0, 200.0],
        [2e3, 100.0, 64.0, 2000.0, 200.0, 200.0],
        [10.0, 1000.0, 64.0, 10.0, 200.0, 200.0],
    ];

    #[test]
    fn steps_follow_from_rows_and_budget() {
        for &[rows, sigma, steps, batch, moments, calibration] in LOGISTIC {
            let plan = Hyperparameters::DERIVED.plan_steps(&shape(Loss::Logistic, &[]), rows, sigma);
            assert!((f64::from(plan.steps) / steps - 1.0).abs() < 0.1, "{rows} {sigma}: {plan:?}");
            let shares = [plan.moments_share, plan.calibration_share].map(|share| (1e3 * share).floor());
            assert_eq!((plan.batch.round(), shares), (batch, [moments, calibration]), "{rows} {sigma}: {plan:?}");
            assert!(plan.share > 0.0 && plan.share <= 1.0);
        }
    }

    #[test]
    fn written_keys_are_kept() {
        let shape = shape(Loss::Squared, &[16]);
        let plan = |written: Hyperparameters| {
            let plan = written.plan_steps(&shape, 1e5, 10.0);
            (f64::from(plan.steps), plan.share)
        };
        let derived = plan(Hyperparameters::DERIVED);
        let batch = Hyperparameters { batch: Some(1000), ..Hyperparameters::DERIVED };
        assert_eq!(plan(batch), (derived.0, 0.01));
        assert_eq!(plan(Hyperparameters { epochs: Some(3.0), ..batch }), (300.0, 0.01));
        let (steps, share) = plan(Hyperparameters { epochs: Some(3.0), ..Hyperparameters::DERIVED });
        assert!((steps * share - 3.0).abs() < 1e-9);
        assert_eq!(plan(Hyperparameters { epochs: Some(5e3), ..Hyperparameters::DERIVED }), (5e3, 1.0));
        let written = Hyperparameters { learning_rate: Some(0.3), clip: Some(0.7), ..Hyperparameters::DERIVED };
        let settings = written.settings(&shape, &charged(500), &LabelSummary::Moments(MOMENTS));
        assert_eq!((settings.learning_rate, settings.clip), (0.3, 0.7));
    }

    const MOMENTS: LabelMoments = LabelMoments { rows: 1e5, mean: 0.2, deviation: 0.1 };

    fn charged(steps: u32) -> ChargedSteps {
        let sigma = |sigma: f64| Sigma::from_units((sigma * 1e9) as u64).expect("a multiplier");
        let table = TableNoise::Gaussian(sigma(100.0));
        let rate = Rate::from_units(Rate::LIMIT.units() / 20).expect("a rate");
        ChargedSteps { moments: table, rate, sigma: sigma(4.0), steps, calibration: CalibrationNoise::Table(table) }
    }

    /// The whole training is a function of the charge and the released moments, scaled with the label.
    #[test]
    fn settings_follow_from_the_charge() {
        for (loss, hidden) in [(Loss::Logistic, &[][..]), (Loss::Squared, &[64][..]), (Loss::Squared, &[64, 16][..])] {
            let shape = shape(loss, hidden);
            let settings =
                |moments| Hyperparameters::DERIVED.settings(&shape, &charged(500), &LabelSummary::Moments(moments));
            let found = settings(MOMENTS);
            assert_eq!(found, settings(MOMENTS));
            assert!((found.batch - 5e3).abs() < 1e-6);
            let error = if loss == Loss::Squared { 0.2 } else { 1.0 };
            assert!((found.clip - error * shape.gradient_norm()).abs() < 1e-9);
            // Fewer rows than planned, or none, make steps smaller, never undefined.
            let few = settings(LabelMoments { rows: 1e2, ..MOMENTS });
            assert!(few.learning_rate < 0.1 * found.learning_rate && few.learning_rate > 0.0, "{few:?}");
            if loss == Loss::Squared {
                let wider = settings(LabelMoments { deviation: 0.2, ..MOMENTS });
                assert!((wider.learning_rate / found.learning_rate - 1.0).abs() < 1e-9);
            }
        }
    }
}
