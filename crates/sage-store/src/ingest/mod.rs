//! Ingest: reads files and pipes and writes the parts of blocks, one batch at a time.
//!
//! One thread decodes and checks rows; the other assigns them to blocks and lanes and writes them. Both use bounded
//! memory, whatever the input. A batch is all or nothing: [`ingest`] returns a [`Manifest`] of durable files, which
//! belong to no block until the caller appends the manifest to the log; after an error the files are removed. The
//! treatment of a row depends on the row, on public facts and on random draws, never on another row.

mod assign;
mod check;
mod collect;
mod convert;
mod error;
mod lane;
mod manifest;
mod part;
mod report;
mod source;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};

pub use assign::LaneSource;
pub use check::REASON_COLUMN;
pub use error::IngestError;
pub use manifest::{Manifest, ManifestError, QUARANTINE, file_name};
pub use report::{Reason, Report};
pub use source::CsvTexts;
pub use source::{ColumnOutline, ColumnType, Format, Source, read_outline};

use assign::Assigner;
use check::{CheckedRows, Checker};
use collect::Collector;
use source::{Batches, Spool};

use crate::blocks::BlockStore;
use crate::quiet::{READER, silence_readers};
use crate::stream::StreamFile;

/// Capacity of the channel between the two threads, in batches of rows.
const CHANNEL_CAPACITY: usize = 8;
const BATCH_ID_LIMIT: usize = 256;

/// The public facts about a batch, as the caller states them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'engine> {
    /// Its id, by which the log recognises a batch that was ingested before.
    pub id: &'engine str,
    /// When it was received, in microseconds since 1970, UTC. The day is part of the keys of late blocks.
    pub received: i64,
}

/// A batch that is durable in the store and not yet in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestedBatch {
    /// The files of the batch, to be appended to the log.
    pub manifest: Manifest,
    /// Exact row counts. They must never reach the log, and only data engineers may see them.
    pub report: Report,
}

/// Ingests a batch: decodes and checks its rows, assigns them to blocks and lanes, and writes durable parts.
///
/// The caller checks first that the log does not contain the batch. `closed` returns whether the block with a key
/// accepts no more rows. A retry of the same batch writes files with the same names, so it replaces what a crash left
/// behind.
///
/// # Errors
/// When any of it cannot be ingested. Then none of it is.
pub fn ingest(
    stream: &StreamFile, source: Source, batch: Batch<'_>, lanes: LaneSource<'_>,
    closed: &(dyn Fn(&str) -> bool + Sync), store: &BlockStore,
) -> Result<IngestedBatch, IngestError> {
    if batch.id.is_empty() || batch.id.len() > BATCH_ID_LIMIT || batch.id.chars().any(char::is_control) {
        return Err(IngestError::BatchId);
    }
    let salt = lane::draw_salt(lanes.noise)?;
    let assigner = Assigner::new(stream, batch.received, lanes, closed)?;
    let mut collector = Collector::new(stream, store, batch.id, assigner, salt);
    // The disk of the blocks has space for as many rows. A bucket cannot hold a temporary file.
    let spool = Spool::new(store.root().unwrap_or(&std::env::temp_dir()));
    silence_readers();
    let (sender, receiver) = sync_channel(CHANNEL_CAPACITY);
    let result = std::thread::scope(|scope| {
        let decoder = Builder::new().name(READER.to_owned());
        let decoding = decoder.spawn_scoped(scope, move || decode(stream, source, spool, &sender));
        let collected = collect(receiver, &mut collector);
        let decoded = match decoding.map(ScopedJoinHandle::join) {
            Ok(Ok(decoded)) => decoded,
            _ => Err(IngestError::Encoding),
        };
        // If the collector failed, the decoder only stopped because of that.
        collected?;
        let mut report = decoded?;
        let (manifest, stored) = collector.finish()?;
        report.add(stored);
        Ok(IngestedBatch { manifest, report })
    });
    if result.is_err() {
        collector.remove_files();
    }
    result
}

/// Decodes and checks rows until the source ends or the receiver is dropped.
fn decode(
    stream: &StreamFile, source: Source, spool: Spool, sender: &SyncSender<CheckedRows>,
) -> Result<Report, IngestError> {
    let checker = Checker::new(stream);
    let mut report = Report::default();
    let mut batches = Batches::open(source, stream, spool)?;
    while let Some(raw) = batches.next(stream)? {
        let checked = checker.check(&batches.file, &raw, &mut report)?;
        if sender.send(checked).is_err() {
            break;
        }
    }
    Ok(report)
}

fn collect(receiver: Receiver<CheckedRows>, collector: &mut Collector<'_>) -> Result<(), IngestError> {
    for checked in receiver {
        collector.push(checked)?;
    }
    Ok(())
}
