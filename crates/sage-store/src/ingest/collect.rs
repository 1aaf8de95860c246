//! Collects rows up to a memory limit and then writes them block by block.
//!
//! Files written here belong to no block before the log contains them. After an error they are removed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;

use super::assign::{Assigner, Assignment, Destination};
use super::check::{CheckedRows, quarantine_rows};
use super::error::IngestError;
use super::manifest::{Manifest, QUARANTINE, file_name};
use super::part::PartEncoder;
use super::report::{Reason, Report};
use crate::blocks::BlockStore;
use crate::blocks::Part;
use crate::stream::StreamFile;
use crate::threads::threads;

/// About how many bytes of rows are buffered before they are written.
const CHUNK_BYTES: usize = 192 << 20;
const QUARANTINE_BYTES: usize = 32 << 20;
/// Memory for a row besides its values: its block, its lane and its entry in [`BlockOrder`].
const ROW_BYTES: usize = 16;

/// Buffered rows.
#[derive(Default)]
struct Chunk {
    batches: Vec<Vec<ArrayRef>>,
    assignments: Vec<Assignment>,
    bytes: usize,
}

/// Buffers checked rows and writes them as parts.
pub(super) struct Collector<'engine> {
    stream: &'engine StreamFile,
    store: &'engine BlockStore,
    batch: &'engine str,
    assigner: Assigner<'engine>,
    parts: PartEncoder,
    salt: [u8; 32],
    chunk: Chunk,
    /// For each block, the number of its parts from this batch.
    sequences: Vec<u64>,
    quarantined: Vec<RecordBatch>,
    quarantined_bytes: usize,
    output: Mutex<Output>,
    report: Report,
}

#[derive(Default)]
struct Output {
    /// Every path that may exist, written completely or not.
    paths: Vec<String>,
    parts: Vec<Part>,
    quarantine: Vec<Part>,
}

impl<'engine> Collector<'engine> {
    pub(super) fn new(
        stream: &'engine StreamFile, store: &'engine BlockStore, batch: &'engine str, assigner: Assigner<'engine>,
        salt: [u8; 32],
    ) -> Self {
        Self {
            stream,
            store,
            batch,
            assigner,
            parts: PartEncoder::new(stream),
            salt,
            chunk: Chunk::default(),
            sequences: Vec::new(),
            quarantined: Vec::new(),
            quarantined_bytes: 0,
            output: Mutex::new(Output::default()),
            report: Report::default(),
        }
    }

    /// Adds rows, and writes the buffered ones if they exceed the memory limit.
    pub(super) fn push(&mut self, checked: CheckedRows) -> Result<(), IngestError> {
        if let Some(quarantined) = checked.quarantined {
            self.quarantine(quarantined)?;
        }
        if checked.rows == 0 {
            return Ok(());
        }
        let assignment = self.assigner.assign(&checked.columns, checked.rows)?;
        let mut stored = checked.rows;
        if assignment.some_late {
            let destinations = &self.assigner.destinations;
            let late = |row: usize| matches!(destinations[assignment.blocks[row] as usize], Destination::Quarantine);
            let rows = BooleanBuffer::collect_bool(checked.rows, late);
            stored -= rows.count_set_bits();
            self.report.quarantined += rows.count_set_bits() as u64;
            let names = self.stream.columns.iter().map(|column| column.name.as_str());
            let late_rows = quarantine_rows(names, &checked.columns, &rows, Reason::Late).ok_or(IngestError::Stream)?;
            self.quarantine(late_rows)?;
        }
        self.report.stored += stored as u64;
        self.chunk.bytes += ROW_BYTES * checked.rows + checked.columns.iter().map(array_bytes).sum::<usize>();
        self.chunk.batches.push(checked.columns);
        self.chunk.assignments.push(assignment);
        if self.chunk.bytes >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn quarantine(&mut self, rows: RecordBatch) -> Result<(), IngestError> {
        self.quarantined_bytes += rows.columns().iter().map(array_bytes).sum::<usize>();
        self.quarantined.push(rows);
        if self.quarantined_bytes >= QUARANTINE_BYTES { self.flush_quarantine() } else { Ok(()) }
    }

    /// Writes all buffered rows, one part per block.
    fn flush(&mut self) -> Result<(), IngestError> {
        let chunk = std::mem::take(&mut self.chunk);
        let order = BlockOrder::new(&chunk.assignments, &self.assigner.destinations);
        self.sequences.resize(self.assigner.destinations.len(), 0);
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), IngestError> {
            while let Some(&block) = order.blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let written = self.write_part(&chunk.batches, &order, block);
                if written.is_err() {
                    next.store(order.blocks.len(), Ordering::Relaxed);
                    return written;
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let other: Vec<_> = (1..threads()).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for thread in other {
                result = result.and(thread.join().unwrap_or(Err(IngestError::Encoding)));
            }
            result
        })?;
        for &block in &order.blocks {
            self.sequences[block as usize] += 1;
        }
        Ok(())
    }

    fn write_part(&self, batches: &[Vec<ArrayRef>], order: &BlockOrder, block: u32) -> Result<(), IngestError> {
        let Destination::Block(key) = &self.assigner.destinations[block as usize] else { return Ok(()) };
        let file = file_name(self.batch, self.sequences[block as usize]);
        let bytes = self.parts.encode(batches, order.lanes(block), &self.file_salt(key, &file))?;
        let part = self.write(key, file, bytes)?;
        self.with_output(|output| output.parts.push(part))
    }

    /// The salt of a file, derived from the secret of the batch.
    fn file_salt(&self, folder: &str, file: &str) -> String {
        blake3::keyed_hash(&self.salt, format!("{folder}/{file}").as_bytes()).to_hex().as_str()[..32].to_owned()
    }

