//! Fitting a model in a session, and the fitted model.

use std::fmt;

use sage_kernel::{Mechanism, TableNoise};
use sage_learn::encode::Example;
use sage_learn::validate::LabelSums;
use sage_model::bundle::{Fields, Graph};

use crate::plan::{Inputs, charged_table_noise};
use crate::run::AttemptObserver;

/// What a learner needs to fit a model.
pub struct Fitting<'attempt> {
    /// The inputs; labels that are numbers are rescaled from their bounds to the range from 0 to 1.
    pub inputs: &'attempt Inputs,
    /// The mechanisms that were charged for training, as [`super::Learner::mechanisms`] returned them.
    pub charged: &'attempt [Mechanism],
    /// How many threads to use. The result must not depend on it.
    pub threads: usize,
    /// The largest norm of a linear model's weights for which the rejection test holds, if the attempt has one.
    pub weight_norm: Option<f64>,
    pub(crate) observer: &'attempt dyn AttemptObserver,
}

impl Fitting<'_> {
    /// The noise of the table that the charged mechanism at this index pays for; `None` if it pays for none.
    pub fn table_noise(&self, index: usize) -> Option<TableNoise> {
        self.charged.get(index).and_then(charged_table_noise)
    }

    /// Reports progress: `done` of `total` steps. The number of steps is public.
    ///
    /// # Errors
    /// If the attempt is to stop here; pass the error on.
    pub fn step(&self, done: u32, total: u32) -> Result<(), FitError> {
        self.observer.step(done, total).map_err(|failure| FitError(failure.0))
    }
}

/// Why no model was fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitError(pub(crate) String);

impl FitError {
    /// A reason that users read. It must follow from public and released values alone, never from a row.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl fmt::Display for FitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for FitError {}

/// Writes the probabilities of the classes of an encoded row, in their order.
pub type ClassPredictor<'model> = Box<dyn Fn(&Example<'_>, &mut [f32]) + 'model>;

/// A model that was fitted to encoded rows.
pub trait FittedModel {
    /// Predicts the label of an encoded row: a number from 0 to 1, or the probability of the class.
    fn predictor(&self) -> Box<dyn Fn(&Example<'_>) -> f64 + '_>;

    /// The sums of the labels of the train lane, if the training released them; only then may
    /// [`super::Learner::releases_label_sums`] be true.
    fn label_sums(&self) -> Option<LabelSums> {
        None
    }

    /// Predicts the probabilities of the classes; `None` for a model of a label without several classes.
    fn class_predictor(&self) -> Option<ClassPredictor<'_>> {
        None
    }

    /// The graph of the model over the features in `fields`. `label` are the bounds of a label that is a number; the
    /// graph predicts in these units.
    ///
    /// # Errors
    /// If a weight is out of range or the graph is too large.
    fn graph(self: Box<Self>, fields: Fields, label: Option<(f64, f64)>) -> Result<Graph, FitError>;
}
