//! The budget that is available to a pipeline at one moment.

use super::forecast::Forecast;
use super::tested::RowsPrices;

/// The amounts that can be spent on each block, without the blocks' names.
///
/// The caller leaves out blocks that are retired or outside the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    falling: Vec<u64>,
    kind: Kind,
    sealed: Option<u32>,
}

/// The owner of the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// The pipeline itself.
    #[default]
    Own,
    /// Other pipelines, which cannot use it now.
    Lent,
}

impl Offers {
    /// From the amounts available on each block, in any order.
    pub fn new(offers: Vec<u64>) -> Self {
        Self::of_kind(offers, Kind::Own)
    }

    /// The same for borrowed budget. A pipeline borrows only the minimum cost of its next attempt, whatever its mode.
    pub fn lent(offers: Vec<u64>) -> Self {
        Self::of_kind(offers, Kind::Lent)
    }

    fn of_kind(mut offers: Vec<u64>, kind: Kind) -> Self {
        offers.sort_unstable_by(|one, two| two.cmp(one));
        Self { falling: offers, kind, sealed: None }
    }

    /// The same of a stream with so many sealed blocks, some of which may be retired.
    #[must_use]
    pub fn of_sealed(self, sealed: u32) -> Self {
        Self { sealed: Some(sealed), ..self }
    }

    /// The number of sealed blocks.
    pub(super) fn sealed(&self) -> u32 {
        self.sealed.unwrap_or_else(|| self.count())
    }

    /// The same with at most this much of what belongs to others.
    #[must_use]
    pub(super) fn with_loans_within(&self, most: u64) -> Self {
        let within = |offer: &u64| match self.kind {
            Kind::Own => *offer,
            Kind::Lent => most.min(*offer),
        };
        Self { falling: self.falling.iter().map(within).collect(), ..*self }
    }

    /// The number of blocks on which this much can be spent.
    pub fn blocks(&self, cost: u64) -> u32 {
        u32::try_from(self.falling.partition_point(|offer| *offer >= cost)).unwrap_or(u32::MAX)
    }

    /// The number of blocks, with or without budget.
    pub fn count(&self) -> u32 {
        u32::try_from(self.falling.len()).unwrap_or(u32::MAX)
    }

    /// The distinct amounts, smallest first, each with the number of blocks on which it can be spent.
    pub(super) fn levels(&self) -> impl Iterator<Item = (u64, u32)> {
        let numbers = (1_u32..).zip(&self.falling).map(|(blocks, amount)| (*amount, blocks));
        let next = self.falling.iter().skip(1).map(Some).chain([None]);
        let last_of_level = numbers.zip(next).filter(|((amount, _), next)| *next != Some(amount));
        last_of_level.map(|(level, _)| level).collect::<Vec<_>>().into_iter().rev()
    }

    /// The most of its own budget that can be spent on each of `count` blocks; zero if there are fewer.
    pub fn most(&self, blocks: u32) -> u64 {
        if self.kind == Kind::Lent {
            return 0;
        }
        let last = (blocks as usize).checked_sub(1);
        last.and_then(|last| self.falling.get(last)).copied().unwrap_or(0)
    }
}

/// The world as a pipeline sees it.
#[derive(Clone, Copy)]
pub struct World<'world> {
    /// The time, in the unit of the deadline.
    pub time: u64,
    /// The available budget.
    pub offers: &'world Offers,
    /// What released values say about the next attempt, if anything.
    pub forecast: Option<&'world dyn Forecast>,
    /// What is left of the rows' risk.
    pub rows: RowsPrices,
}

impl<'world> World<'world> {
    /// The world without a forecast.
    pub const fn new(time: u64, offers: &'world Offers) -> Self {
        Self { time, offers, forecast: None, rows: RowsPrices::FRESH }
    }
}
