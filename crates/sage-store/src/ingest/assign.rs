//! Assignment of rows to blocks and lanes.
//!
//! The block follows from the row's public attributes and from which blocks are closed, which is public. The lane is
//! drawn at random. A row of a closed block is late.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use sage_kernel::noise::SecureNoise;
use sage_kernel::{LaneKey, Split};

use super::convert::values_of;
use super::error::IngestError;
use super::lane;
use crate::stream::{BlockEncoder, KeyColumns, Kind, LateRows, StreamFile, Unit, late_key};

/// The most blocks of a batch.
const BLOCKS_LIMIT: usize = 1_000_000;

/// The randomness for the assignment to lanes.
pub struct LaneSource<'engine> {
    /// Draws the lanes of rows, and salts.
    pub noise: &'engine mut SecureNoise,
    /// The lane key of a stream of users. Other streams need none.
    pub users: Option<&'engine LaneKey>,
}

/// Where the rows of a block go.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// Into the block with this key.
    Block(String),
    /// Into quarantine.
    Quarantine,
}

/// The block codes and the lanes of some rows. A lane is true for test.
pub(super) struct Assignment {
    pub(super) blocks: Vec<u32>,
    pub(super) lanes: Vec<bool>,
    /// Whether at least one row goes into quarantine.
    pub(super) some_late: bool,
}

/// Assigns rows to blocks and lanes.
pub(super) struct Assigner<'engine> {
    encoder: BlockEncoder,
    /// The destination of each block, by its code.
    pub(super) destinations: Vec<Destination>,
    closed: &'engine (dyn Fn(&str) -> bool + Sync),
    late: LateRows,
    received: i64,
    split: Split,
    pub(super) lanes: LaneSource<'engine>,
    /// The indices of the columns that determine the block.
    user: Option<usize>,
    time: Option<usize>,
    attribute: Option<usize>,
    by_user: bool,
}

impl<'engine> Assigner<'engine> {
    pub(super) fn new(
        stream: &StreamFile, received: i64, lanes: LaneSource<'engine>, closed: &'engine (dyn Fn(&str) -> bool + Sync),
    ) -> Result<Self, IngestError> {
        let index = |name: &Option<String>| name.as_ref().and_then(|name| stream.column(name)).map(|(index, _)| index);
        let attribute = index(&stream.blocks.attribute);
        let categories = match attribute.map(|index| &stream.columns[index].kind) {
            Some(Kind::Category { categories, .. }) => categories.clone(),
            Some(_) => return Err(IngestError::Stream),
            None => Vec::new(),
        };
        let by_user = matches!(stream.unit, Unit::User { .. });
        if by_user && lanes.users.is_none() {
            return Err(IngestError::Stream);
        }
        Ok(Self {
            encoder: BlockEncoder::new(stream.blocks.clone(), categories),
            destinations: Vec::new(),
            closed,
            late: stream.late,
            received,
            split: stream.split().ok_or(IngestError::Stream)?,
            lanes,
            user: index(&stream.user),
            time: index(&stream.time),
            attribute,
            by_user,
        })
    }

    pub(super) fn assign(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Assignment, IngestError> {
        let column = |index: Option<usize>| index.map(|index| &columns[index]);
        let numbers = column(self.user).and_then(values_of::<Int64Type>).unwrap_or_default();
        let times = column(self.time).and_then(values_of::<TimestampMicrosecondType>).unwrap_or_default();
        let attribute = column(self.attribute).and_then(|array| array.as_dictionary_opt::<Int32Type>());
        let categories = attribute.map(|attribute| attribute.keys().values().as_ref()).unwrap_or_default();
        let mut blocks = Vec::with_capacity(rows);
        self.encoder.encode(rows, KeyColumns { users: numbers, times, categories }, &mut blocks);
        if self.encoder.len() > BLOCKS_LIMIT {
            return Err(IngestError::Blocks);
        }
        while self.destinations.len() < self.encoder.len() {
            let destination = self.destination(self.destinations.len());
            self.destinations.push(destination);
        }
        let late = |block: &u32| matches!(self.destinations[*block as usize], Destination::Quarantine);
        let some_late = blocks.iter().any(late);
        let mut lanes = vec![false; rows];
        match (self.by_user, self.lanes.users, column(self.user)) {
            (true, Some(key), Some(users)) => {
                lane::assign_user_lanes(self.split, key, users, &mut lanes).ok_or(IngestError::Stream)?;
            }
            (true, ..) => return Err(IngestError::Stream),
            (false, ..) => self.split.draw_many(self.lanes.noise, &mut lanes)?,
        }
        Ok(Assignment { blocks, lanes, some_late })
    }

    /// The destination, for this batch, of the block with this code.
    fn destination(&self, code: usize) -> Destination {
        let key = u32::try_from(code).ok().and_then(|code| self.encoder.key(code));
        let Some(key) = key else { return Destination::Quarantine };
        if !(self.closed)(&key) {
            return Destination::Block(key);
        }
        match self.late {
            LateRows::Quarantine => Destination::Quarantine,
            LateRows::LateBlock => {
                let late = late_key(&key, self.received).filter(|late| !(self.closed)(late));
                late.map_or(Destination::Quarantine, Destination::Block)
            }
        }
    }
}
