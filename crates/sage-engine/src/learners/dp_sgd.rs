//! DP-SGD, as logistic regression and networks are trained: its keys in `[train]`, its cost, its forecasts and its fit.
//!
//! No key has to be written. What is not written is derived from public and released values: the sampling rate and the
//! number of steps before the charge, the clip and the learning rate in the session.

use sage_kernel::{Lane, Mechanism, Rate, Session, Sigma};
use sage_learn::encode::Encoded;
pub use sage_learn::network::RateSchedule;
use sage_learn::network::{self, CalibrationNoise, ChargedSteps, Hyperparameters, Loss, Network, Shape, StepPlan};
use sage_learn::validate::LabelSums;
use sage_model::bundle::{Fields, Graph, Model};

use super::{ClassPredictor, FitError, FittedModel, Fitting, TrainKeys, TrainingBudget, WEIGHT_BYTES, active_inputs};
use crate::pipeline::PipelineFileError;
use crate::plan::time::{NOISE, PASS, WEIGHT};
use crate::plan::{Inputs, PlanRefusal, charged_table_noise};

/// The settings of a training by DP-SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DpSgd {
    /// The hyper-parameters; `None` where the file sets none.
    pub written: Hyperparameters,
    /// About how many training rows a block has, for streams without a census.
    pub rows: Option<u32>,
}

/// The noise multiplier of one release of ε = 0.5 at δ = 10⁻⁶, about: for forecasts of time without a budget.
const TYPICAL_SIGMA: f64 = 10.0;

/// The keys of [`DpSgd`] in `[train]`.
pub(super) const KEYS: [&str; 8] =
    ["epochs", "batch", "learning_rate", "schedule", "momentum", "decay", "clip", "rows"];

impl DpSgd {
    /// The settings of a file that sets none.
    pub const DEFAULT: Self = Self { written: Hyperparameters::DERIVED, rows: None };

    pub(super) fn parse(keys: &TrainKeys<'_>) -> Result<Self, PipelineFileError> {
        const BATCH: &str = "a whole number from 1 to 10000000: the rows of a step, on average";
        const ROWS: &str = "a whole number from 1 to 1000000000: the rows of a block, about, known without looking";
        const POSITIVE: &str = "a number above 0 and at most 1000000";
        let default = Hyperparameters::DERIVED;
        let positive = |key: &str| {
            let fits = |number: f64| number > 0.0 && number <= 1e6;
            keys.has(key).then(|| keys.number(key, POSITIVE, None, fits)).transpose()
        };
        let count =
            |key: &str, most: u32, allowed: &str| keys.has(key).then(|| keys.count(key, most, allowed)).transpose();
        let written = Hyperparameters {
            epochs: positive("epochs")?,
            batch: count("batch", 10_000_000, BATCH)?,
            learning_rate: positive("learning_rate")?,
            schedule: parse_schedule(keys)?,
            momentum: keys.number("momentum", "a number from 0 to below 1", Some(default.momentum), |momentum| {
                (0.0..1.0).contains(&momentum)
            })?,
            decay: keys
                .number("decay", "a number from 0 to 1", Some(default.decay), |decay| (0.0..=1.0).contains(&decay))?,
            clip: positive("clip")?,
        };
        Ok(Self { written, rows: count("rows", 1_000_000_000, ROWS)? })
    }

    pub(super) fn write(&self, out: &mut String) {
        let Hyperparameters { epochs, batch, learning_rate, schedule, momentum, decay, clip } = self.written;
        let schedule = match schedule {
            RateSchedule::Constant => "\"constant\"".to_owned(),
            RateSchedule::Cosine => "\"cosine\"".to_owned(),
            RateSchedule::Stepwise { factor, every } => format!("{{ factor = {factor:?}, every = {every} }}"),
        };
        out.push_str(&format!("schedule = {schedule}\nmomentum = {momentum:?}\ndecay = {decay:?}\n"));
        let numbers = [("epochs", epochs), ("learning_rate", learning_rate), ("clip", clip)];
        numbers.iter().for_each(|(key, number)| out.extend(number.map(|number| format!("{key} = {number:?}\n"))));
        let counts = [("batch", batch), ("rows", self.rows)];
        counts.iter().for_each(|(key, count)| out.extend(count.map(|count| format!("{key} = {count}\n"))));
    }

