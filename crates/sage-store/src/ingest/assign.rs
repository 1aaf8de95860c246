//! Each row's block and lane.
//!
//! The block follows from the row's public attributes and from which blocks are closed, which is public; the
//! lane from a coin. A row of a closed block is late.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use sage_kernel::noise::SecureNoise;
use sage_kernel::{LaneKey, Split};

use super::convert::values_of;
use super::error::IngestError;
use super::lane;
use crate::stream::{Attributes, Keyer, Kind, Late, StreamFile, Unit, late_key};

/// More blocks than a batch can sensibly bring.
const BLOCKS_LIMIT: usize = 1_000_000;

/// What the lanes of a stream are decided with.
pub struct Lanes<'engine> {
    /// Coins for rows, and salts.
    pub noise: &'engine mut SecureNoise,
    /// The secret of a stream of users; other streams need none.
    pub users: Option<&'engine LaneKey>,
}

/// Where the rows of a cell go.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// To the block with this key.
    Block(String),
    /// To no block.
    SetAside,
}

/// The blocks of some rows by their numbers, and their lanes: true for test.
pub(super) struct Assigned {
    pub(super) blocks: Vec<u32>,
    pub(super) lanes: Vec<bool>,
    /// Whether a row among them goes to no block.
    pub(super) some_late: bool,
}

/// Sends rows to blocks and lanes.
pub(super) struct Assigner<'engine> {
    keyer: Keyer,
    pub(super) fates: Vec<Fate>,
    closed: &'engine (dyn Fn(&str) -> bool + Sync),
    late: Late,
    received: i64,
    split: Split,
    pub(super) lanes: Lanes<'engine>,
    /// The places of the columns that decide.
    user: Option<usize>,
    time: Option<usize>,
    attribute: Option<usize>,
    by_user: bool,
}

impl<'engine> Assigner<'engine> {
    pub(super) fn new(
        stream: &StreamFile, received: i64, lanes: Lanes<'engine>, closed: &'engine (dyn Fn(&str) -> bool + Sync),
    ) -> Result<Self, IngestError> {
        let place = |name: &Option<String>| name.as_ref().and_then(|name| stream.column(name)).map(|(place, _)| place);
        let attribute = place(&stream.blocks.attribute);
        let categories = match attribute.map(|place| &stream.columns[place].kind) {
            Some(Kind::Category { categories, .. }) => categories.clone(),
            Some(_) => return Err(IngestError::Stream),
            None => Vec::new(),
        };
        let by_user = matches!(stream.unit, Unit::User { .. });
        if by_user && lanes.users.is_none() {
            return Err(IngestError::Stream);
        }
        Ok(Self {
            keyer: Keyer::new(stream.blocks.clone(), categories),
            fates: Vec::new(),
            closed,
            late: stream.late,
            received,
            split: stream.split().ok_or(IngestError::Stream)?,
            lanes,
            user: place(&stream.user),
            time: place(&stream.time),
            attribute,
            by_user,
        })
    }

    pub(super) fn assign(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Assigned, IngestError> {
        let column = |place: Option<usize>| place.map(|place| &columns[place]);
        let numbers = column(self.user).and_then(values_of::<Int64Type>).unwrap_or_default();
        let times = column(self.time).and_then(values_of::<TimestampMicrosecondType>).unwrap_or_default();
        let places = column(self.attribute).and_then(|array| array.as_dictionary_opt::<Int32Type>());
        let categories = places.map(|places| places.keys().values().as_ref()).unwrap_or_default();
        let mut blocks = Vec::with_capacity(rows);
        self.keyer.codes(rows, Attributes { users: numbers, times, categories }, &mut blocks);
        if self.keyer.len() > BLOCKS_LIMIT {
            return Err(IngestError::Blocks);
        }
        while self.fates.len() < self.keyer.len() {
            let fate = self.fate(self.fates.len());
            self.fates.push(fate);
        }
        let late = |block: &u32| matches!(self.fates[*block as usize], Fate::SetAside);
        let some_late = blocks.iter().any(late);
        let mut lanes = vec![false; rows];
        match (self.by_user, self.lanes.users, column(self.user)) {
            (true, Some(key), Some(users)) => {
                lane::of_users(self.split, key, users, &mut lanes).ok_or(IngestError::Stream)?;
            }
            (true, ..) => return Err(IngestError::Stream),
            (false, ..) => self.split.draw_many(self.lanes.noise, &mut lanes)?,
        }
        Ok(Assigned { blocks, lanes, some_late })
    }

    /// Where the rows of a cell that was just met go, for this batch.
    fn fate(&self, cell: usize) -> Fate {
        let Some(key) = u32::try_from(cell).ok().and_then(|cell| self.keyer.key(cell)) else { return Fate::SetAside };
        if !(self.closed)(&key) {
            return Fate::Block(key);
        }
        match self.late {
            Late::Quarantine => Fate::SetAside,
            Late::LateBlock => {
                let late = late_key(&key, self.received).filter(|late| !(self.closed)(late));
                late.map_or(Fate::SetAside, Fate::Block)
            }
        }
    }
}
