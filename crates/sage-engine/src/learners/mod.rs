//! Learners: what `kind` in `[train]` can select, one folder per learner.
//!
//! A [`LearnerKind`] has a name and parses its keys of `[train]` into a [`Learner`]. The learner defines everything the
//! engine needs for a training: which labels and metrics it supports, which mechanisms an attempt is charged, how much
//! memory and time it needs, how it is fitted in a session, and the graph of the fitted model. To add one, write its
//! folder and its line in [`registry`](self::register), or call [`register`] from another crate before a directory is
//! opened.
//!
//! A learner sees rows only through closures that the kernel's session calls, and the session adds the noise. These
//! closures must compute their result from the row and from public values alone. A learner with a mistake wastes budget
//! or fits a poor model; the kernel still enforces the cost.

mod dp_sgd;
mod fitting;
mod keys;
mod logistic;
mod network;
mod registry;
mod ridge;

use std::any::Any;
use std::fmt;

pub use dp_sgd::{DpSgd, RateSchedule};
pub use fitting::{ClassPredictor, FitError, FittedModel, Fitting};
pub use keys::TrainKeys;
pub use logistic::LogisticLearner;
pub use network::NetworkLearner;
pub use registry::{KindTaken, LearnerKind, kind_names, register};
pub(crate) use registry::{NOT_LEARNERS, kinds};
pub use ridge::{RidgeLearner, RidgeTerm};
use sage_kernel::{BlockPart, Mechanism, MomentBounds, Permit, Session, Summary, SummaryTag};
use sage_learn::encode::Encoded;
pub use sage_learn::network::Hyperparameters;
use sage_learn::statistics::StatisticError;

use crate::metrics::{self, Measured, Metric, RejectionTest};
pub use crate::plan::TrainingBudget;
use crate::plan::{Inputs, PlanRefusal};

/// The labels that a learner can predict. They decide which metrics a pipeline may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Numbers between bounds: `mse` and `absolute`.
    Numbers,
    /// Two classes: `log_loss` and `accuracy`.
    Classes,
    /// Either; the metric decides.
    Both,
}

impl Targets {
    /// Whether the metric measures predictions of such labels.
    pub(crate) fn allow(self, metric: &dyn Metric) -> bool {
        match metric.kind().measured {
            Measured::Numbers => !matches!(self, Self::Classes),
            Measured::Classes => !matches!(self, Self::Numbers),
            Measured::Statistics => false,
        }
    }

    /// The allowed metrics, for messages.
    pub(crate) fn metrics(self) -> String {
        let measured = match self {
            Self::Numbers => &[Measured::Numbers][..],
            Self::Classes => &[Measured::Classes],
            Self::Both => &[Measured::Numbers, Measured::Classes],
        };
        let kinds = metrics::kinds();
        let names = measured.iter().flat_map(|measured| kinds.iter().filter(|kind| kind.measured == *measured));
        let mut names: Vec<String> = names.map(|kind| format!("\"{}\"", kind.name)).collect();
        let last = names.pop().unwrap_or_default();
        if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
    }
}

/// A configured learner: one `[train]` of a pipeline.
///
/// Everything but [`Learner::fit`] is computed from public values, before an attempt is charged, and must return the
/// same after a restart.
pub trait Learner: Any + fmt::Debug + Send + Sync {
    /// The name of its [`LearnerKind`].
    fn kind(&self) -> &'static str;

    /// Appends its keys of `[train]` as TOML lines in canonical form, without `kind`. Parsing them returns an equal
    /// learner: two learners are equal if their kinds and these lines are.
    fn write_keys(&self, out: &mut String);

    /// The labels it can predict.
    fn targets(&self) -> Targets;

    /// Whether it can predict several classes. Labels are then indices of classes, and the fitted model has a
    /// [`FittedModel::class_predictor`].
    fn supports_several_classes(&self) -> bool {
        false
    }