    /// The label's summary, the steps and the calibration, with the least noise that the budget pays for.
    pub(super) fn mechanisms(
        &self, inputs: &Inputs, hidden: &[u32], budget: &TrainingBudget<'_>,
    ) -> Result<Vec<Mechanism>, PlanRefusal> {
        let missing = "training by steps needs the approximate number of rows per block: set `rows` in [train], or add a \
                       census to the stream";
        let rows = budget.rows().filter(|rows| *rows >= 1.0).ok_or_else(|| PlanRefusal::part("train", missing))?;
        let shape = shape(inputs, hidden)?;
        let coordinates = shape.parameters();
        let one = |sigma| vec![Mechanism::SampledGaussian { rate: Rate::LIMIT, sigma, coordinates, steps: 1 }];
        let whole = budget.least_sigma(one)?;
        let plan = self.written.plan_steps(&shape, rows, whole.units() as f64 / 1e9);
        let rate = Rate::from_units((plan.share * Rate::LIMIT.units() as f64).round() as u64);
        let rate = rate.filter(|rate| *rate > Rate::ZERO);
        let rate = rate.ok_or_else(|| PlanRefusal::part("batch", "a larger share of the rows"))?;
        let moments = budget.part(plan.moments_share).table_noise(1)?;
        let calibration = calibration_noise(&shape, &budget.part(plan.calibration_share))?;
        let all =
            |sigma: Sigma| ChargedSteps { moments, rate, sigma, steps: plan.steps, calibration }.mechanisms(&shape);
        let sigma = budget.least_sigma(|sigma| all(sigma).unwrap_or_default())?;
        all(sigma).ok_or_else(|| PlanRefusal::part("train", "a larger budget: no noise of its tables has a price"))
    }

    /// The training that was charged; `None` if the charge is not one of DP-SGD.
    pub(super) fn charged(
        &self, inputs: &Inputs, hidden: &[u32], charged: &[Mechanism],
    ) -> Option<(Shape, ChargedSteps)> {
        let [moments, Mechanism::SampledGaussian { rate, sigma, steps, .. }, calibration] = charged else {
            return None;
        };
        let (moments, shape) = (charged_table_noise(moments)?, shape(inputs, hidden).ok()?);
        let calibration = match (shape.loss(), calibration) {
            (Loss::Softmax { .. }, Mechanism::Gaussian { sigma, .. }) => CalibrationNoise::Vector(*sigma),
            (Loss::Softmax { .. }, _) => return None,
            (_, calibration) => CalibrationNoise::Table(charged_table_noise(calibration)?),
        };
        Some((shape, ChargedSteps { moments, rate: *rate, sigma: *sigma, steps: *steps, calibration }))
    }

    pub(super) fn fit(
        &self, session: &mut Session<Encoded>, hidden: &[u32], fitting: &Fitting<'_>,
    ) -> Result<Box<dyn FittedModel>, FitError> {
        let charged = self.charged(fitting.inputs, hidden, fitting.charged);
        let (shape, charged) = charged.ok_or_else(|| FitError::new("the charge is not one of this learner"))?;
        let mut stopped = None;
        let mut proceed = |step: u32| {
            stopped = fitting.step(step, charged.steps).err();
            stopped.is_none()
        };
        let network = self.written.train(session, Lane::Train, shape, &charged, fitting.threads, &mut proceed);
        match network {
            Ok((network, labels)) => Ok(Box::new(TrainedNetwork { network, labels })),
            Err(error) => Err(stopped.unwrap_or_else(|| FitError::new(error))),
        }
    }

    /// Forecast of the time of all steps, in seconds.
    pub(super) fn training_seconds(&self, inputs: &Inputs, hidden: &[u32], rows: f64) -> f64 {
        let Ok(shape) = shape(inputs, hidden) else { return 0.0 };
        let StepPlan { steps, batch, .. } = self.written.plan_steps(&shape, rows.max(1.0), TYPICAL_SIGMA);
        let steps = f64::from(steps);
        let per_row = PASS + WEIGHT * weights_per_row(&shape, active_inputs(inputs));
        steps * batch * per_row + steps * NOISE * f64::from(shape.parameters())
    }
}

