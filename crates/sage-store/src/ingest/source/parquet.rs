//! Parquet, read in small batches of the declared columns.
//!
//! A small file must not be able to exhaust memory by what it claims. So its metadata is checked against limits first
//! (`pages`), texts are read as views into their pages, and batches with much text are split.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::pages::{self, DAMAGED};
use super::{BATCH_BYTES, BATCH_ROWS, Decoder, RawBatch, Typing, column_indices, unreadable};
use crate::ingest::convert::Converter;
use crate::ingest::error::IngestError;
use crate::stream::{Kind, StreamFile};

/// The most bytes of a footer, enough for ten thousand columns in a few dozen row groups.
const FOOTER_LIMIT: u32 = 64 << 20;

pub(super) struct Rows {
    file: String,
    reader: ParquetRecordBatchReader,
    /// For each declared column, its index in a batch.
    indices: Vec<usize>,
    /// For each column of a batch, the most bytes of a text that are kept.
    longest: Vec<usize>,
    /// The parts of a split batch, in reverse order.
    pieces: Vec<RecordBatch>,
}

impl Rows {
    pub(super) fn open(file: &str, mut bytes: File, stream: &StreamFile) -> Result<Self, IngestError> {
        let malformed = |reason| IngestError::Malformed { file: file.to_owned(), line: None, reason };
        let damaged = || malformed(DAMAGED);
        pages::check_footer(&read_footer(file, &mut bytes)?).map_err(malformed)?;
        // Arrow hints of the writer are not needed: the stored types are declared.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&bytes, options.clone()).map_err(|_| damaged())?;
        let present: Vec<&str> = metadata.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let names: Vec<String> = stream.columns.iter().map(|column| column.name.clone()).collect();
        let roots = column_indices(file, &names, &present)?;
        for (column, &root) in stream.columns.iter().zip(&roots) {
            // Checked before any page is decompressed, because values of other types could have any size.
            let found = metadata.schema().field(root).data_type();
            let checked = Converter::new(column).check(found, Typing::Typed);
            checked.map_err(|mismatch| mismatch.into_error(file, &column.name))?;
        }
        let options = options.with_schema(Arc::new(read_types(metadata.schema(), stream)));
        // If a column cannot be read as a dictionary, all are read with their own types.
        let parsed = Arc::clone(metadata.metadata());
        let metadata = ArrowReaderMetadata::try_new(parsed, options).unwrap_or(metadata);
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        let leaves: Vec<usize> =
            (0..metadata.parquet_schema().num_columns()).filter(|&leaf| mask.leaf_included(leaf)).collect();
        let safe_rows = pages::check_pages(&bytes, metadata.metadata(), &leaves).map_err(malformed)?;
        let rows = batch_rows(&metadata, &roots).min(safe_rows);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
        let reader = builder.with_projection(mask).with_batch_size(rows).build().map_err(|_| damaged())?;
        // A projection keeps the column order of the file.
        let mut order = roots.clone();
        order.sort_unstable();
        let indices: Vec<usize> = roots.iter().filter_map(|root| order.binary_search(root).ok()).collect();
        let mut longest = vec![0; order.len()];
        for (column, &index) in stream.columns.iter().zip(&indices) {
            longest[index] = if let Kind::Text { longest } = column.kind { longest as usize } else { 0 };
        }
        Ok(Self { file: file.to_owned(), reader, indices, longest, pieces: Vec::new() })
    }

    /// About how many bytes the texts of these rows take when each is copied.
    fn text_bytes(&self, rows: &RecordBatch) -> usize {
        let bytes = |(column, &longest): (&ArrayRef, &usize)| {
            let texts = column.as_string_view_opt();
            texts.map_or(0, |texts| texts.lengths().map(|length| longest.min(length as usize)).sum())
        };
        rows.columns().iter().zip(&self.longest).map(bytes).sum()
    }
}

