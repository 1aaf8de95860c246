//! What one row of a session is: a record, or all that a user has in the block, cut to a bound.
//!
//! Which of a user's records are kept must be a function of that user's records alone. Were it decided by
//! the number of a row or by the file it lies in, one user more or less would shift the others' choices,
//! and the bound on what one user changes would be gone. So a record's rank is a hash of what the query
//! made of it and of its number among the user's records of which the query made the same; records that
//! look alike are exchangeable, so it does not matter which of them gets which number. The grant's number
//! goes into the hash too, to draw anew for every grant; where the block's sums are kept for other grants,
//! it is what they are sums of, so that they are those that every one of these grants would make.
//!
//! The hash needs no secret. Whoever knows it can arrange which of his own records are kept, but he could
//! as well have sent no others; about other users it says nothing. Values do not favour a record: to the
//! hash they are all alike, so the kept ones are a fair draw.

use std::num::NonZeroUsize;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{concat, take};
use arrow::row::{RowConverter, Rows, SortField};

use super::error::Failed;
use super::rows::Batch;

/// What one row of a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A record: a row of the stream.
    Row,
    /// All the records of a user within a block and lane that the filter keeps, and of those at most so
    /// many. Records without a user belong to no unit and are left out: as one unit they would belong to
    /// several people.
    User {
        /// The column that names the user.
        column: String,
        /// How many records of a user are kept.
        most: NonZeroUsize,
    },
}

/// Filtered records of one block and lane, with their users.
pub(super) struct UserRecords {
    pub(super) user: ArrayRef,
    pub(super) columns: Vec<ArrayRef>,
}

/// Groups the records of a block and lane by user, and draws the ones to keep. Under one `draw` it is one draw.
pub(super) fn group(records: &[UserRecords], most: NonZeroUsize, draw: &[u8]) -> Result<Vec<Batch>, Failed> {
    let Some(some) = records.first() else { return Ok(Vec::new()) };
    let joined = |of: &dyn Fn(&UserRecords) -> ArrayRef| {
        let pieces: Vec<ArrayRef> = records.iter().map(of).collect();
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        concat(&pieces).map_err(|_| Failed)
    };
    let user = joined(&|part| ArrayRef::clone(&part.user))?;
    let columns = (0..some.columns.len()).map(|place| joined(&|part| ArrayRef::clone(&part.columns[place])));
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let users = as_bytes(std::slice::from_ref(&user))?;
    let contents = if columns.is_empty() { None } else { Some(as_bytes(&columns)?) };
    let content = |place: usize| contents.as_ref().map(|contents| contents.row(place));

    let mut order: Vec<usize> = (0..user.len()).filter(|&place| user.is_valid(place)).collect();
    order.sort_by(|&one, &other| users.row(one).cmp(&users.row(other)).then_with(|| content(one).cmp(&content(other))));
    let mut kept: Vec<u64> = Vec::new();
    let mut ends = Vec::new();
    for unit in order.chunk_by(|&one, &other| users.row(one) == users.row(other)) {
        let mut drawn = Vec::with_capacity(unit.len());
        for alike in unit.chunk_by(|&one, &other| content(one) == content(other)) {
            for (number, &place) in alike.iter().enumerate() {
                let seen = content(place);
                let seen = seen.as_ref().map_or(&[][..], AsRef::as_ref);
                drawn.push((rank(draw, users.row(place).as_ref(), seen, number), place));
            }
        }
        drawn.sort_unstable();
        kept.extend(drawn.iter().take(most.get()).map(|&(_, place)| place as u64));
        ends.push(kept.len());
    }
    let kept = UInt64Array::from(kept);
    let columns = columns.iter().map(|column| take(column, &kept, None).map_err(|_| Failed));
    Ok(vec![Batch::of_units(&columns.collect::<Result<Vec<ArrayRef>, _>>()?, ends)?])
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

/// Bytes that are equal where the values are.
fn as_bytes(columns: &[ArrayRef]) -> Result<Rows, Failed> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(|_| Failed)?;
    converter.convert_columns(columns).map_err(|_| Failed)
}
