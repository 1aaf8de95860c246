//! What a pipeline may spend where, at one moment.

/// What may be spent on each block, without their names.
///
/// Blocks that are retired or out of the window's reach are left out by whoever makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    falling: Vec<u64>,
}

impl Offers {
    /// From what may be spent on each block, in any order.
    pub fn new(mut offers: Vec<u64>) -> Self {
        offers.sort_unstable_by(|one, two| two.cmp(one));
        Self { falling: offers }
    }

    /// On how many blocks this much may be spent.
    pub fn blocks(&self, cost: u64) -> u32 {
        u32::try_from(self.falling.partition_point(|offer| *offer >= cost)).unwrap_or(u32::MAX)
    }

    /// The most that may be spent on each of so many blocks; nothing if there are not as many.
    pub fn most(&self, blocks: u32) -> u64 {
        let last = (blocks as usize).checked_sub(1);
        last.and_then(|last| self.falling.get(last)).copied().unwrap_or(0)
    }
}

/// The world as a pipeline sees it.
#[derive(Clone, Copy, Debug)]
pub struct World<'world> {
    /// The time, in the unit of the deadline.
    pub time: u64,
    /// What may be spent where.
    pub offers: &'world Offers,
}