/// Reads the columns and their types from the footer.
pub(super) fn read_schema(file: &str, mut bytes: File) -> Result<Schema, IngestError> {
    let malformed = |reason| IngestError::Malformed { file: file.to_owned(), line: None, reason };
    pages::check_footer(&read_footer(file, &mut bytes)?).map_err(malformed)?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&bytes, options).map_err(|_| malformed(DAMAGED))?;
    Ok(metadata.schema().as_ref().clone())
}

/// Reads the footer. Its length is at the end of the file and is checked against the file's size before allocation.
fn read_footer(file: &str, bytes: &mut File) -> Result<Vec<u8>, IngestError> {
    let damaged = || IngestError::Malformed { file: file.to_owned(), line: None, reason: DAMAGED };
    let failed = |error: std::io::Error| unreadable(file, &error);
    let length = bytes.seek(SeekFrom::End(0)).map_err(failed)?;
    if length < 12 {
        return Err(damaged());
    }
    bytes.seek(SeekFrom::End(-8)).map_err(failed)?;
    let mut end = [0; 8];
    bytes.read_exact(&mut end).map_err(failed)?;
    let footer = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    if footer > FOOTER_LIMIT || u64::from(footer) + 12 > length || end[4..] != *b"PAR1" {
        return Err(damaged());
    }
    bytes.seek(SeekFrom::End(-8 - i64::from(footer))).map_err(failed)?;
    let mut footer = vec![0; footer as usize];
    bytes.read_exact(&mut footer).map_err(failed)?;
    Ok(footer)
}

/// The types in which columns are read. Categories are read as dictionaries, so that each distinct text is looked up
/// once. Other texts are read as views, so that a text that a million rows share is in memory once.
fn read_types(schema: &Schema, stream: &StreamFile) -> Schema {
    let category =
        |name: &str| stream.column(name).is_some_and(|(_, column)| matches!(column.kind, Kind::Category { .. }));
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 if category(field.name()) => {
            let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(Field::new(field.name(), kind, field.is_nullable()))
        }
        DataType::Utf8 => Arc::new(Field::new(field.name(), DataType::Utf8View, field.is_nullable())),
        _ => Arc::clone(field),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// The number of rows that take a few megabytes, by the file's metadata.
fn batch_rows(metadata: &ArrowReaderMetadata, roots: &[usize]) -> usize {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    let mut selected = vec![false; metadata.schema().fields().len()];
    for &root in roots {
        selected[root] = true;
    }
    for group in metadata.metadata().row_groups() {
        rows = rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or_default());
        for (leaf, column) in group.columns().iter().enumerate() {
            if selected[metadata.parquet_schema().get_column_root_idx(leaf)] {
                bytes = bytes.saturating_add(u64::try_from(column.uncompressed_size()).unwrap_or_default());
            }
        }
    }
    // Dictionary-encoded values are several times as large when decoded.
    let row = 1 + 16 * roots.len() + usize::try_from(bytes / rows.max(1)).unwrap_or(usize::MAX / 2);
    (BATCH_BYTES / row).clamp(16, BATCH_ROWS)
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<RawBatch>, IngestError> {
        let mut batch = match self.pieces.pop() {
            Some(piece) => piece,
            None => {
                let Some(batch) = self.reader.next() else { return Ok(None) };
                let damaged = |_| IngestError::Malformed { file: self.file.clone(), line: None, reason: DAMAGED };
                batch.map_err(damaged)?
            }
        };
        while batch.num_rows() > 1 && self.text_bytes(&batch) > BATCH_BYTES {
            let half = batch.num_rows() / 2;
            self.pieces.push(batch.slice(half, batch.num_rows() - half));
            batch = batch.slice(0, half);
        }
        let columns = self.indices.iter().map(|&index| Arc::clone(batch.column(index))).collect();
        Ok(Some(RawBatch { columns, rows: batch.num_rows(), typing: Typing::Typed }))
    }
}
