//! Decodes the rows of one lane from the bytes of a part.
//!
//! The whole file is in memory before its BLAKE3 digest is compared with the one in the log, and those same bytes are
//! decoded, so that the file cannot be exchanged in between. Row groups of other lanes are not decoded. The lane of a
//! row group is taken from its statistics and checked against the lane column; a part with a wrong lane is refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use sage_kernel::Lane;

use super::error::ReadError;
use super::query::PreparedQuery;
use super::unit::Unit;
use crate::blocks::{LANE_COLUMN, Part, is_encrypted};

/// Rows per decoded batch.
const ROWS_AT_A_TIME: usize = 16_384;

const NOT_PARQUET: &str = "it is not Parquet";
const SCHEMA: &str = "its columns are not those of the stream";
const NO_LANE: &str = "a row group does not state its lane";
const MIXED: &str = "a row group contains rows of another lane than it states";

/// The columns of a part that are decoded, and their positions afterwards.
pub(super) struct Layout {
    /// The schema of the whole part, with the lane column last.
    file: SchemaRef,
    /// The indices of the decoded columns in ascending order, with the lane column last.
    decoded: Vec<usize>,
    /// Which of the decoded columns the query reads.
    query: Vec<usize>,
    /// Which of them identifies the user.
    user: Option<usize>,
}

/// Rows of one lane.
pub(super) struct LaneRows {
    /// The columns that the query reads.
    pub(super) rows: RecordBatch,
    /// The user of each row, if users are the privacy units.
    pub(super) user: Option<ArrayRef>,
}

impl Layout {
    pub(super) fn new(prepared: &PreparedQuery, unit: &Unit) -> Result<Self, ReadError> {
        let declared = &prepared.schema;
        let user = match unit {
            Unit::Row => None,
            Unit::User { column, .. } => {
                let unknown = |_| ReadError::UnknownUser { column: column.clone() };
                Some(declared.index_of(column).map_err(unknown)?)
            }
        };
        let lane = declared.fields().len();
        let mut decoded: Vec<usize> = prepared.columns.iter().copied().chain(user).chain([lane]).collect();
        decoded.sort_unstable();
        decoded.dedup();
        let at = |column: usize| decoded.iter().position(|&index| index == column);
        let query = prepared.columns.iter().filter_map(|&index| at(index)).collect();
        let user = user.and_then(at);
        let mut fields: Vec<Field> = declared.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.push(Field::new(LANE_COLUMN, DataType::Boolean, false));
        Ok(Self { file: Arc::new(Schema::new(fields)), decoded, query, user })
    }

    /// Verifies the digest of a part, decrypts it and reads its Parquet metadata.
    pub(super) fn open<'a>(
        &'a self, part: &'a Part, bytes: Bytes, decrypt: &dyn Fn(&Part, Bytes) -> Option<Bytes>,
    ) -> Result<VerifiedPart<'a>, ReadError> {
        if blake3::hash(&bytes).as_bytes() != &part.digest {
            return Err(ReadError::Changed { block: part.block.clone(), file: part.file.clone() });
        }
        let unreadable = || ReadError::Unreadable { block: part.block.clone(), file: part.file.clone() };
        let bytes = if is_encrypted(&bytes) { decrypt(part, bytes).ok_or_else(unreadable)? } else { bytes };
        let options = ArrowReaderOptions::new().with_schema(Arc::clone(&self.file));
        let metadata = ArrowReaderMetadata::load(&bytes, options).map_err(|_| {
            let plain = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new());
            malformed(part, if plain.is_ok() { SCHEMA } else { NOT_PARQUET })
        })?;
        let columns = metadata.parquet_schema().root_schema().get_fields().iter();
        if !columns.map(|column| column.name()).eq(self.file.fields().iter().map(|field| field.name())) {
            return Err(malformed(part, SCHEMA));
        }
        Ok(VerifiedPart { layout: self, part, bytes, metadata })
    }
}

fn malformed(part: &Part, rule: &'static str) -> ReadError {
    ReadError::Malformed { block: part.block.clone(), file: part.file.clone(), rule }
}

/// A part whose digest is verified.
pub(super) struct VerifiedPart<'a> {
    layout: &'a Layout,
    part: &'a Part,
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
}

impl<'a> VerifiedPart<'a> {
    /// The rows of a lane.
    pub(super) fn lane(&self, lane: Lane) -> Result<impl Iterator<Item = Result<LaneRows, ReadError>> + 'a, ReadError> {
        let last = self.layout.file.fields().len() - 1;
        let mut groups = Vec::new();
        for (index, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            if stated_lane(group, last).ok_or_else(|| malformed(self.part, NO_LANE))? == lane {
                groups.push(index);
            }
        }
        let reader = self.reader(groups)?;
        let (layout, part) = (self.layout, self.part);
        Ok(reader.map(move |batch| layout.split(part, lane, batch.map_err(|_| malformed(part, NOT_PARQUET))?)))
    }

    fn reader(&self, groups: Vec<usize>) -> Result<ParquetRecordBatchReader, ReadError> {
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), self.layout.decoded.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), self.metadata.clone())
            .with_projection(mask)
            .with_row_groups(groups)
            .with_batch_size(ROWS_AT_A_TIME)
            .build()
            .map_err(|_| malformed(self.part, NOT_PARQUET))
    }
}

impl Layout {
    /// Checks the lane of every row, and separates the query's columns from the others.
    fn split(&self, part: &Part, lane: Lane, batch: RecordBatch) -> Result<LaneRows, ReadError> {
        let lanes = batch.columns().last().and_then(|column| column.as_boolean_opt());
        let lanes = lanes.ok_or_else(|| malformed(part, SCHEMA))?;
        let tests = lanes.true_count();
        let expected = if lane == Lane::Test { batch.num_rows() } else { 0 };
        if lanes.null_count() > 0 || tests != expected {
            return Err(malformed(part, MIXED));
        }
        let schema = batch.schema();
        let fields: Vec<Field> = self.query.iter().map(|&index| schema.field(index).clone()).collect();
        let columns = self.query.iter().map(|&index| Arc::clone(batch.column(index))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
        let user = self.user.map(|index| Arc::clone(batch.column(index)));
        Ok(LaneRows { rows: rows.map_err(|_| ReadError::Failed)?, user })
    }
}

/// The lane of a row group by its statistics, if they state one for all rows.
fn stated_lane(group: &RowGroupMetaData, column: usize) -> Option<Lane> {
    let Statistics::Boolean(lanes) = group.column(column).statistics()? else { return None };
    match (lanes.min_opt()?, lanes.max_opt()?) {
        (false, false) => Some(Lane::Train),
        (true, true) => Some(Lane::Test),
        _ => None,
    }
}
