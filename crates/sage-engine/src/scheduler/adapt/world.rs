//! What a pipeline may spend where, at one moment.

/// What may be spent on each block, without their names.
///
/// Blocks that are retired or out of the window's reach are left out by whoever makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    falling: Vec<u64>,
    kind: Kind,
}

/// Whose the budget is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// The pipeline's own.
    #[default]
    Own,
    /// That of others, who cannot use it now.
    Lent,
}

impl Offers {
    /// From what may be spent on each block, in any order.
    pub fn new(offers: Vec<u64>) -> Self {
        Self::of_kind(offers, Kind::Own)
    }

    /// The same where it is lent. A pipeline borrows what its next attempt costs at least, whatever its mode.
    pub fn lent(offers: Vec<u64>) -> Self {
        Self::of_kind(offers, Kind::Lent)
    }

    fn of_kind(mut offers: Vec<u64>, kind: Kind) -> Self {
        offers.sort_unstable_by(|one, two| two.cmp(one));
        Self { falling: offers, kind }
    }

    /// On how many blocks this much may be spent.
    pub fn blocks(&self, cost: u64) -> u32 {
        u32::try_from(self.falling.partition_point(|offer| *offer >= cost)).unwrap_or(u32::MAX)
    }

    /// The most of its own that may be spent on each of so many blocks; zero if there are not as many.
    pub fn most(&self, blocks: u32) -> u64 {
        if self.kind == Kind::Lent {
            return 0;
        }
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