    /// Whether a run may be rejected because no model of this learner can reach a target of this metric. By default for
    /// accuracy, where the bound covers every classifier of the same categories.
    fn can_reject(&self, metric: &dyn Metric) -> bool {
        metric.rejection() == Some(RejectionTest::BestAnswers)
    }

    /// The number of training rows per block that the pipeline file declares, for streams without a census.
    fn declared_rows(&self) -> Option<u32> {
        None
    }

    /// Checks that it can be trained on these inputs, before anything is charged.
    ///
    /// # Errors
    /// With the key or the feature at fault and what to change.
    fn check_inputs(&self, _inputs: &Inputs) -> Result<(), PlanRefusal> {
        Ok(())
    }

    /// The mechanisms that an attempt is charged for training, with the least noise that the budget pays for.
    ///
    /// # Errors
    /// If the budget is too small for any noise, or a public size is missing.
    fn mechanisms(&self, inputs: &Inputs, budget: &TrainingBudget<'_>) -> Result<Vec<Mechanism>, PlanRefusal>;

    /// Whether it can be fitted with mechanisms that an earlier process charged.
    fn matches_charge(&self, inputs: &Inputs, charged: &[Mechanism]) -> bool;

    /// Forecast of the memory of a training in bytes, apart from its rows.
    fn memory_bytes(&self, inputs: &Inputs) -> f64;

    /// Forecast of the time of a training on `rows` rows, in seconds.
    fn training_seconds(&self, inputs: &Inputs, rows: f64) -> f64;

    /// How many weights are multiplied to predict one row, for the forecast of the test's time.
    fn weights_per_row(&self, inputs: &Inputs) -> f64 {
        active_inputs(inputs)
    }

    /// Whether the training releases the sums of the labels of the train lane, which determine the best constant
    /// prediction. Otherwise an attempt releases those of the test lane, for a small share of the test's cost.
    fn releases_label_sums(&self) -> bool {
        false
    }

    /// Fits a model with the charged mechanisms. It must use no other operation of the session than those.
    ///
    /// # Errors
    /// If there is no model. The attempt stays charged, and the reason is shown to the user: it must follow from public
    /// and released values alone.
    fn fit(&self, session: &mut Session<Encoded>, fitting: &Fitting<'_>) -> Result<Box<dyn FittedModel>, FitError>;

    /// The sums of a block that can replace its rows in [`Learner::fit`]; by default `None`, and rows are always read.
    /// `certificate` are the bounds of the moments that the rejection test needs, if there is one.
    fn block_sums<'a>(
        &self, _inputs: &'a Inputs, _charged: &[Mechanism], _certificate: Option<MomentBounds>,
    ) -> Option<Box<dyn BlockSums + 'a>> {
        None
    }
}

impl PartialEq for dyn Learner {
    fn eq(&self, other: &Self) -> bool {
        let keys = |learner: &Self| {
            let mut out = String::new();
            learner.write_keys(&mut out);
            out
        };
        self.kind() == other.kind() && keys(self) == keys(other)
    }
}

/// Sums over the training rows of one block that replace the rows in later attempts.
pub trait BlockSums: Sync {
    /// Describes how rows are encoded, and the sums with their bounds. Different sums must have different keys.
    fn key(&self) -> String;

    /// Has the kernel sum the rows of a block. An empty list means that the session reads the rows instead.
    ///
    /// # Errors
    /// If the permit does not cover the block, or the sums are out of range.
    fn sum(
        &self, permit: &Permit, part: (BlockPart, SummaryTag), rows: &[Encoded],
    ) -> Result<Vec<Summary>, StatisticError>;
}

/// The number of inputs that are not zero in a row, and the bias.
pub(crate) fn active_inputs(inputs: &Inputs) -> f64 {
    let layout = inputs.encoding().layout();
    f64::from(layout.numbers) + f64::from(layout.active) + 1.0
}

/// Bytes of a weight in training by gradients: itself, its momentum, a packed copy for each pass, the step's sum and
/// noise, and the sums of two threads.
const WEIGHT_BYTES: f64 = 56.0;
