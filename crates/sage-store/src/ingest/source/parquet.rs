//! Parquet, a few rows of the declared columns at a time.
//!
//! What the file claims of itself is held against limits first (`pages`), texts are taken as places in the pages
//! they came in, and rows whose texts would be too much together are given in pieces: what a few bytes claim must
//! never be what fills the memory.

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
use super::{BATCH_BYTES, BATCH_ROWS, Decoder, Found, Typing, places, unreadable};
use crate::ingest::convert::Converter;
use crate::ingest::error::IngestError;
use crate::stream::{Kind, StreamFile};

/// The longest footer: enough for ten thousand columns in a few dozen groups.
const FOOTER_LIMIT: u32 = 64 << 20;

pub(super) struct Rows {
    file: String,
    reader: ParquetRecordBatchReader,
    /// For each declared column, its place in a batch.
    places: Vec<usize>,
    /// For each column of a batch, how many bytes of a text are kept.
    longest: Vec<usize>,
    /// Rows in hand, the next ones last.
    pieces: Vec<RecordBatch>,
}

impl Rows {
    pub(super) fn open(file: &str, mut bytes: File, stream: &StreamFile) -> Result<Self, IngestError> {
        let wrong = |reason| IngestError::Malformed { file: file.to_owned(), line: None, reason };
        let damaged = || wrong(DAMAGED);
        pages::check_footer(&footer(file, &mut bytes)?).map_err(wrong)?;
        // Hints that other writers left are not needed: what the rows must become is declared.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&bytes, options.clone()).map_err(|_| damaged())?;
        let there: Vec<&str> = metadata.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let names: Vec<String> = stream.columns.iter().map(|column| column.name.clone()).collect();
        let roots = places(file, &names, &there)?;
        for (column, &root) in stream.columns.iter().zip(&roots) {
            // Before any page is unpacked: what is of another type could be of any size.
            let found = metadata.schema().field(root).data_type();
            Converter::new(column).check(found, Typing::Typed).map_err(|wrong| wrong.of(file, &column.name))?;
        }
        let options = options.with_schema(Arc::new(as_read(metadata.schema(), stream)));
        // A column that cannot be read by its dictionary is read as it is.
        let parsed = Arc::clone(metadata.metadata());
        let metadata = ArrowReaderMetadata::try_new(parsed, options).unwrap_or(metadata);
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        let leaves: Vec<usize> =
            (0..metadata.parquet_schema().num_columns()).filter(|&leaf| mask.leaf_included(leaf)).collect();
        let fit = pages::look(&bytes, metadata.metadata(), &leaves).map_err(wrong)?;
        let rows = batch_rows(&metadata, &roots).min(fit);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
        let reader = builder.with_projection(mask).with_batch_size(rows).build().map_err(|_| damaged())?;
        // A projection keeps the order of the file.
        let mut order = roots.clone();
        order.sort_unstable();
        let places: Vec<usize> = roots.iter().filter_map(|root| order.binary_search(root).ok()).collect();
        let mut longest = vec![0; order.len()];
        for (column, &place) in stream.columns.iter().zip(&places) {
            longest[place] = if let Kind::Text { longest } = column.kind { longest as usize } else { 0 };
        }
        Ok(Self { file: file.to_owned(), reader, places, longest, pieces: Vec::new() })
    }

    /// About how many bytes the texts of these rows are once each has its own copy.
    fn text_bytes(&self, rows: &RecordBatch) -> usize {
        let bytes = |(column, &longest): (&ArrayRef, &usize)| {
            let texts = column.as_string_view_opt();
            texts.map_or(0, |texts| texts.lengths().map(|length| longest.min(length as usize)).sum())
        };
        rows.columns().iter().zip(&self.longest).map(bytes).sum()
    }
}

/// The columns and their types, as the footer has them.
pub(super) fn schema(file: &str, mut bytes: File) -> Result<Schema, IngestError> {
    let wrong = |reason| IngestError::Malformed { file: file.to_owned(), line: None, reason };
    pages::check_footer(&footer(file, &mut bytes)?).map_err(wrong)?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&bytes, options).map_err(|_| wrong(DAMAGED))?;
    Ok(metadata.schema().as_ref().clone())
}

/// The footer. The end of the file says how long it is; nobody is to make room for more than the file has.
fn footer(file: &str, bytes: &mut File) -> Result<Vec<u8>, IngestError> {
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

/// Categories are read by the numbers that the file keeps for them: then each text is looked up once. Other texts
/// are read as places in their page, so that one that is named a million times is there once.
fn as_read(schema: &Schema, stream: &StreamFile) -> Schema {
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

/// As many rows as are a few megabytes, by what the file says of itself.
fn batch_rows(metadata: &ArrowReaderMetadata, roots: &[usize]) -> usize {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    let mut asked = vec![false; metadata.schema().fields().len()];
    for &root in roots {
        asked[root] = true;
    }
    for group in metadata.metadata().row_groups() {
        rows = rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or_default());
        for (leaf, column) in group.columns().iter().enumerate() {
            if asked[metadata.parquet_schema().get_column_root_idx(leaf)] {
                bytes = bytes.saturating_add(u64::try_from(column.uncompressed_size()).unwrap_or_default());
            }
        }
    }
    // What a dictionary folds together is several times as large when it is unfolded.
    let row = 1 + 16 * roots.len() + usize::try_from(bytes / rows.max(1)).unwrap_or(usize::MAX / 2);
    (BATCH_BYTES / row).clamp(16, BATCH_ROWS)
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<Found>, IngestError> {
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
        let columns = self.places.iter().map(|&place| Arc::clone(batch.column(place))).collect();
        Ok(Some(Found { columns, rows: batch.num_rows(), typing: Typing::Typed }))
    }
}
