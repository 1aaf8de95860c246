//! `kind = "ridge"`: linear regression from noisy moments (AdaSSP).

mod sums;

use std::sync::Arc;

use sage_kernel::{Lane, Mechanism, MomentBounds, Session, Sigma};
use sage_learn::encode::{Encoded, Example};
use sage_learn::linear::{AdaSsp, LinearModel, Ridge};
use sage_model::bundle::{Fields, Graph, Model};

use super::{BlockSums, FitError, FittedModel, Fitting, Learner, LearnerKind, Targets, TrainingBudget, active_inputs};
use crate::metrics::{Metric, RejectionTest};
use crate::plan::time::{NOISE, PRODUCT};
use crate::plan::{Inputs, PlanRefusal};
use crate::run::turns;
use sums::MomentSums;

/// The registry's entry.
pub(super) const KIND: LearnerKind = LearnerKind {
    name: "ridge",
    keys: &["ridge"],
    parse: |keys| Ok(Arc::new(RidgeLearner { term: keys.choice("ridge", &TERMS, Some(RidgeTerm::Adaptive))? })),
};

const TERMS: [(&str, RidgeTerm); 2] = [("adaptive", RidgeTerm::Adaptive), ("fixed", RidgeTerm::Fixed)];

/// Bytes of a moment of two inputs: the sums of two threads, the noisy matrix and its factors.
const MOMENT_BYTES: f64 = 64.0;

/// The most inputs without the bias: the kernel sums moments of up to 4096.
const MOST_INPUTS: u32 = 4095;

/// How the regularisation on the diagonal is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RidgeTerm {
    /// From the smallest eigenvalue of the moments, released privately.
    Adaptive,
    /// From the noise alone.
    Fixed,
}

/// Linear regression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RidgeLearner {
    /// The regularisation.
    pub term: RidgeTerm,
}

impl RidgeLearner {
    fn with_noise(self, inputs: &Inputs, sigma: Sigma) -> Result<AdaSsp, PlanRefusal> {
        let ridge = match self.term {
            RidgeTerm::Adaptive => Ridge::Adaptive,
            RidgeTerm::Fixed => Ridge::Fixed,
        };
        AdaSsp::new(inputs.encoding().layout(), (0.0, 1.0), sigma, ridge)
            .map(|learner| learner.with_contribution(turns(inputs.contribution())))
            .map_err(|error| PlanRefusal::part("train", error.to_string()))
    }
}

/// The noise of a charge for noisy moments.
fn charged_sigma(charged: &[Mechanism]) -> Option<Sigma> {
    match charged.first() {
        Some(Mechanism::Gaussian { sigma, .. }) => Some(*sigma),
        _ => None,
    }
}

impl Learner for RidgeLearner {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn write_keys(&self, out: &mut String) {
        let (word, _) = TERMS[usize::from(self.term == RidgeTerm::Fixed)];
        out.push_str(&format!("ridge = \"{word}\"\n"));
    }

    fn targets(&self) -> Targets {
        Targets::Numbers
    }

    fn can_reject(&self, metric: &dyn Metric) -> bool {
        metric.rejection() == Some(RejectionTest::LeastLoss)
    }

    fn check_inputs(&self, inputs: &Inputs) -> Result<(), PlanRefusal> {
        let width = inputs.encoding().layout().inputs();
        if width <= MOST_INPUTS {
            return Ok(());
        }
        let why = format!(
            "the features have {width} inputs, and kind = \"ridge\" takes at most {MOST_INPUTS}, because it sums the \
             products of all pairs; use fewer categories or hash buckets, or kind = \"mlp\" or \"logistic\""
        );
        Err(PlanRefusal::part("features", why))
    }

    fn mechanisms(&self, inputs: &Inputs, budget: &TrainingBudget<'_>) -> Result<Vec<Mechanism>, PlanRefusal> {
        let mechanisms =
            |sigma| self.with_noise(inputs, sigma).map_or_else(|_| Vec::new(), |learner| learner.mechanisms());
        Ok(mechanisms(budget.least_sigma(mechanisms)?))
    }

    fn matches_charge(&self, _: &Inputs, charged: &[Mechanism]) -> bool {
        charged_sigma(charged).is_some()
    }

    fn memory_bytes(&self, inputs: &Inputs) -> f64 {
        let width = f64::from(inputs.encoding().layout().inputs()) + 1.0;
        MOMENT_BYTES * width * width
    }

    fn training_seconds(&self, inputs: &Inputs, rows: f64) -> f64 {
        let width = f64::from(inputs.encoding().layout().inputs()) + 1.0;
        let active = active_inputs(inputs);
        rows * active * active * PRODUCT + width * width * NOISE + width * width * width * PRODUCT
    }

    fn fit(&self, session: &mut Session<Encoded>, fitting: &Fitting<'_>) -> Result<Box<dyn FittedModel>, FitError> {
        let sigma = charged_sigma(fitting.charged);
        let sigma = sigma.ok_or_else(|| FitError::new("the charge is not one of this learner"))?;
        let mut learner = self.with_noise(fitting.inputs, sigma).map_err(FitError::new)?;
        if let Some(norm) = fitting.weight_norm {
            learner = learner.with_weight_norm(norm).map_err(FitError::new)?;
        }
        Ok(Box::new(learner.train(session, Lane::Train).map_err(FitError::new)?))
    }

    fn block_sums<'a>(
        &self, inputs: &'a Inputs, charged: &[Mechanism], certificate: Option<MomentBounds>,
    ) -> Option<Box<dyn BlockSums + 'a>> {
        let learner = self.with_noise(inputs, charged_sigma(charged)?).ok()?;
        Some(Box::new(MomentSums::new(inputs, learner, certificate)))
    }
}

impl FittedModel for LinearModel {
    fn predictor(&self) -> Box<dyn Fn(&Example<'_>) -> f64 + '_> {
        Box::new(|row| self.predict(row))
    }

    fn graph(self: Box<Self>, fields: Fields, label: Option<(f64, f64)>) -> Result<Graph, FitError> {
        let model = match label {
            Some(bounds) => self.rescaled(bounds),
            None => *self,
        };
        fields.with(Model::Linear(&model)).map_err(FitError::new)
    }
}
