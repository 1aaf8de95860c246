//! A part of a block as a Parquet file: row groups of the train lane, then row groups of the test lane.
//!
//! Settings favour quick writing and scanning. A part carries a random salt: its digest stands in the log, and
//! without the salt whoever sees the log could try out what a small part holds.

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

/// Rows gathered at once. More would only need more memory.
const PIECE: usize = 1 << 15;
/// The most rows of a group, and about the most bytes it has before they are packed.
const GROUP_ROWS: usize = 1 << 20;
const GROUP_BYTES: usize = 48 << 20;

/// How the parts of a stream are written.
pub(super) struct Shape {
    schema: SchemaRef,
    properties: WriterProperties,
}

impl Shape {
    pub(super) fn new(stream: &StreamFile) -> Self {
        let stored = stream.schema();
        let fields = stored.fields().iter().map(|field| match stream.column(field.name()) {
            // In memory categories are numbers; Parquet stores texts either way.
            Some((_, column)) if matches!(column.kind, Kind::Category { .. }) => {
                let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                Arc::new(Field::new(field.name(), kind, field.is_nullable()))
            }
            _ => Arc::clone(field),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let row: usize = stream.columns.iter().map(|column| bytes_of(&column.kind)).sum();
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

    /// A part with these rows of the batches, each named by batch and row.
    pub(super) fn encode(
        &self, batches: &[Vec<ArrayRef>], lanes: [&[(u32, u32)]; 2], salt: &str,
    ) -> Result<Bytes, IngestError> {
        // What a reader needs to know is in the Parquet schema itself.
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
        let at: Vec<(usize, usize)> = rows.iter().map(|&(batch, row)| (batch as usize, row as usize)).collect();
        let width = self.schema.fields().len() - 1;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(width + 1);
        for column in 0..width {
            let pieces: Vec<&dyn arrow::array::Array> = batches.iter().map(|batch| batch[column].as_ref()).collect();
            columns.push(interleave(&pieces, &at).map_err(|_| IngestError::Encoding)?);
        }
        columns.push(Arc::new(BooleanArray::from(vec![lane == Lane::Test; rows.len()])));
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|_| IngestError::Encoding)
    }
}

/// About how many bytes a value takes before it is packed.
fn bytes_of(kind: &Kind) -> usize {
    match kind {
        Kind::Boolean => 1,
        Kind::Category { .. } => 4,
        Kind::Text { .. } => 32,
        _ => 8,
    }
}
