//! The privacy unit of a session: a record, or the records of a user in the block, up to a maximum.
//!
//! The selection of a user's records must be a function of that user's records only. If it depended on a row number or
//! on the file, adding or removing one user would change the selection of others, and one user's influence would no
//! longer be bounded. So records are ranked by a hash of the query's output and of the record's number among the user's
//! records with the same output; such records are exchangeable, so their numbering does not matter. The grant's number
//! is part of the hash, so that every grant draws anew. With cached summaries, which several grants share, the tag of
//! the computation takes its place.
//!
//! The hash needs no secret. A user who knows it can influence which of their own records are selected, but could as
//! well have sent only those; it reveals nothing about other users. The hash does not favour any value, so the selected
//! records are a fair sample.

use std::num::NonZeroUsize;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{concat, take};
use arrow::row::{RowConverter, Rows, SortField};

use super::error::OpaqueFailure;
use super::rows::Batch;

/// The privacy unit of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A record: a row of the stream.
    Row,
    /// The records of a user within a block and lane that pass the filter, up to a maximum. Records without a user are
    /// excluded: as one unit they would belong to several people.
    User {
        /// The column that identifies the user.
        column: String,
        /// The maximum number of records per user.
        most: NonZeroUsize,
    },
}

/// Filtered records of one block and lane, with their users.
pub(super) struct UserRecords {
    pub(super) user: ArrayRef,
    pub(super) columns: Vec<ArrayRef>,
}

/// Groups the records of a block and lane by user and samples each user's records. The sample is a function of `draw`.
pub(super) fn group_by_user(
    records: &[UserRecords], most: NonZeroUsize, draw: &[u8],
) -> Result<Vec<Batch>, OpaqueFailure> {
    let Some(some) = records.first() else { return Ok(Vec::new()) };
    let joined = |of: &dyn Fn(&UserRecords) -> ArrayRef| {
        let pieces: Vec<ArrayRef> = records.iter().map(of).collect();
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        concat(&pieces).map_err(|_| OpaqueFailure)
    };
    let user = joined(&|part| ArrayRef::clone(&part.user))?;
    let columns = (0..some.columns.len()).map(|index| joined(&|part| ArrayRef::clone(&part.columns[index])));
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let users = comparable_bytes(std::slice::from_ref(&user))?;
    let contents = if columns.is_empty() { None } else { Some(comparable_bytes(&columns)?) };
    let content = |record: usize| contents.as_ref().map(|contents| contents.row(record));

    let mut order: Vec<usize> = (0..user.len()).filter(|&record| user.is_valid(record)).collect();
    order.sort_by(|&one, &other| users.row(one).cmp(&users.row(other)).then_with(|| content(one).cmp(&content(other))));
    let mut kept: Vec<u64> = Vec::new();
    let mut ends = Vec::new();
    for unit in order.chunk_by(|&one, &other| users.row(one) == users.row(other)) {
        let mut drawn = Vec::with_capacity(unit.len());
        for alike in unit.chunk_by(|&one, &other| content(one) == content(other)) {
            for (number, &record) in alike.iter().enumerate() {
                let seen = content(record);
                let seen = seen.as_ref().map_or(&[][..], AsRef::as_ref);
                drawn.push((rank(draw, users.row(record).as_ref(), seen, number), record));
            }
        }
        drawn.sort_unstable();
        kept.extend(drawn.iter().take(most.get()).map(|&(_, record)| record as u64));
        ends.push(kept.len());
    }
    let kept = UInt64Array::from(kept);
    let columns = columns.iter().map(|column| take(column, &kept, None).map_err(|_| OpaqueFailure));
    Ok(vec![Batch::from_units(&columns.collect::<Result<Vec<ArrayRef>, _>>()?, ends)?])
}

fn rank(draw: &[u8], user: &[u8], content: &[u8], number: usize) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("sage: which records of a user are kept");
    hash.update(draw);
    for part in [user, content] {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hash.update(&(number as u64).to_le_bytes());
    *hash.finalize().as_bytes()
}

/// Rows as bytes that are equal exactly where the values are equal.
fn comparable_bytes(columns: &[ArrayRef]) -> Result<Rows, OpaqueFailure> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(|_| OpaqueFailure)?;
    converter.convert_columns(columns).map_err(|_| OpaqueFailure)
}
