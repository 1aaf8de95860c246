//! DP-SGD, as logistic regression and networks are trained: its keys in `[train]`, its cost, its forecasts and its fit.

use sage_kernel::{Lane, Mechanism, Rate, Session, Step};
use sage_learn::encode::Encoded;
use sage_learn::network::{self, Loss, Network, Rates, Shape, Training, Work};
use sage_model::bundle::{Fields, Graph, Model};

use super::{FitError, FittedModel, Fitting, TrainKeys, TrainingBudget, WEIGHT_BYTES, active_inputs};
use crate::pipeline::PipelineFileError;
use crate::plan::time::{NOISE, PASS, WEIGHT};
use crate::plan::{Inputs, PlanRefusal};

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

/// The settings of a training by DP-SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DpSgd {
    /// Passes over the rows, by their released number.
    pub epochs: f64,
    /// Rows of a step, on average.
    pub batch: u32,
    /// The learning rate.
    pub learning_rate: f64,
    /// How it changes.
    pub schedule: RateSchedule,
    /// The momentum, from 0 to below 1.
    pub momentum: f64,
    /// The weight decay.
    pub decay: f64,
    /// The norm to which the gradient of a row is clipped.
    pub clip: f64,
    /// About how many training rows a block has, for streams without a census.
    pub rows: Option<u32>,
}

/// The keys of [`DpSgd`] in `[train]`.
pub(super) const KEYS: [&str; 8] =
    ["epochs", "batch", "learning_rate", "schedule", "momentum", "decay", "clip", "rows"];

/// The seed of initial weights: public, and the same for all runs.
const SEED: u64 = 1;

impl DpSgd {
    /// The settings of a file that sets none.
    pub const DEFAULT: Self = Self {
        epochs: 3.0,
        batch: 1024,
        learning_rate: 0.1,
        schedule: RateSchedule::Constant,
        momentum: 0.0,
        decay: 0.0,
        clip: 1.0,
        rows: None,
    };

    pub(super) fn parse(keys: &TrainKeys<'_>) -> Result<Self, PipelineFileError> {
        const BATCH: &str = "a whole number from 1 to 10000000: the rows of a step, on average";
        const ROWS: &str = "a whole number from 1 to 1000000000: the rows of a block, about, known without looking";
        let default = Self::DEFAULT;
        let number = |key: &str, allowed: &str, default: f64, fits: fn(f64) -> bool| {
            keys.number(key, allowed, Some(default), fits)
        };
        let above_zero = |number: f64| number > 0.0 && number <= 1e6;
        Ok(Self {
            epochs: number("epochs", "a number above 0 and at most 1000000", default.epochs, above_zero)?,
            batch: match keys.has("batch") {
                true => keys.count("batch", 10_000_000, BATCH)?,
                false => default.batch,
            },
            learning_rate: number("learning_rate", "a number above 0 and at most 1000000", 0.1, above_zero)?,
            schedule: parse_schedule(keys)?,
            momentum: number("momentum", "a number from 0 to below 1", default.momentum, |momentum| {
                (0.0..1.0).contains(&momentum)
            })?,
            decay: number("decay", "a number from 0 to 1", default.decay, |decay| (0.0..=1.0).contains(&decay))?,
            clip: number("clip", "a number above 0 and at most 1000000", default.clip, above_zero)?,
            rows: match keys.has("rows") {
                true => Some(keys.count("rows", 1_000_000_000, ROWS)?),
                false => default.rows,
            },
        })
    }

    pub(super) fn write(&self, out: &mut String) {
        let schedule = match self.schedule {
            RateSchedule::Constant => "\"constant\"".to_owned(),
            RateSchedule::Cosine => "\"cosine\"".to_owned(),
            RateSchedule::Stepwise { factor, every } => format!("{{ factor = {factor:?}, every = {every} }}"),
        };
        out.push_str(&format!(
            "epochs = {:?}\nbatch = {}\nlearning_rate = {:?}\nschedule = {schedule}\nmomentum = {:?}\ndecay = {:?}\n\
             clip = {:?}\n",
            self.epochs, self.batch, self.learning_rate, self.momentum, self.decay, self.clip
        ));
        if let Some(rows) = self.rows {
            out.push_str(&format!("rows = {rows}\n"));
        }
    }

    /// The mechanism of all steps, with the least noise that the budget pays for.
    pub(super) fn mechanisms(
        &self, inputs: &Inputs, hidden: &[u32], budget: &TrainingBudget<'_>,
    ) -> Result<Vec<Mechanism>, PlanRefusal> {
        let missing = "training by steps needs the approximate number of rows per block: set `rows` in [train], or add a \
                       census to the stream";
        let rows = budget.rows().filter(|rows| *rows >= 1.0).ok_or_else(|| PlanRefusal::part("train", missing))?;
        let shape = shape(inputs, hidden)?;
        let work = Work::epochs(rows, f64::from(self.batch), self.epochs, self.clip);
        let rate = ((work.batch / work.rows).min(1.0) * Rate::LIMIT.units() as f64).round() as u64;
        let rate = Rate::from_units(rate).filter(|rate| *rate > Rate::ZERO);
        let rate = rate.ok_or_else(|| PlanRefusal::part("batch", "a larger share of the rows"))?;
        let plan = |sigma| {
            let step = Step { rate, sigma, clip: work.clip };
            network::Plan::with_noise(&shape, step, work.steps, work.batch)
        };
        let mechanisms = |sigma| plan(sigma).map_or_else(|_| Vec::new(), |plan| vec![plan.mechanism()]);
        let sigma = budget.least_sigma(mechanisms)?;
        let plan = plan(sigma).map_err(|error| PlanRefusal::part("train", error.to_string()))?;
        Ok(vec![plan.mechanism()])
    }

