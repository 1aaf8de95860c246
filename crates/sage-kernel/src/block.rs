//! Identifiers of streams, contexts, blocks and lanes, and sets of blocks.
//!
//! A block is a set of rows determined by a public attribute of each row alone; here it is only its number
//! within its stream. This module must never depend on rows or on the number of rows.

use crate::message::display;

/// A stream, by its index in the log's order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// A context of a stream (a team, a geography), by its index in the stream's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub u32);

/// A block of a stream, by its index in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// The train or test side of a block. A privacy unit is assigned to one when it arrives and never changes it.
///
/// The lanes of a block contain disjoint units and each unit is assigned independently at random, so the costs of the
/// lanes compose in parallel: `proofs/lane.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Rows that models learn from.
    Train,
    /// Rows that models are tested on.
    Test,
}

impl Lane {
    /// Both lanes, in the order in which they are checked.
    pub const BOTH: [Self; 2] = [Self::Train, Self::Test];

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Train => 0,
            Self::Test => 1,
        }
    }
}

display!(Lane {
    Self::Train => "train",
    Self::Test => "test",
});

/// A range of consecutive blocks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRange {
    first: u32,
    last: u32,
}

impl BlockRange {
    /// The first block.
    pub const fn first(self) -> BlockId {
        BlockId(self.first)
    }

    /// The last block.
    pub const fn last(self) -> BlockId {
        BlockId(self.last)
    }

    /// The indices of the blocks in their stream.
    pub(crate) const fn indices(self) -> std::ops::Range<usize> {
        self.first as usize..self.last as usize + 1
    }
}

/// A non-empty set of blocks, as sorted ranges with a gap between neighbours.
///
/// # Guarantee
/// Equal sets are equal values: duplicates are removed and adjacent ranges merged, so a block that is named twice is
/// charged once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks(Vec<BlockRange>);

/// Why a list of ranges is not a set of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlocksError {
    /// The list is empty.
    Empty,
    /// A range ends before it starts.
    Reversed,
}

display!(error BlocksError {
    Self::Empty => "no block is named; name at least one",
    Self::Reversed => "a range of blocks ends before it starts",
});

impl Blocks {
    /// The union of the given ranges, both ends included.
    ///
    /// # Errors
    /// When there is no range, or one ends before it starts.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Result<Self, BlocksError> {
        let mut sorted = Vec::new();
        for (first, last) in ranges {
            if last < first {
                return Err(BlocksError::Reversed);
            }
            sorted.push(BlockRange { first, last });
        }
        sorted.sort_unstable();
        let mut folded: Vec<BlockRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match folded.last_mut() {
                Some(before) if range.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(range.last);
                }
                _ => folded.push(range),
            }
        }
        if folded.is_empty() { Err(BlocksError::Empty) } else { Ok(Self(folded)) }
    }

    /// The blocks from first to last, both included.
    ///
    /// # Errors
    /// When the last is before the first.
    pub fn range(first: u32, last: u32) -> Result<Self, BlocksError> {
        Self::from_ranges([(first, last)])
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[BlockRange] {
        &self.0
    }

    /// Whether the block is in the set.
    pub fn contains(&self, block: BlockId) -> bool {
        let at = self.0.partition_point(|range| range.last < block.0);
        self.0.get(at).is_some_and(|range| range.first <= block.0)
    }

    /// The lowest block that is in both sets.
    pub fn first_common(&self, other: &Self) -> Option<BlockId> {
        self.0.iter().find_map(|range| {
            let at = other.0.partition_point(|theirs| theirs.last < range.first);
            let theirs = other.0.get(at).filter(|theirs| theirs.first <= range.last)?;
            Some(BlockId(range.first.max(theirs.first)))
        })
    }

    /// The union of both sets.
    pub fn union(&self, other: &Self) -> Self {
        let ranges = self.0.iter().chain(&other.0).map(|range| (range.first, range.last));
        // Both sets are valid and not empty, so this cannot fail.
        Self::from_ranges(ranges).unwrap_or_else(|_| self.clone())
    }
}

display!(Blocks {
    Self(ranges) => {
        let text = |range: &BlockRange| match range.last - range.first {
            0 => range.first.to_string(),
            _ => format!("{}..{}", range.first, range.last),
        };
        ranges.iter().map(text).collect::<Vec<_>>().join(",")
    },
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_fold_into_one_form() {
        for (ranges, text) in [
            (vec![(3, 3)], "3"),
            (vec![(3, 5), (1, 2)], "1..5"),
            (vec![(1, 2), (2, 2), (1, 1)], "1..2"),
            (vec![(9, 12), (1, 3), (5, 7)], "1..3,5..7,9..12"),
            (vec![(0, u32::MAX), (7, 9)], "0..4294967295"),
            (vec![(0, 10), (2, 3)], "0..10"),
        ] {
            assert_eq!(Blocks::from_ranges(ranges).expect("not empty").to_string(), text);
        }
        assert_eq!(Blocks::from_ranges([]), Err(BlocksError::Empty));
        assert_eq!(Blocks::range(2, 1), Err(BlocksError::Reversed));
        assert!(BlocksError::Empty.to_string().contains("at least one"));
        assert!(BlocksError::Reversed.to_string().contains("before"));
    }

    #[test]
    fn membership_follows_the_ranges() {
        let blocks = Blocks::from_ranges([(2, 4), (8, 8)]).expect("not empty");
        let inside: Vec<u32> = (0..12).filter(|&block| blocks.contains(BlockId(block))).collect();
        assert_eq!(inside, [2, 3, 4, 8]);
        for (first, last, common) in
            [(0, 1, None), (0, 2, Some(2)), (3, 9, Some(3)), (5, 7, None), (6, 9, Some(8)), (9, 9, None)]
        {
            let other = Blocks::range(first, last).expect("not empty");
            assert_eq!(blocks.first_common(&other), common.map(BlockId), "{first}..{last}");
            assert_eq!(other.first_common(&blocks), common.map(BlockId), "{first}..{last}");
        }
        assert_eq!(blocks.union(&Blocks::range(5, 6).expect("not empty")).to_string(), "2..6,8");
        assert_eq!((blocks.ranges()[0].first(), blocks.ranges()[0].last()), (BlockId(2), BlockId(4)));
        assert_eq!(Lane::BOTH.map(|lane| lane.to_string()), ["train", "test"]);
    }
}
