//! Rows go in: a batch is written, then named in the log, and from then on it is there.
//!
//! Whatever fails before the note leaves files that nobody names, and the doctor finds them. Whatever fails at
//! the note leaves it open whether the batch is in: sending it again under its id settles that. It must never
//! let the log tell how many rows came.

use sage_kernel::noise::SecureNoise;

use super::policy::{found, in_role};
use super::secret;
use super::{Engine, EngineError, Principal, lock, note, now};
use crate::catalog::{Note, Stage};
use crate::ingest::{self, Batch, IngestedBatch, LaneSource, Report, Source};
use crate::stream::{Role, Unit};

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fed {
    /// It is in. What was dropped or changed is for those who may see the stream's rows, and for nobody else.
    Taken(Report),
    /// A batch of this id is in already; this one had no effect.
    Before,
}

impl Engine {
    /// Takes in a batch of rows under an id. The same id again has no effect.
    ///
    /// # Errors
    /// When anything of the batch cannot be taken in; then nothing of it is.
    pub fn ingest(&self, by: &Principal, stream: &str, batch: &str, source: Source) -> Result<Fed, EngineError> {
        let _alone = lock(&self.feeding);
        let known = self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::DataEngineer)?;
            Ok(known.clone())
        })?;
        if known.batches.contains(batch) {
            return Ok(Fed::Before);
        }
        let users = match known.file.unit {
            Unit::Event => None,
            Unit::User { .. } => Some(secret::load(self.path(), stream, known.secret.as_deref())?),
        };
        let mut noise = SecureNoise::new()?;
        let lanes = LaneSource { noise: &mut noise, users: users.as_ref() };
        let received = i64::try_from(now()).unwrap_or(i64::MAX).saturating_mul(1000);
        let closed = |key: &str| known.stage(key) != Stage::Open;
        let batch = Batch { id: batch, received };
        let IngestedBatch { manifest, report } =
            ingest::ingest(&known.file, source, batch, lanes, &closed, &self.blocks)?;
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            // Somebody may have sealed one of the blocks in the meantime.
            if let Some(part) = manifest.parts.iter().find(|part| known.stage(&part.block) != Stage::Open) {
                return Err(EngineError::Stage {
                    block: part.block.clone(),
                    needed: "open any more; send the batch again",
                });
            }
            let there = gate.ledger().stream(id).map_or(&[][..], |stream| stream.block_keys());
            let there: std::collections::BTreeSet<&String> = there.iter().collect();
            let mut keys: Vec<String> = manifest.parts.iter().map(|part| part.block.clone()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.retain(|key| !there.contains(key));
            if !keys.is_empty() {
                gate.add_blocks(now(), id, keys)?;
            }
            let manifest = manifest.to_bytes().unwrap_or_default();
            let (stream, by) = (stream.to_owned(), by.name().to_owned());
            note(gate, catalog, &Note::RowsIngested { stream, manifest, by, at: Some(now()) })?;
            Ok(())
        })?;
        Ok(Fed::Taken(report))
    }
}