    /// Writes a file, encrypted if the store has keys. The digest of the part is that of the stored bytes.
    fn write(&self, block: &str, file: String, bytes: Bytes) -> Result<Part, IngestError> {
        let mut part = Part { block: block.to_owned(), file, digest: [0; 32] };
        let stream = &self.stream.name;
        let path = part.path(stream);
        let bytes = self.store.encrypt(&part.key_owner(stream), &path, bytes)?;
        part.digest = *blake3::hash(&bytes).as_bytes();
        self.with_output(|output| output.paths.push(path.clone()))?;
        self.store.write(&path, bytes)?;
        Ok(part)
    }

    fn with_output<T>(&self, work: impl FnOnce(&mut Output) -> T) -> Result<T, IngestError> {
        Ok(work(&mut *self.output.lock().map_err(|_| IngestError::Encoding)?))
    }

    fn flush_quarantine(&mut self) -> Result<(), IngestError> {
        let rows = std::mem::take(&mut self.quarantined);
        self.quarantined_bytes = 0;
        let sequence = self.with_output(|output| output.quarantine.len() as u64)?;
        let file = file_name(self.batch, sequence);
        let salt = self.file_salt(QUARANTINE, &file);
        let bytes = encode_quarantine(self.stream, &rows, salt).ok_or(IngestError::Encoding)?;
        let part = self.write(QUARANTINE, file, bytes)?;
        self.with_output(|output| output.quarantine.push(part))
    }

    /// Writes the remaining rows and makes all files durable.
    pub(super) fn finish(&mut self) -> Result<(Manifest, Report), IngestError> {
        self.flush()?;
        self.flush_quarantine()?;
        let output = self.with_output(std::mem::take)?;
        let synced = self.store.sync(&output.paths);
        let Output { paths, mut parts, quarantine } = output;
        if let Err(error) = synced {
            self.with_output(|output| output.paths = paths)?;
            return Err(error.into());
        }
        parts.sort_unstable_by(|one, other| (&one.block, &one.file).cmp(&(&other.block, &other.file)));
        let manifest = Manifest { batch: self.batch.to_owned(), parts, quarantine };
        Ok((manifest, std::mem::take(&mut self.report)))
    }

    /// Removes all files of the batch. A file that cannot be removed is in no event, and `sage doctor` finds it.
    pub(super) fn remove_files(&self) {
        for path in self.with_output(|output| std::mem::take(&mut output.paths)).unwrap_or_default() {
            let _orphan = self.store.delete(&path);
        }
    }
}

/// The rows of a chunk sorted by block, then by lane (train before test), then by arrival. It is a counting sort over
/// buckets: a bucket is twice the block's code, plus one for the test lane.
struct BlockOrder {
    /// The index in `rows` at which each bucket starts.
    starts: Vec<u32>,
    /// Pairs of the indices of batch and row.
    rows: Vec<(u32, u32)>,
    /// The blocks that have rows in the chunk.
    blocks: Vec<u32>,
}

impl BlockOrder {
    fn new(assignments: &[Assignment], destinations: &[Destination]) -> Self {
        let stored: Vec<bool> =
            destinations.iter().map(|destination| matches!(destination, Destination::Block(_))).collect();
        let buckets = || {
            assignments.iter().enumerate().flat_map(|(batch, assignment)| {
                let rows = assignment.blocks.iter().zip(&assignment.lanes).enumerate();
                rows.map(move |(row, (&block, &test))| {
                    (2 * block as usize + usize::from(test), (batch as u32, row as u32))
                })
            })
        };
        let mut starts = vec![0_u32; 2 * destinations.len() + 1];
        for (bucket, _) in buckets().filter(|(bucket, _)| stored[bucket / 2]) {
            starts[bucket + 1] += 1;
        }
        let blocks = (0..destinations.len()).filter(|&block| starts[2 * block + 1] + starts[2 * block + 2] > 0);
        let blocks: Vec<u32> = blocks.map(|block| block as u32).collect();
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        let mut rows = vec![(0, 0); starts[2 * destinations.len()] as usize];
        let mut next = starts.clone();
        for (bucket, row) in buckets().filter(|(bucket, _)| stored[bucket / 2]) {
            rows[next[bucket] as usize] = row;
            next[bucket] += 1;
        }
        Self { starts, rows, blocks }
    }

    /// The rows of a block, by lane.
    fn lanes(&self, block: u32) -> [&[(u32, u32)]; 2] {
        let lane = |bucket: usize| &self.rows[self.starts[bucket] as usize..self.starts[bucket + 1] as usize];
        [lane(2 * block as usize), lane(2 * block as usize + 1)]
    }
}

/// The bytes of an array's rows. A dictionary is shared by all batches and not counted.
fn array_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        arrow::datatypes::DataType::Dictionary(..) => 4 * array.len(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

fn encode_quarantine(stream: &StreamFile, rows: &[RecordBatch], salt: String) -> Option<Bytes> {
    let names = stream.columns.iter().map(|column| column.name.as_str());
    let columns: Vec<ArrayRef> = stream.columns.iter().map(|_| arrow::array::new_empty_array(&TEXT)).collect();
    let empty = quarantine_rows(names, &columns, &BooleanBuffer::new_unset(0), Reason::Time)?;
    let mut writer = ArrowWriter::try_new(Vec::new(), empty.schema(), None).ok()?;
    writer.append_key_value_metadata(parquet::file::metadata::KeyValue::new("salt".to_owned(), salt));
    for rows in rows {
        writer.write(rows).ok()?;
    }
    writer.into_inner().ok().map(Bytes::from)
}

const TEXT: arrow::datatypes::DataType = arrow::datatypes::DataType::Utf8;
