//! Small responses of the server about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The process answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Live {
    /// Always `true`.
    pub live: bool,
}

/// The log can be used and the worker runs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Always `true`.
    pub ready: bool,
}

/// The release of the program.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Problem details (RFC 9457).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemDetails {
    /// What happened, why, and what to do.
    pub detail: String,
    /// The status.
    pub status: u16,
    /// The status in words.
    pub title: String,
    /// A URI of the kind of problem; `about:blank` where the status says enough.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// A charge for a computation outside Sage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChargeResult {
    /// The number of the charge in the log.
    pub charge: u64,
}
