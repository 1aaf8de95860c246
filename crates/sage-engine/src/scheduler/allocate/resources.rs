//! The resources in which a block's budget is shared.
//!
//! Each lane has two additive resources: its loss and its δ. If the filter adds up ε or ρ, the loss is that number in
//! the ledger's units. Under Rényi it is a share of the cap at one order, the primary one: the order at which Gaussians
//! fit most often. Reservations that are together within one cap are admitted by the filter at that order; whether a
//! cost fits at another order is decided by the ledger.

use sage_kernel::accountant::ORDERS;
use sage_kernel::{Amounts, Component, Filter, Lane, Rule};

/// The resources of a block: loss and δ of the train lane, loss and δ of the test lane.
pub const RESOURCES: usize = 4;

/// An amount of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources(pub [u64; RESOURCES]);

/// The units of share in the cap at the primary order.
pub(crate) const SHARES: u64 = 1_000_000_000;
/// The same plus one millionth, so that rounded costs fit together.
const SHARES_OF_COST: u128 = 1_000_001_000;

impl Resources {
    /// Zero of each.
    pub const ZERO: Self = Self([0; RESOURCES]);

    /// The loss of a lane.
    pub const fn loss(self, lane: Lane) -> u64 {
        match lane {
            Lane::Train => self.0[0],
            Lane::Test => self.0[2],
        }
    }

    /// The δ of a lane.
    pub const fn delta(self, lane: Lane) -> u64 {
        match lane {
            Lane::Train => self.0[1],
            Lane::Test => self.0[3],
        }
    }

    /// Whether each resource is at most that of the other.
    pub fn within(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| *own <= other)
    }

    /// The saturating sum.
    pub(super) fn with(self, other: Self) -> Self {
        Self(std::array::from_fn(|resource| self.0[resource].saturating_add(other.0[resource])))
    }

    /// The saturating difference.
    pub(super) fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|resource| self.0[resource].saturating_sub(other.0[resource])))
    }

    /// The resources of a block under this filter; `None` for a fixed stream, whose queries are all declared in
    /// advance.
    pub fn of_block(filter: &Filter) -> Option<Self> {
        let [loss, delta] = Counted::of(filter)?.capacity(filter);
        Some(Self([loss, delta, loss, delta]))
    }

    /// These amounts as resources of the train and the test lane; `None` for a fixed stream.
    pub fn of_cost(filter: &Filter, amounts: [Option<&Amounts>; 2]) -> Option<Self> {
        let counted = Counted::of(filter)?;
        let [train, test] = amounts.map(|amounts| match amounts {
            Some(amounts) => counted.cost(filter, amounts),
            None => Some([0, 0]),
        });
        let ([loss, delta], [test_loss, test_delta]) = (train?, test?);
        Some(Self([loss, delta, test_loss, test_delta]))
    }
}

/// Which components of a filter are shared.
struct Counted {
    loss: usize,
    delta: usize,
    /// Whether the loss is counted as a share of its cap.
    as_share: bool,
}

impl Counted {
    fn of(filter: &Filter) -> Option<Self> {
        let delta = filter.components().iter().position(|component| *component == Component::Delta);
        let as_share = filter.rule() == Rule::Renyi;
        let loss = if as_share { primary(filter) } else { 0 };
        delta.map(|delta| Self { loss, delta, as_share })
    }

    fn capacity(&self, filter: &Filter) -> [u64; 2] {
        let caps = filter.caps();
        [if self.as_share { SHARES } else { caps[self.loss] }, caps[self.delta]]
    }

    fn cost(&self, filter: &Filter, amounts: &Amounts) -> Option<[u64; 2]> {
        let (loss, delta) = (*amounts.units().get(self.loss)?, *amounts.units().get(self.delta)?);
        if !self.as_share {
            return Some([loss, delta]);
        }
        let cap = u128::from(filter.caps()[self.loss].max(1));
        let share = (u128::from(loss) * SHARES_OF_COST).div_ceil(cap);
        Some([u64::try_from(share).unwrap_or(u64::MAX), delta])
    }
}

/// The index of the order with the largest cap relative to its order; order ∞ if there is no other.
fn primary(filter: &Filter) -> usize {
    let value = |index: usize| match filter.components()[index] {
        Component::Order(order) => {
            filter.caps()[index] as f64 / ORDERS.get(order as usize).copied().unwrap_or(f64::INFINITY)
        }
        _ => -1.0,
    };
    let last = filter.components().len() - 1;
    let best = (0..=last).max_by(|&one, &two| value(one).total_cmp(&value(two))).unwrap_or(last);
    if value(best) > 0.0 { best } else { last }
}
