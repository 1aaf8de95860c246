//! Quarantined rows.

use sage_engine::{Engine, EngineError, Principal, QuarantineView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ingest::IngestResult;
use super::requests::QuarantineAction;
use crate::format::timestamp;

/// A file of quarantined rows, without their number.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QuarantinedFile {
    /// Its name.
    pub file: String,
    /// The batch that brought the rows.
    pub batch: String,
    /// When the batch was ingested; `null` if an older release of Sage did it.
    pub time: Option<String>,
    /// Why the rows are quarantined.
    pub reasons: Vec<String>,
}

impl From<&QuarantineView> for QuarantinedFile {
    fn from(view: &QuarantineView) -> Self {
        Self {
            file: view.file.clone(),
            batch: view.batch.clone(),
            time: view.at.map(timestamp),
            reasons: view.reasons.clone(),
        }
    }
}

/// The result of an action on files of quarantined rows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QuarantineResult {
    /// The files.
    pub files: Vec<String>,
    /// The batches that were ingested again.
    pub batches: Vec<IngestResult>,
}

/// Releases or erases files of quarantined rows.
///
/// # Errors
/// When the user may not do this, or a file does not exist.
pub fn apply(
    engine: &Engine, user: &Principal, stream: &str, action: QuarantineAction, files: &[String],
) -> Result<QuarantineResult, EngineError> {
    let batches = match action {
        QuarantineAction::Release => engine.release_quarantine(user, stream, files)?,
        QuarantineAction::Erase => {
            engine.erase_quarantine(user, stream, files)?;
            Vec::new()
        }
    };
    let batches = batches.iter().map(|(batch, outcome)| IngestResult::new(batch, outcome)).collect();
    Ok(QuarantineResult { files: files.to_vec(), batches })
}
