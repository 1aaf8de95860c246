//! `kind = "logistic"`: logistic regression of two or several classes, trained by DP-SGD.

use std::sync::Arc;

use sage_kernel::{Mechanism, Session};
use sage_learn::encode::Encoded;

use super::dp_sgd::{self, DpSgd};
use super::{FitError, FittedModel, Fitting, Learner, LearnerKind, Targets, TrainingBudget};
use crate::plan::{Inputs, PlanRefusal};

/// The registry's entry.
pub(super) const KIND: LearnerKind = LearnerKind {
    name: "logistic",
    keys: &dp_sgd::KEYS,
    parse: |keys| Ok(Arc::new(LogisticLearner { training: DpSgd::parse(keys)? })),
};

/// A network without hidden layers.
const HIDDEN: &[u32] = &[];

/// Logistic regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogisticLearner {
    /// How it is trained.
    pub training: DpSgd,
}

impl Learner for LogisticLearner {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn write_keys(&self, out: &mut String) {
        self.training.write(out);
    }

    fn targets(&self) -> Targets {
        Targets::Classes
    }

    fn supports_several_classes(&self) -> bool {
        true
    }

    fn declared_rows(&self) -> Option<u32> {
        self.training.rows
    }

    fn mechanisms(&self, inputs: &Inputs, budget: &TrainingBudget<'_>) -> Result<Vec<Mechanism>, PlanRefusal> {
        self.training.mechanisms(inputs, HIDDEN, budget)
    }

    fn matches_charge(&self, inputs: &Inputs, charged: &[Mechanism]) -> bool {
        self.training.charged(inputs, HIDDEN, charged).is_some()
    }

    fn memory_bytes(&self, inputs: &Inputs) -> f64 {
        dp_sgd::memory_bytes(inputs, HIDDEN)
    }

    fn training_seconds(&self, inputs: &Inputs, rows: f64) -> f64 {
        self.training.training_seconds(inputs, HIDDEN, rows)
    }

    fn releases_label_sums(&self) -> bool {
        true
    }

    fn weights_per_row(&self, inputs: &Inputs) -> f64 {
        dp_sgd::network_weights_per_row(inputs, HIDDEN)
    }

    fn fit(&self, session: &mut Session<Encoded>, fitting: &Fitting<'_>) -> Result<Box<dyn FittedModel>, FitError> {
        self.training.fit(session, HIDDEN, fitting)
    }
}
