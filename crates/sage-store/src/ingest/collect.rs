//! Rows are collected until they fill the memory set aside for them, and then written block by block.
//!
//! Nothing that is written here is seen by anyone before the log names it; what an error leaves is removed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;

use super::assign::{Assigned, Assigner, Fate};
use super::check::{Checked, quarantine};
use super::error::IngestError;
use super::manifest::{Manifest, QUARANTINE, file_name};
use super::part::Shape;
use super::report::{Reason, Report};
use crate::blocks::BlockStore;
use crate::blocks::Part;
use crate::stream::StreamFile;
use crate::threads::threads;

/// About how many bytes of rows are held before they are written.
const CHUNK_BYTES: usize = 192 << 20;
const QUARANTINE_BYTES: usize = 32 << 20;
/// What a row costs here beside its values: its block, its lane, its place in the order of blocks.
const ROW_BYTES: usize = 16;

/// Rows that wait to be written.
#[derive(Default)]
struct Chunk {
    batches: Vec<Vec<ArrayRef>>,
    assigned: Vec<Assigned>,
    bytes: usize,
}

/// Takes checked rows and makes parts of them.
pub(super) struct Collector<'engine> {
    stream: &'engine StreamFile,
    store: &'engine BlockStore,
    batch: &'engine str,
    assigner: Assigner<'engine>,
    shape: Shape,
    salt: [u8; 32],
    chunk: Chunk,
    /// For each block, how many parts it has got from this batch.
    sequences: Vec<u64>,
    aside: Vec<RecordBatch>,
    aside_bytes: usize,
    output: Mutex<Output>,
    report: Report,
}

