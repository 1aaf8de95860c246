//! The result of ingesting a batch of rows.

use sage_engine::IngestOutcome;
use sage_engine::ingest::{Reason, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of an ingest, for the data engineer who sent the batch and for nobody else: its counts are exact.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IngestResult {
    /// The id of the batch.
    pub batch: String,
    /// Whether the batch was ingested now. `false`: a batch with this id was ingested before, and nothing changed.
    pub taken: bool,
    /// The counts of rows, if the batch was ingested now.
    #[serde(flatten)]
    pub rows: Option<RowCounts>,
}

/// Numbers of rows by outcome.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RowCounts {
    /// Rows read.
    pub read: u64,
    /// Rows stored in blocks.
    pub stored: u64,
    /// Rows quarantined.
    pub quarantined: u64,
    /// Rows left out, by column and reason.
    pub dropped: Vec<ReasonCount>,
    /// Values replaced, by column and reason.
    pub changed: Vec<ReasonCount>,
}

/// Rows that one reason applies to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReasonCount {
    /// The column.
    pub column: String,
    /// The reason.
    pub reason: String,
    /// How many rows.
    pub rows: u64,
}

impl IngestResult {
    /// The result of a batch.
    #[must_use]
    pub fn new(batch: &str, outcome: &IngestOutcome) -> Self {
        let rows = match outcome {
            IngestOutcome::Ingested(report) => Some(RowCounts::from(report)),
            IngestOutcome::Duplicate => None,
        };
        Self { batch: batch.to_owned(), taken: rows.is_some(), rows }
    }
}

impl From<&Report> for RowCounts {
    fn from(report: &Report) -> Self {
        Self {
            read: report.read,
            stored: report.stored,
            quarantined: report.quarantined,
            dropped: reasons(&report.dropped),
            changed: reasons(&report.changed),
        }
    }
}

fn reasons(counts: &std::collections::BTreeMap<(String, Reason), u64>) -> Vec<ReasonCount> {
    let entry = |((column, reason), rows): (&(String, Reason), &u64)| ReasonCount {
        column: column.clone(),
        reason: reason.label().to_owned(),
        rows: *rows,
    };
    counts.iter().map(entry).collect()
}
