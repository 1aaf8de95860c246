//! Ingest: a batch is written to files, then named by a note in the log, which makes it part of its blocks.
//!
//! A failure before the note leaves files that no event names, which the doctor finds. After a failure of the note
//! itself it is unknown whether the batch was ingested; sending it again under the same id resolves that. The log must
//! never reveal how many rows were ingested.

use sage_kernel::noise::SecureNoise;

use crate::api::policy::{found, in_role};
use crate::api::secret;
use crate::api::{Engine, EngineError, Principal, lock, note, now};
use crate::catalog::{Note, Stage};
use crate::ingest::{self, Batch, IngestedBatch, LaneSource, Report, Source};
use crate::stream::{Role, Unit};

/// The result of an ingest request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngestOutcome {
    /// The batch was ingested. The report is only for principals who may see the stream's rows.
    Ingested(Report),
    /// A batch with this id was ingested before; this one had no effect.
    Duplicate,
}

impl Engine {
    /// Ingests a batch of rows under an id. Repeating an id has no effect.
    ///
    /// # Errors
    /// When any part of the batch cannot be ingested; then nothing of it is stored.
    pub fn ingest(
        &self, by: &Principal, stream: &str, batch: &str, source: Source,
    ) -> Result<IngestOutcome, EngineError> {
        let _alone = lock(&self.ingest_lock);
        let known = self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::DataEngineer)?;
            Ok(known.clone())
        })?;
        if known.batches.contains(batch) {
            return Ok(IngestOutcome::Duplicate);
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
            // A block may have been sealed in the meantime.
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
        Ok(IngestOutcome::Ingested(report))
    }
}