    /// The steps that were charged; `None` if the charge is not one of DP-SGD.
    pub(super) fn charged_plan(
        &self, inputs: &Inputs, hidden: &[u32], charged: &[Mechanism],
    ) -> Option<(Shape, network::Plan)> {
        let [Mechanism::SampledGaussian { rate, sigma, steps, .. }] = *charged else { return None };
        let step = Step { rate, sigma, clip: self.clip };
        let shape = shape(inputs, hidden).ok()?;
        let plan = network::Plan::with_noise(&shape, step, steps, f64::from(self.batch)).ok()?;
        Some((shape, plan))
    }

    /// Forecast of the time of all steps, in seconds.
    pub(super) fn training_seconds(&self, inputs: &Inputs, hidden: &[u32], rows: f64) -> f64 {
        let Ok(shape) = shape(inputs, hidden) else { return 0.0 };
        let steps = f64::from(Work::epochs(rows, f64::from(self.batch), self.epochs, self.clip).steps);
        let passes = steps * f64::from(self.batch);
        let per_row = PASS + WEIGHT * weights_per_row(&shape, active_inputs(inputs));
        passes * per_row + steps * NOISE * f64::from(shape.parameters())
    }

    pub(super) fn fit(
        &self, session: &mut Session<Encoded>, hidden: &[u32], fitting: &Fitting<'_>,
    ) -> Result<Box<dyn FittedModel>, FitError> {
        let plan = self.charged_plan(fitting.inputs, hidden, fitting.charged);
        let (shape, plan) = plan.ok_or_else(|| FitError::new("the charge is not one of this learner"))?;
        let start = Network::new(shape, SEED);
        let mut stopped = None;
        let mut proceed = |step: u32| {
            stopped = fitting.step(step, plan.steps()).err();
            stopped.is_none()
        };
        let training = self.training(fitting.threads);
        let network = network::train_while(session, Lane::Train, &plan, &training, start, &mut proceed);
        match network {
            Ok(network) => Ok(Box::new(network)),
            Err(error) => Err(stopped.unwrap_or_else(|| FitError::new(error))),
        }
    }

    fn training(&self, threads: usize) -> Training {
        let start = self.learning_rate;
        let rates = match self.schedule {
            RateSchedule::Constant => Rates::Constant(start),
            RateSchedule::Cosine => Rates::Cosine(start),
            RateSchedule::Stepwise { factor, every } => Rates::Stepwise { start, factor, every },
        };
        Training { rates, momentum: self.momentum, decay: self.decay, threads }
    }
}

fn parse_schedule(keys: &TrainKeys<'_>) -> Result<RateSchedule, PipelineFileError> {
    let Some(steps) = keys.table("schedule", &["factor", "every"])? else {
        let words = [("constant", RateSchedule::Constant), ("cosine", RateSchedule::Cosine)];
        return keys.choice("schedule", &words, Some(DpSgd::DEFAULT.schedule));
    };
    let fits = |factor: f64| factor > 0.0 && factor <= 1.0;
    let factor = steps.number("factor", "a number above 0 and at most 1", None, fits)?;
    let every = steps.count("every", u32::MAX, "a whole number of steps, at least 1")?;
    Ok(RateSchedule::Stepwise { factor, every })
}

/// The shape of a network with these hidden layers.
fn shape(inputs: &Inputs, hidden: &[u32]) -> Result<Shape, PlanRefusal> {
    let loss = if inputs.label().is_some() { Loss::Squared } else { Loss::Logistic };
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
    let widths: Vec<f64> = shape.hidden().iter().map(|&width| f64::from(width)).chain([1.0]).collect();
    let inner: f64 = widths.windows(2).map(|pair| (pair[0] + 1.0) * pair[1]).sum();
    active * widths.first().copied().unwrap_or(1.0) + inner
}

impl FittedModel for Network {
    fn predictor(&self) -> Box<dyn Fn(&sage_learn::encode::Example<'_>) -> f64 + '_> {
        let one = self.row_predictor();
        Box::new(move |row| f64::from(one.forward(row)))
    }

    fn graph(self: Box<Self>, fields: Fields, label: Option<(f64, f64)>) -> Result<Graph, FitError> {
        let network = match label {
            Some(bounds) => {
                let diverged = || FitError::new("a weight left the range of numbers; take a smaller learning rate");
                self.rescaled(bounds).ok_or_else(diverged)?
            }
            None => *self,
        };
        fields.with(Model::Network(&network)).map_err(FitError::new)
    }
}
