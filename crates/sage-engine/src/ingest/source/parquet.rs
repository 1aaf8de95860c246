//! Parquet, a few rows of the declared columns at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::{BATCH_BYTES, BATCH_ROWS, Decoder, Found, Typing, places, unreadable};
use crate::ingest::error::IngestError;
use crate::stream::{Kind, StreamFile};

/// The longest footer: enough for ten thousand columns in a few thousand groups.
const FOOTER_LIMIT: u32 = 128 << 20;

const DAMAGED: &str = "this is no Parquet, or it is damaged or cut short";

pub(super) struct Rows {
    file: String,
    reader: ParquetRecordBatchReader,
    /// For each declared column, its place in a batch.
    places: Vec<usize>,
}

impl Rows {
    pub(super) fn open(file: &str, mut bytes: File, stream: &StreamFile) -> Result<Self, IngestError> {
        let damaged = || IngestError::Malformed { file: file.to_owned(), line: None, reason: DAMAGED };
        check_footer(file, &mut bytes)?;
        // Hints that other writers left are not needed: what the rows must become is declared.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&bytes, options.clone()).map_err(|_| damaged())?;
        let there: Vec<&str> = metadata.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let names: Vec<String> = stream.columns.iter().map(|column| column.name.clone()).collect();
        let roots = places(file, &names, &there)?;
        let options = options.with_schema(Arc::new(with_dictionaries(metadata.schema(), stream)));
        // A column that cannot be read by its dictionary is read as it is.
        let parsed = Arc::clone(metadata.metadata());
        let metadata = ArrowReaderMetadata::try_new(parsed, options).unwrap_or(metadata);
        let rows = batch_rows(&metadata, &roots);
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
        let reader = builder.with_projection(mask).with_batch_size(rows).build().map_err(|_| damaged())?;
        // A projection keeps the order of the file.
        let mut order = roots.clone();
        order.sort_unstable();
        let places = roots.iter().filter_map(|root| order.binary_search(root).ok()).collect();
        Ok(Self { file: file.to_owned(), reader, places })
    }
}

/// The columns and their types, as the footer has them.
pub(super) fn schema(file: &str, mut bytes: File) -> Result<Schema, IngestError> {
    check_footer(file, &mut bytes)?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&bytes, options);
    let damaged = |_| IngestError::Malformed { file: file.to_owned(), line: None, reason: DAMAGED };
    Ok(metadata.map_err(damaged)?.schema().as_ref().clone())
}

/// The end of the file says how long its footer is; nobody is to make room for more than the file has.
fn check_footer(file: &str, bytes: &mut File) -> Result<(), IngestError> {
    let damaged = || IngestError::Malformed { file: file.to_owned(), line: None, reason: DAMAGED };
    let length = bytes.seek(SeekFrom::End(0)).map_err(|error| unreadable(file, &error))?;
    if length < 12 {
        return Err(damaged());
    }
    bytes.seek(SeekFrom::End(-8)).map_err(|error| unreadable(file, &error))?;
    let mut end = [0; 8];
    bytes.read_exact(&mut end).map_err(|error| unreadable(file, &error))?;
    let footer = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    let fits = footer <= FOOTER_LIMIT && u64::from(footer) + 12 <= length;
    if fits && end[4..] == *b"PAR1" { Ok(()) } else { Err(damaged()) }
}

/// Categories are read by the numbers that the file keeps for them: then each text is looked up once.
fn with_dictionaries(schema: &Schema, stream: &StreamFile) -> Schema {
    let category =
        |name: &str| stream.column(name).is_some_and(|(_, column)| matches!(column.kind, Kind::Category { .. }));
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 if category(field.name()) => {
            let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(Field::new(field.name(), kind, field.is_nullable()))
        }
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
        let Some(batch) = self.reader.next() else { return Ok(None) };
        let damaged = |_| IngestError::Malformed { file: self.file.clone(), line: None, reason: DAMAGED };
        let batch = batch.map_err(damaged)?;
        let columns = self.places.iter().map(|&place| Arc::clone(batch.column(place))).collect();
        Ok(Some(Found { columns, rows: batch.num_rows(), typing: Typing::Typed }))
    }
}
