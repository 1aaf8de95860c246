//! `kind = "mlp"`: a network with hidden ReLU layers, trained by DP-SGD.

use std::sync::Arc;

use sage_kernel::{Mechanism, Session};
use sage_learn::encode::Encoded;

use super::dp_sgd::{self, DpSgd};
use super::{FitError, FittedModel, Fitting, Learner, LearnerKind, Targets, TrainKeys, TrainingBudget};
use crate::pipeline::PipelineFileError;
use crate::plan::{Inputs, PlanRefusal};

const KEYS: [&str; 9] = {
    let [epochs, batch, learning_rate, schedule, momentum, decay, clip, rows] = dp_sgd::KEYS;
    ["layers", epochs, batch, learning_rate, schedule, momentum, decay, clip, rows]
};

/// The registry's entry.
pub(super) const KIND: LearnerKind = LearnerKind {
    name: "mlp",
    keys: &KEYS,
    parse: |keys| Ok(Arc::new(NetworkLearner { layers: parse_layers(keys)?, training: DpSgd::parse(keys)? })),
};

/// The hidden layers of a file that sets none: the noise in a prediction does not depend on the width, and a wider layer
/// takes longer.
const DEFAULT_LAYERS: [u32; 1] = [64];

/// A network with hidden layers.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkLearner {
    /// The width of each hidden layer.
    pub layers: Vec<u32>,
    /// How it is trained.
    pub training: DpSgd,
}

fn parse_layers(keys: &TrainKeys<'_>) -> Result<Vec<u32>, PipelineFileError> {
    const LAYERS: &str = "a list of 1 to 16 whole numbers from 1 to 65536, the widths of the hidden layers, such as \
                          [64, 16]";
    if !keys.has("layers") {
        return Ok(DEFAULT_LAYERS.to_vec());
    }
    let widths = keys.numbers("layers", LAYERS)?;
    let whole = |width: &f64| (1.0..=65_536.0).contains(width) && width.fract() == 0.0;
    let fits = widths.iter().all(whole) && (1..=16).contains(&widths.len());
    if fits { Ok(widths.iter().map(|width| *width as u32).collect()) } else { Err(keys.wrong("layers", LAYERS)) }
}

impl Learner for NetworkLearner {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn write_keys(&self, out: &mut String) {
        out.push_str(&format!("layers = {:?}\n", self.layers));
        self.training.write(out);
    }

    fn targets(&self) -> Targets {
        Targets::Both
    }

    fn supports_several_classes(&self) -> bool {
        true
    }

    fn declared_rows(&self) -> Option<u32> {
        self.training.rows
    }

    fn mechanisms(&self, inputs: &Inputs, budget: &TrainingBudget<'_>) -> Result<Vec<Mechanism>, PlanRefusal> {
        self.training.mechanisms(inputs, &self.layers, budget)
    }

    fn matches_charge(&self, inputs: &Inputs, charged: &[Mechanism]) -> bool {
        self.training.charged(inputs, &self.layers, charged).is_some()
    }

    fn memory_bytes(&self, inputs: &Inputs) -> f64 {
        dp_sgd::memory_bytes(inputs, &self.layers)
    }

    fn training_seconds(&self, inputs: &Inputs, rows: f64) -> f64 {
        self.training.training_seconds(inputs, &self.layers, rows)
    }

    fn weights_per_row(&self, inputs: &Inputs) -> f64 {
        dp_sgd::network_weights_per_row(inputs, &self.layers)
    }

    fn releases_label_sums(&self) -> bool {
        true
    }

    fn fit(&self, session: &mut Session<Encoded>, fitting: &Fitting<'_>) -> Result<Box<dyn FittedModel>, FitError> {
        self.training.fit(session, &self.layers, fitting)
    }
}