fn parse_schedule(keys: &TrainKeys<'_>) -> Result<RateSchedule, PipelineFileError> {
    let Some(steps) = keys.table("schedule", &["factor", "every"])? else {
        let words = [("constant", RateSchedule::Constant), ("cosine", RateSchedule::Cosine)];
        return keys.choice("schedule", &words, Some(Hyperparameters::DERIVED.schedule));
    };
    let fits = |factor: f64| factor > 0.0 && factor <= 1.0;
    let factor = steps.number("factor", "a number above 0 and at most 1", None, fits)?;
    let every = steps.count("every", u32::MAX, "a whole number of steps, at least 1")?;
    Ok(RateSchedule::Stepwise { factor, every })
}

/// The least noise of a calibration that the budget pays for.
fn calibration_noise(shape: &Shape, budget: &TrainingBudget<'_>) -> Result<CalibrationNoise, PlanRefusal> {
    match shape.loss() {
        Loss::Squared | Loss::Logistic => Ok(CalibrationNoise::Table(budget.table_noise(1)?)),
        Loss::Softmax { .. } => {
            let vector = |sigma| CalibrationNoise::Vector(sigma).mechanism(shape).into_iter().collect();
            Ok(CalibrationNoise::Vector(budget.least_sigma(vector)?))
        }
    }
}

/// The shape of a network with these hidden layers.
fn shape(inputs: &Inputs, hidden: &[u32]) -> Result<Shape, PlanRefusal> {
    let loss = match (inputs.label(), inputs.classes().len()) {
        (Some(_), _) => Loss::Squared,
        (None, 0) => Loss::Logistic,
        (None, classes) => Loss::Softmax { classes: u32::try_from(classes).unwrap_or(u32::MAX) },
    };
    Shape::new(inputs.encoding().layout(), network::Inputs::Direct, hidden.to_vec(), loss)
        .map_err(|error| PlanRefusal::part("train", error.to_string()))
}

/// Forecast of the memory of a network with these hidden layers, in bytes.
pub(super) fn memory_bytes(inputs: &Inputs, hidden: &[u32]) -> f64 {
    WEIGHT_BYTES * shape(inputs, hidden).map_or(0.0, |shape| f64::from(shape.parameters()))
}

/// Weights that are multiplied to predict one row, in a network with these hidden layers.
pub(super) fn network_weights_per_row(inputs: &Inputs, hidden: &[u32]) -> f64 {
    shape(inputs, hidden).map_or(0.0, |shape| weights_per_row(&shape, active_inputs(inputs)))
}

/// Weights that are multiplied for one row: of the first layer those of its active inputs, of the others all.
fn weights_per_row(shape: &Shape, active: f64) -> f64 {
    let outputs = f64::from(shape.loss().outputs());
    let widths: Vec<f64> = shape.hidden().iter().map(|&width| f64::from(width)).chain([outputs]).collect();
    let inner: f64 = widths.windows(2).map(|pair| (pair[0] + 1.0) * pair[1]).sum();
    active * widths.first().copied().unwrap_or(1.0) + inner
}

/// A network with the sums of the labels that its training released.
struct TrainedNetwork {
    network: Network,
    /// `None` for several classes.
    labels: Option<LabelSums>,
}

impl FittedModel for TrainedNetwork {
    fn predictor(&self) -> Box<dyn Fn(&sage_learn::encode::Example<'_>) -> f64 + '_> {
        let one = self.network.row_predictor();
        Box::new(move |row| f64::from(one.forward(row)))
    }

    fn label_sums(&self) -> Option<LabelSums> {
        self.labels
    }

    fn class_predictor(&self) -> Option<ClassPredictor<'_>> {
        if !matches!(self.network.shape().loss(), Loss::Softmax { .. }) {
            return None;
        }
        let one = self.network.row_predictor();
        Some(Box::new(move |row: &sage_learn::encode::Example<'_>, found: &mut [f32]| one.predict(row, found)))
    }

    fn graph(self: Box<Self>, fields: Fields, label: Option<(f64, f64)>) -> Result<Graph, FitError> {
        let network = match label {
            Some(bounds) => {
                let diverged = || FitError::new("a weight left the range of numbers; take a smaller learning rate");
                self.network.rescaled(bounds).ok_or_else(diverged)?
            }
            None => self.network,
        };
        fields.with(Model::Network(&network)).map_err(FitError::new)
    }
}
