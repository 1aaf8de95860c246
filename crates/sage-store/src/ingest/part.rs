//! Encoding of a block's part as a Parquet file: row groups of the train lane, then row groups of the test lane.
//!
//! The settings favour fast writing and scanning. A part contains a random salt. Its digest is in the log, and without
//! the salt a reader of the log could guess the contents of a small part and check the guess.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use sage_kernel::Lane;

use super::error::IngestError;
use crate::stream::{Kind, StreamFile};

/// Rows gathered at a time. More would only use more memory.
const PIECE: usize = 1 << 15;
/// The most rows of a row group, and about the most bytes before compression.
const GROUP_ROWS: usize = 1 << 20;
const GROUP_BYTES: usize = 48 << 20;

/// Encodes the parts of a stream.
pub(super) struct PartEncoder {
    schema: SchemaRef,
    properties: WriterProperties,
}

impl PartEncoder {
    pub(super) fn new(stream: &StreamFile) -> Self {
        let stored = stream.schema();
        let fields = stored.fields().iter().map(|field| match stream.column(field.name()) {
            // In memory, categories are dictionary indices. Parquet stores texts either way.
            Some((_, column)) if matches!(column.kind, Kind::Category { .. }) => {
                let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                Arc::new(Field::new(field.name(), kind, field.is_nullable()))
            }
            _ => Arc::clone(field),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let row: usize = stream.columns.iter().map(|column| value_bytes(&column.kind)).sum();
        let mut properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(Compression::LZ4_RAW)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some((GROUP_BYTES / row.max(1)).clamp(1024, GROUP_ROWS)))
            .set_created_by("sage".to_owned());
        for column in &stream.columns {
            if matches!(column.kind, Kind::Category { .. } | Kind::Text { .. }) {
                properties = properties.set_column_dictionary_enabled(ColumnPath::from(column.name.as_str()), true);
            }
        }
        Self { schema, properties: properties.build() }
    }

    /// Encodes a part with rows of the train and the test lane. A row is a pair of the indices of batch and row.
    pub(super) fn encode(
        &self, batches: &[Vec<ArrayRef>], lanes: [&[(u32, u32)]; 2], salt: &str,
    ) -> Result<Bytes, IngestError> {
        // The Parquet schema suffices for readers.
        let options = ArrowWriterOptions::new().with_properties(self.properties.clone()).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&self.schema), options);
        let mut writer = writer.map_err(|_| IngestError::Encoding)?;
        writer.append_key_value_metadata(KeyValue::new("salt".to_owned(), salt.to_owned()));
        for (lane, rows) in Lane::BOTH.into_iter().zip(lanes) {
            for piece in rows.chunks(PIECE) {
                let gathered = self.gather(batches, piece, lane)?;
                writer.write(&gathered).map_err(|_| IngestError::Encoding)?;
            }
            writer.flush().map_err(|_| IngestError::Encoding)?;
        }
        writer.into_inner().map(Bytes::from).map_err(|_| IngestError::Encoding)
    }

    fn gather(&self, batches: &[Vec<ArrayRef>], rows: &[(u32, u32)], lane: Lane) -> Result<RecordBatch, IngestError> {
        let indices: Vec<(usize, usize)> = rows.iter().map(|&(batch, row)| (batch as usize, row as usize)).collect();
        let width = self.schema.fields().len() - 1;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(width + 1);
        for column in 0..width {
            let pieces: Vec<&dyn arrow::array::Array> = batches.iter().map(|batch| batch[column].as_ref()).collect();
            columns.push(interleave(&pieces, &indices).map_err(|_| IngestError::Encoding)?);
        }
        columns.push(Arc::new(BooleanArray::from(vec![lane == Lane::Test; rows.len()])));
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|_| IngestError::Encoding)
    }
}

/// About how many bytes a value has before compression.
fn value_bytes(kind: &Kind) -> usize {
    match kind {
        Kind::Boolean => 1,
        Kind::Category { .. } => 4,
        Kind::Text { .. } => 32,
        _ => 8,
    }
}
