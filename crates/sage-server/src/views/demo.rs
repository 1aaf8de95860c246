//! The result of `sage demo --json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs::Run;

/// The end of the demonstration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DemoReport {
    /// How long it took.
    pub seconds: f64,
    /// How many runs were accepted.
    pub accepted: u64,
    /// All runs.
    pub runs: Vec<Run>,
    /// What was released, as `name@version`.
    pub releases: Vec<String>,
    /// What was spent.
    pub budget: DemoBudget,
    /// The number of events in the log.
    pub log_events: u64,
    /// What the released models predict.
    pub prediction: DemoPrediction,
    /// The dashboard, if it is started.
    pub dashboard: Option<DashboardAddress>,
}

/// The budget of the demonstration's stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DemoBudget {
    /// The guarantee in words.
    pub promise: String,
    /// The largest loss of a block.
    pub epsilon_lost: String,
    /// The number of blocks by state.
    pub blocks: BTreeMap<String, u64>,
    /// How many blocks were read.
    pub blocks_read: u64,
}

/// A ride and what the models predict for it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DemoPrediction {
    /// The ride in words.
    pub ride: String,
    /// The prediction of each model.
    pub answers: Vec<ModelMinutes>,
}

/// The prediction of one model.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelMinutes {
    /// The model, as `name@version`.
    pub model: String,
    /// The minutes of the ride; `null` where the model has no prediction.
    pub minutes: serde_json::Value,
}

/// Where the dashboard is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DashboardAddress {
    /// Its address.
    pub address: String,
    /// A token for it.
    pub token: String,
}