#[derive(Default)]
struct Output {
    /// Every path on which writing was begun.
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
            shape: Shape::new(stream),
            salt,
            chunk: Chunk::default(),
            sequences: Vec::new(),
            aside: Vec::new(),
            aside_bytes: 0,
            output: Mutex::new(Output::default()),
            report: Report::default(),
        }
    }

    pub(super) fn take(&mut self, checked: Checked) -> Result<(), IngestError> {
        if let Some(aside) = checked.set_aside {
            self.set_aside(aside)?;
        }
        if checked.rows == 0 {
            return Ok(());
        }
        let assigned = self.assigner.assign(&checked.columns, checked.rows)?;
        let mut stored = checked.rows;
        if assigned.some_late {
            let fates = &self.assigner.fates;
            let late = |row: usize| matches!(fates[assigned.blocks[row] as usize], Fate::SetAside);
            let rows = BooleanBuffer::collect_bool(checked.rows, late);
            stored -= rows.count_set_bits();
            self.report.quarantined += rows.count_set_bits() as u64;
            let names = self.stream.columns.iter().map(|column| column.name.as_str());
            let aside = quarantine(names, &checked.columns, &rows, Reason::Late).ok_or(IngestError::Stream)?;
            self.set_aside(aside)?;
        }
        self.report.stored += stored as u64;
        self.chunk.bytes += ROW_BYTES * checked.rows + checked.columns.iter().map(bytes_of).sum::<usize>();
        self.chunk.batches.push(checked.columns);
        self.chunk.assigned.push(assigned);
        if self.chunk.bytes >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn set_aside(&mut self, rows: RecordBatch) -> Result<(), IngestError> {
        self.aside_bytes += rows.columns().iter().map(bytes_of).sum::<usize>();
        self.aside.push(rows);
        if self.aside_bytes >= QUARANTINE_BYTES { self.flush_quarantine() } else { Ok(()) }
    }

    /// Writes all rows that wait, a part for each block.
    fn flush(&mut self) -> Result<(), IngestError> {
        let chunk = std::mem::take(&mut self.chunk);
        let order = Order::of(&chunk.assigned, &self.assigner.fates);
        self.sequences.resize(self.assigner.fates.len(), 0);
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

    fn write_part(&self, batches: &[Vec<ArrayRef>], order: &Order, block: u32) -> Result<(), IngestError> {
        let Fate::Block(key) = &self.assigner.fates[block as usize] else { return Ok(()) };
        let file = file_name(self.batch, self.sequences[block as usize]);
        let bytes = self.shape.encode(batches, order.lanes(block), &self.salt_of(key, &file))?;
        let part = self.write(key, file, bytes)?;
        self.with_output(|output| output.parts.push(part))
    }

    fn salt_of(&self, folder: &str, file: &str) -> String {
        blake3::keyed_hash(&self.salt, format!("{folder}/{file}").as_bytes()).to_hex().as_str()[..32].to_owned()
    }

    /// Writes a file of a block as it is stored, encrypted where the store has keys; its digest is that of what is stored.
    fn write(&self, block: &str, file: String, bytes: Bytes) -> Result<Part, IngestError> {
        let mut part = Part { block: block.to_owned(), file, digest: [0; 32] };
        let stream = &self.stream.name;
        let path = part.path(stream);
        let bytes = self.store.encrypted(&part.key_owner(stream), &path, bytes)?;
        part.digest = *blake3::hash(&bytes).as_bytes();
        self.with_output(|output| output.paths.push(path.clone()))?;
        self.store.write(&path, bytes)?;
        Ok(part)
    }

    fn with_output<T>(&self, work: impl FnOnce(&mut Output) -> T) -> Result<T, IngestError> {
        Ok(work(&mut *self.output.lock().map_err(|_| IngestError::Encoding)?))
    }

    fn flush_quarantine(&mut self) -> Result<(), IngestError> {
        let rows = std::mem::take(&mut self.aside);
        self.aside_bytes = 0;
        let sequence = self.with_output(|output| output.quarantine.len() as u64)?;
        let file = file_name(self.batch, sequence);
        let salt = self.salt_of(QUARANTINE, &file);
        let bytes = encode_quarantine(self.stream, &rows, salt).ok_or(IngestError::Encoding)?;
        let part = self.write(QUARANTINE, file, bytes)?;
        self.with_output(|output| output.quarantine.push(part))
    }

    /// Writes what is left and makes everything durable.
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

    /// Removes whatever was written. What cannot be removed is named by no event and found by the doctor.
    pub(super) fn undo(&self) {
        for path in self.with_output(|output| std::mem::take(&mut output.paths)).unwrap_or_default() {
            let _orphan = self.store.delete(&path);
        }
    }
}

/// The rows of a chunk in the order of blocks, within a block train before test, within a lane as they came.
struct Order {
    /// Where the rows of a block's lane begin: twice the block's number, one more for the test lane.
    starts: Vec<u32>,
    rows: Vec<(u32, u32)>,
    /// The blocks that have rows here.
    blocks: Vec<u32>,
}

impl Order {
    fn of(assigned: &[Assigned], fates: &[Fate]) -> Self {
        let stored: Vec<bool> = fates.iter().map(|fate| matches!(fate, Fate::Block(_))).collect();
        let places = || {
            assigned.iter().enumerate().flat_map(|(batch, of)| {
                let rows = of.blocks.iter().zip(&of.lanes).enumerate();
                rows.map(move |(row, (&block, &test))| {
                    (2 * block as usize + usize::from(test), (batch as u32, row as u32))
                })
            })
        };
        let mut starts = vec![0_u32; 2 * fates.len() + 1];
        for (place, _) in places().filter(|(place, _)| stored[place / 2]) {
            starts[place + 1] += 1;
        }
        let blocks = (0..fates.len()).filter(|&block| starts[2 * block + 1] + starts[2 * block + 2] > 0);
        let blocks: Vec<u32> = blocks.map(|block| block as u32).collect();
        for place in 1..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut rows = vec![(0, 0); starts[2 * fates.len()] as usize];
        let mut next = starts.clone();
        for (place, row) in places().filter(|(place, _)| stored[place / 2]) {
            rows[next[place] as usize] = row;
            next[place] += 1;
        }
        Self { starts, rows, blocks }
    }

    fn lanes(&self, block: u32) -> [&[(u32, u32)]; 2] {
        let lane = |place: usize| &self.rows[self.starts[place] as usize..self.starts[place + 1] as usize];
        [lane(2 * block as usize), lane(2 * block as usize + 1)]
    }
}

/// The bytes of a column's own rows; what other rows share with it is counted once for all.
fn bytes_of(array: &ArrayRef) -> usize {
    match array.data_type() {
        arrow::datatypes::DataType::Dictionary(..) => 4 * array.len(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

fn encode_quarantine(stream: &StreamFile, rows: &[RecordBatch], salt: String) -> Option<Bytes> {
    let names = stream.columns.iter().map(|column| column.name.as_str());
    let columns: Vec<ArrayRef> = stream.columns.iter().map(|_| arrow::array::new_empty_array(&TEXT)).collect();
    let empty = quarantine(names, &columns, &BooleanBuffer::new_unset(0), Reason::Time)?;
    let mut writer = ArrowWriter::try_new(Vec::new(), empty.schema(), None).ok()?;
    writer.append_key_value_metadata(parquet::file::metadata::KeyValue::new("salt".to_owned(), salt));
    for rows in rows {
        writer.write(rows).ok()?;
    }
    writer.into_inner().ok().map(Bytes::from)
}

const TEXT: arrow::datatypes::DataType = arrow::datatypes::DataType::Utf8;
