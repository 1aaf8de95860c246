//! The receipt: what a release cost, of which blocks, by whom and how it was tested.

use serde::{Deserialize, Serialize};

/// What was paid for a release. Numbers of the budget are decimal texts, as the ledger prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The pipeline, whose name the release has.
    pub pipeline: String,
    /// The run.
    pub run: u64,
    /// Which choice of the run was accepted.
    pub attempt: u64,
    /// How many attempts the run had, this one included.
    pub attempts: u32,
    /// Who submitted it.
    pub by: String,
    /// The stream.
    pub stream: String,
    /// The context that paid, where the policy has contexts.
    pub context: Option<String>,
    /// The blocks, as ranges of keys in the order in which they were sealed.
    pub blocks: Vec<String>,
    /// The filter by which the stream adds up losses.
    pub filter: String,
    /// The ε that this attempt by itself comes to at δ_g, on the train lane and on the test lane.
    pub epsilon: [String; 2],
    /// δ_g.
    pub delta: String,
    /// What one unit of privacy is.
    pub unit: String,
    /// `enforced`, or `attested` where code of the pipeline's owner saw rows.
    pub door: String,
    /// The number of the charge in the log.
    pub charge: u64,
    /// What was tested, if anything was.
    pub validator: Option<String>,
    /// What was to be reached.
    pub target: Option<String>,
    /// With which confidence.
    pub confidence: Option<String>,
}
