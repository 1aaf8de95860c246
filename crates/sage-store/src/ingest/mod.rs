//! Ingest: from files and pipes to the parts of blocks, one batch at a time.
//!
//! One thread decodes and checks, the other sends rows to blocks and lanes and writes them; both hold a bounded
//! amount of memory, whatever comes in. A batch is all or nothing: [`ingest`] returns a [`Manifest`] of durable
//! files that the caller enters into the log, and until then they are parts of nothing; after an error they are
//! gone. What happens to a row depends on that row, public facts and coins, and on no other row.

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

pub use assign::Lanes;
pub use check::REASON_COLUMN;
pub use error::IngestError;
pub use manifest::{Manifest, NoManifest, QUARANTINE, file_name};
pub use report::{Reason, Report};
pub use source::{CsvTexts, Format, Outlined, Source, Typed, outline};

use assign::Assigner;
use check::{Checked, Checker};
use collect::Collector;
use source::{Batches, Spool};

use crate::blocks::BlockStore;
use crate::quiet::{READER, silence_readers};
use crate::stream::StreamFile;

/// Batches of rows that may wait between the threads.
const WAITING: usize = 8;
const BATCH_ID_LIMIT: usize = 256;

/// What a caller says about a batch. All of it is public.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'engine> {
    /// Its id, by which the log knows whether it was taken in before.
    pub id: &'engine str,
    /// When it was received, in microseconds since 1970, UTC. Its day names late blocks.
    pub received: i64,
}

/// A batch that lies durably in the store and is waiting for the log to name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// What goes into the log.
    pub manifest: Manifest,
    /// What became of the rows, for those who may see it, and never for the log.
    pub report: Report,
}

/// Takes in a batch: decodes, checks, splits into blocks and lanes, and writes parts, durably.
///
/// The caller has made sure that the log does not name the batch yet. `closed` says of a block's key whether it
/// takes no more rows. The same batch tried again writes files of the same names, so that what a crash left
/// behind is replaced.
///
/// # Errors
/// When anything of it cannot be taken in. Then nothing of it is.
pub fn ingest(
    stream: &StreamFile, source: Source, batch: Batch<'_>, lanes: Lanes<'_>, closed: &(dyn Fn(&str) -> bool + Sync),
    store: &BlockStore,
) -> Result<Ingested, IngestError> {
    if batch.id.is_empty() || batch.id.len() > BATCH_ID_LIMIT || batch.id.chars().any(char::is_control) {
        return Err(IngestError::BatchId);
    }
    let salt = lane::salt(lanes.noise)?;
    let assigner = Assigner::new(stream, batch.received, lanes, closed)?;
    let mut collector = Collector::new(stream, store, batch.id, assigner, salt);
    // Where the blocks are there is room for as many rows; a bucket has no place for a file that is not kept.
    let spool = Spool::new(store.root().unwrap_or(&std::env::temp_dir()));
    silence_readers();
    let (sender, receiver) = sync_channel(WAITING);
    let result = std::thread::scope(|scope| {
        let decoder = Builder::new().name(READER.to_owned());
        let decoding = decoder.spawn_scoped(scope, move || decode(stream, source, spool, &sender));
        let collected = collect(receiver, &mut collector);
        let decoded = match decoding.map(ScopedJoinHandle::join) {
            Ok(Ok(decoded)) => decoded,
            _ => Err(IngestError::Encoding),
        };
        // Where the collector stopped, the decoder was merely told to.
        collected?;
        let mut report = decoded?;
        let (manifest, stored) = collector.finish()?;
        report.add(stored);
        Ok(Ingested { manifest, report })
    });
    if result.is_err() {
        collector.undo();
    }
    result
}

/// Decodes and checks until the source or the receiver ends.
fn decode(
    stream: &StreamFile, source: Source, spool: Spool, sender: &SyncSender<Checked>,
) -> Result<Report, IngestError> {
    let checker = Checker::new(stream);
    let mut report = Report::default();
    let mut batches = Batches::open(source, stream, spool)?;
    while let Some(found) = batches.next(stream)? {
        let checked = checker.check(&batches.file, &found, &mut report)?;
        if sender.send(checked).is_err() {
            break;
        }
    }
    Ok(report)
}

fn collect(receiver: Receiver<Checked>, collector: &mut Collector<'_>) -> Result<(), IngestError> {
    for checked in receiver {
        collector.take(checked)?;
    }
    Ok(())
}
