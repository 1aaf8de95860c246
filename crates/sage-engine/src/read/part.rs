//! From the bytes of a part to the rows of one of its lanes.
//!
//! The bytes are in memory, whole, before their BLAKE3 is compared with the one the log names, and those
//! very bytes are decoded: there is no moment at which another file could slip in. Row groups of a lane
//! that was not asked for are not decoded. That a row group holds one lane alone is taken from its
//! statistics and checked again on the column itself; a part that lies is refused.

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
use super::query::Prepared;
use super::unit::Unit;
use crate::blocks::{LANE_COLUMN, Part, is_encrypted};

/// How many rows are decoded at a time.
const ROWS_AT_A_TIME: usize = 16_384;

const NOT_PARQUET: &str = "it is not Parquet";
const SCHEMA: &str = "its columns are not those of the stream";
const NO_LANE: &str = "a row group does not say which lane it is of";
const MIXED: &str = "a row group holds rows of another lane than it says";

/// Which columns of a part are decoded, and where they are found then.
pub(super) struct Layout {
    /// The whole part's schema, the lanes' column last.
    file: SchemaRef,
    /// The places of the columns that are decoded, in order, the lanes' column last.
    decoded: Vec<usize>,
    /// Which of the decoded columns are the query's.
    query: Vec<usize>,
    /// Which of them is the user's.
    user: Option<usize>,
}

/// Rows of one lane.
pub(super) struct Decoded {
    /// The columns that the query looks at.
    pub(super) rows: RecordBatch,
    /// Each row's user, if users are the units.
    pub(super) user: Option<ArrayRef>,
}

impl Layout {
    pub(super) fn new(prepared: &Prepared, unit: &Unit) -> Result<Self, ReadError> {
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
        let at = |column: usize| decoded.iter().position(|&place| place == column);
        let query = prepared.columns.iter().filter_map(|&place| at(place)).collect();
        let user = user.and_then(at);
        let mut fields: Vec<Field> = declared.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.push(Field::new(LANE_COLUMN, DataType::Boolean, false));
        Ok(Self { file: Arc::new(Schema::new(fields)), decoded, query, user })
    }

    /// Checks that the bytes are the part's, has them decrypted, and understands their outer form.
    pub(super) fn open<'a>(
        &'a self, part: &'a Part, bytes: Bytes, decrypt: &dyn Fn(&Part, Bytes) -> Option<Bytes>,
    ) -> Result<Opened<'a>, ReadError> {
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
        Ok(Opened { layout: self, part, bytes, metadata })
    }
}

fn malformed(part: &Part, rule: &'static str) -> ReadError {
    ReadError::Malformed { block: part.block.clone(), file: part.file.clone(), rule }
}

/// A part whose bytes are verified.
pub(super) struct Opened<'a> {
    layout: &'a Layout,
    part: &'a Part,
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
}

impl<'a> Opened<'a> {
    /// The rows of a lane.
    pub(super) fn lane(&self, lane: Lane) -> Result<impl Iterator<Item = Result<Decoded, ReadError>> + 'a, ReadError> {
        let last = self.layout.file.fields().len() - 1;
        let mut groups = Vec::new();
        for (place, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            if stated_lane(group, last).ok_or_else(|| malformed(self.part, NO_LANE))? == lane {
                groups.push(place);
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
    /// Checks the lane of every row, and parts the query's columns from the others.
    fn split(&self, part: &Part, lane: Lane, batch: RecordBatch) -> Result<Decoded, ReadError> {
        let coins = batch.columns().last().and_then(|column| column.as_boolean_opt());
        let coins = coins.ok_or_else(|| malformed(part, SCHEMA))?;
        let tests = coins.true_count();
        let expected = if lane == Lane::Test { batch.num_rows() } else { 0 };
        if coins.null_count() > 0 || tests != expected {
            return Err(malformed(part, MIXED));
        }
        let schema = batch.schema();
        let fields: Vec<Field> = self.query.iter().map(|&place| schema.field(place).clone()).collect();
        let columns = self.query.iter().map(|&place| Arc::clone(batch.column(place))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
        let user = self.user.map(|place| Arc::clone(batch.column(place)));
        Ok(Decoded { rows: rows.map_err(|_| ReadError::Failed)?, user })
    }
}

/// The lane that the statistics of a row group state, if they state one for all of its rows.
fn stated_lane(group: &RowGroupMetaData, column: usize) -> Option<Lane> {
    let Statistics::Boolean(coins) = group.column(column).statistics()? else { return None };
    match (coins.min_opt()?, coins.max_opt()?) {
        (false, false) => Some(Lane::Train),
        (true, true) => Some(Lane::Test),
        _ => None,
    }
}
