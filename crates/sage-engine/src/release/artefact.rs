//! The files of a release.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use sage_model::bundle::{Bundle, Card, CardAccess, Graph, Validation, try_out};
use serde::{Deserialize, Serialize};

use super::receipt::Receipt;
use crate::run::ReleasedStatistic;

/// The kind of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A model for predictions.
    Model,
    /// A number or a table.
    Statistic,
}

/// The files of a release with their digest.
pub(crate) struct Artefact {
    pub(crate) digest: String,
    pub(crate) files: Vec<(String, Bytes)>,
}

/// Writes the files of a model, after a trial run on synthetic rows.
pub(crate) fn model(graph: Graph, receipt: &Receipt) -> Result<Artefact, String> {
    try_out(&graph).map_err(|refusal| refusal.to_string())?;
    let bytes = serde_json::to_vec_pretty(receipt).map_err(|error| error.to_string())?;
    let bundle = Bundle::write(graph, &card(receipt), &bytes).map_err(|error| error.to_string())?;
    let files = bundle.files().map(|(name, bytes)| (name.to_owned(), Bytes::copy_from_slice(bytes)));
    Ok(Artefact { digest: bundle.digest(), files: files.collect() })
}

/// Writes the files of a statistic.
pub(crate) fn statistic(published: &ReleasedStatistic, receipt: &Receipt) -> Result<Artefact, String> {
    let json = |value: Result<Vec<u8>, serde_json::Error>| value.map(Bytes::from).map_err(|error| error.to_string());
    let files = vec![
        ("receipt.json".to_owned(), json(serde_json::to_vec_pretty(receipt))?),
        (STATISTIC.to_owned(), json(serde_json::to_vec_pretty(published))?),
        ("statistic.parquet".to_owned(), table(published)?),
    ];
    Ok(Artefact { digest: digest(named(&files)).to_string(), files })
}

/// BLAKE3 over the names, lengths and bytes of files in the order of their names.
pub(crate) fn digest<'files>(files: impl Iterator<Item = (&'files str, &'files [u8])>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in files {
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.finalize()
}

/// Files as [`digest`] takes them.
pub(super) fn named(files: &[(String, Bytes)]) -> impl Iterator<Item = (&str, &[u8])> {
    files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_ref()))
}

/// The name of the file from which a statistic is read back.
pub(super) const STATISTIC: &str = "statistic.json";

fn table(published: &ReleasedStatistic) -> Result<Bytes, String> {
    let lines = &published.lines;
    let keys: StringArray = lines.iter().map(|line| line.key.as_deref()).collect();
    let number = |part: fn(&crate::run::Line) -> Option<f64>| -> ArrayRef {
        Arc::new(lines.iter().map(part).collect::<Float64Array>())
    };
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("key", Arc::new(keys) as ArrayRef, true),
        ("value", number(|line| line.value), true),
        ("low", number(|line| line.low), true),
        ("high", number(|line| line.high), true),
    ])
    .map_err(|error| error.to_string())?;
    let properties = WriterProperties::builder().set_created_by("sage".to_owned()).build();
    let mut writer =
        ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(|error| error.to_string())?;
    writer.write(&batch).map_err(|error| error.to_string())?;
    writer.into_inner().map(Bytes::from).map_err(|error| error.to_string())
}

fn card(receipt: &Receipt) -> Card {
    // Every unit is in one lane only, so the loss of a model is that of its more expensive lane.
    let [train, test] = &receipt.epsilon;
    let validation = receipt.validator.as_ref().map(|validator| Validation {
        validator: validator.clone(),
        target: receipt.target.clone().unwrap_or_default(),
        confidence: receipt.confidence.clone().unwrap_or_default(),
        estimate: receipt.estimate.map(|estimate| estimate.to_string()),
        best_constant: receipt.best_constant.map(|constant| constant.to_string()),
    });
    Card {
        name: receipt.pipeline.clone(),
        intended_use: format!("Released by the pipeline {} on the stream {}.", receipt.pipeline, receipt.stream),
        stream: receipt.stream.clone(),
        blocks: receipt.blocks.clone(),
        epsilon: format!("{train} (train lane), {test} (test lane)"),
        delta: receipt.delta.clone(),
        unit: receipt.unit.clone(),
        filter: receipt.filter.clone(),
        access: if receipt.access_mode == "attested" { CardAccess::Attested } else { CardAccess::Enforced },
        validation,
        attempts: receipt.attempts,
    }
}
