//! The attempts that [`Strategy::Informed`](super::Strategy::Informed) considers, ordered by what they take from the
//! stream.
//!
//! The *mass* of an attempt is its cost times its number of blocks. Of all attempts of the same mass, the one on the
//! most blocks has the most rows, and noise that is at most as large relative to them: under Rényi units the relative
//! variance is 1 / (mass · blocks), under ε units it is the same for all. So only one attempt of each mass is
//! considered: at the least cost on more and more blocks, then at a higher cost on all blocks that admit it. Blocks that
//! do not admit a higher cost are left out only from the mass on at which the rest has less relative noise. Where rows
//! do not help, as for a count whose noise alone decides, the window stays the first one and only the cost grows.

use super::plan::{Plan, Units};
use super::world::Offers;

/// Cost and number of blocks of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) cost: u64,
    pub(super) window: u32,
}

impl Candidate {
    pub(super) fn mass(self) -> u128 {
        u128::from(self.cost) * u128::from(self.window)
    }
}

/// Whether more rows make an attempt more likely to succeed at the same cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// They do, as in every test of a mean.
    Help,
    /// Only the noise decides.
    Irrelevant,
}

/// The attempts that are possible now, by rising mass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    first: Candidate,
    /// The stretches of constant numbers of blocks, most blocks first.
    stretches: Vec<Stretch>,
}

/// Attempts on the same number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// The least mass at which they are better than those on more blocks.
    from: u128,
    /// The attempt with the largest cost.
    last: Candidate,
}

impl Path {
    pub(super) fn new(plan: &Plan, offers: &Offers, rows: Rows) -> Self {
        let limits = plan.limits();
        let first = Candidate { cost: plan.first_cost(), window: plan.first_window() };
        let mut stretches: Vec<Stretch> = Vec::new();
        for (cost, blocks) in offers.levels() {
            let window = match rows {
                Rows::Help => blocks.min(limits.window),
                Rows::Irrelevant if blocks < first.window => 0,
                Rows::Irrelevant => first.window,
            };
            let last = Candidate { cost: cost.min(limits.cost), window };
            if last.cost < first.cost || last.window < first.window {
                continue;
            }
            let from = stretches.last().map_or(0, |before| least_better(before.last, window, plan.units()));
            if last.mass() >= from {
                stretches.push(Stretch { from, last });
            }
        }
        Self { first, stretches }
    }

    /// The attempt with the largest mass.
    pub(super) fn end(&self) -> Option<Candidate> {
        self.stretches.last().map(|stretch| stretch.last)
    }

    /// The attempt with the least mass from `mass` on.
    pub(super) fn at_least(&self, mass: u128) -> Option<Candidate> {
        let Stretch { from, last } = *self.stretches.iter().find(|stretch| stretch.last.mass() >= mass)?;
        let mass = mass.max(from);
        let cost = mass.div_ceil(u128::from(last.window));
        if cost > u128::from(self.first.cost) {
            // At most the largest cost of the stretch, whose mass is sufficient.
            return Some(Candidate { cost: u64::try_from(cost).unwrap_or(last.cost), window: last.window });
        }
        let window = mass.div_ceil(u128::from(self.first.cost)).max(u128::from(self.first.window));
        Some(Candidate { cost: self.first.cost, window: u32::try_from(window).unwrap_or(last.window) })
    }
}

/// The least mass of an attempt on fewer blocks with less relative noise than this one.
fn least_better(before: Candidate, window: u32, units: Units) -> u128 {
    match units {
        Units::Epsilon => before.mass() + 1,
        Units::Share if window == before.window => before.mass() + 1,
        Units::Share => (before.mass().saturating_mul(before.window.into()) / u128::from(window.max(1))) + 1,
    }
}
