//! The receipt of a release: its cost, its blocks, its submitter and its validation.

use serde::{Deserialize, Serialize};

use crate::run::Interval;

/// The receipt of a release. Budget numbers are decimal texts, as the ledger prints them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The pipeline, whose name is also the name of the release.
    pub pipeline: String,
    /// The run.
    pub run: u64,
    /// The serial number of the accepted choice within the run.
    pub attempt: u64,
    /// The number of attempts of the run, including this one.
    pub attempts: u32,
    /// Who submitted it.
    pub by: String,
    /// The stream.
    pub stream: String,
    /// The context that paid, if the policy has contexts.
    pub context: Option<String>,
    /// The blocks, as ranges of keys in sealing order.
    pub blocks: Vec<String>,
    /// The privacy filter of the stream.
    pub filter: String,
    /// The ε of this attempt alone at δ_g, on the train lane and on the test lane.
    pub epsilon: [String; 2],
    /// δ_g.
    pub delta: String,
    /// The privacy unit.
    pub unit: String,
    /// The access mode: `enforced`, or `attested` if a user's program saw rows.
    /// Receipts of earlier releases call it `door`.
    #[serde(alias = "door")]
    pub access_mode: String,
    /// The number of the charge in the log.
    pub charge: u64,
    /// The validated metric, if any.
    pub validator: Option<String>,
    /// The target.
    pub target: Option<String>,
    /// The confidence of the verdict.
    pub confidence: Option<String>,
    /// What the test found, where `best_constant` is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Interval>,
    /// The metric of the best constant prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_constant: Option<Interval>,
}
