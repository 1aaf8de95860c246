//! The attempts that [`Strategy::Informed`](super::Strategy::Informed) considers, ordered by what they take from the
//! stream.
//!
//! The *mass* of an attempt is its cost times its number of blocks. Of all attempts of the same mass, the one on the
//! most blocks has the most rows, and noise that is at most as large relative to them: under Rényi units the relative
//! variance is 1 / (mass · blocks), under ε units it is the same for all. So only one attempt of each mass is
//! considered: at the least cost on more and more blocks, then at a higher cost on all blocks that admit it. Blocks that
//! do not admit a higher cost are left out only from the mass on at which the rest has less relative noise. Where rows
//! do not help, as for a count whose noise alone decides, the window stays the first one and only the cost grows.
//! Attempts are made on the [grid](super::grid); the steps between, one block or one unit of cost, say what an attempt
//! that was not accepted excludes.

use super::forecast::Forecast;
use super::grid::Grid;
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
    /// Only the noise decides. There is no risk of an unlucky sample to divide, so any cost may be tried.
    Irrelevant,
}

impl Rows {
    pub(super) fn new(forecast: Option<&dyn Forecast>) -> Self {
        if forecast.is_none_or(Forecast::rows_help) { Self::Help } else { Self::Irrelevant }
    }

    /// The largest cost of an attempt, if so much is available.
    pub(super) fn cost_within(self, grid: &Grid, most: u64) -> Option<u64> {
        match self {
            Self::Help => grid.cost_within(most),
            Self::Irrelevant => Some(most).filter(|most| *most >= grid.costs()[0]),
        }
    }
}

/// The attempts that are possible now, by rising mass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    first: Candidate,
    /// The stretches of constant numbers of blocks, most blocks first.
    stretches: Vec<Stretch>,
    /// The attempts on the grid.
    attempts: Vec<Candidate>,
    rows: Rows,
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
        let (limits, grid) = (plan.limits(), Grid::new(plan, offers.sealed()));
        let first = Candidate { cost: plan.first_cost(), window: plan.first_window() };
        let mut stretches: Vec<Stretch> = Vec::new();
        for (cost, blocks) in offers.levels() {
            let window = match rows {
                Rows::Help => grid.window_within(blocks.min(limits.window)),
                Rows::Irrelevant => Some(first.window).filter(|window| blocks >= *window),
            };
            let Some(window) = window else { continue };
            let Some(cost) = rows.cost_within(&grid, cost.min(limits.cost)) else { continue };
            let last = Candidate { cost, window };
            let from = stretches.last().map_or(0, |before| least_better(before.last, window, plan.units()));
            if last.mass() >= from {
                stretches.push(Stretch { from, last });
            }
        }
        let attempts = attempts(first, &stretches, &grid);
        Self { first, stretches, attempts, rows }
    }

    /// The attempt with the largest mass.
    pub(super) fn end(&self) -> Option<Candidate> {
        match self.rows {
            Rows::Help => self.attempts.last().copied(),
            Rows::Irrelevant => self.stretches.last().map(|stretch| stretch.last),
        }
    }

    /// The attempt with the least mass from `mass` on.
    pub(super) fn at_least(&self, mass: u128) -> Option<Candidate> {
        if self.rows == Rows::Irrelevant {
            return self.between(mass);
        }
        self.attempts.get(self.attempts.partition_point(|one| one.mass() < mass)).copied()
    }

    /// The attempt with the least mass from `mass` on, on any number of blocks and at any cost.
    pub(super) fn between(&self, mass: u128) -> Option<Candidate> {
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

/// The attempts of the grid on these stretches, by rising mass.
fn attempts(first: Candidate, stretches: &[Stretch], grid: &Grid) -> Vec<Candidate> {
    let Some(widest) = stretches.first() else { return Vec::new() };
    let windows = grid.windows().iter().rev().filter(|window| **window <= widest.last.window);
    let mut attempts: Vec<Candidate> = windows.map(|&window| Candidate { cost: first.cost, window }).collect();
    for Stretch { from, last } in stretches {
        for cost in grid.costs().iter().copied().take_while(|cost| *cost <= last.cost) {
            let one = Candidate { cost, window: last.window };
            let least = attempts.last().map_or(0, |last| last.mass() + 1);
            if one.mass() >= least.max(*from) {
                attempts.push(one);
            }
        }
    }
    attempts
}

/// The least mass of an attempt on fewer blocks with less relative noise than this one.
fn least_better(before: Candidate, window: u32, units: Units) -> u128 {
    match units {
        Units::Epsilon => before.mass() + 1,
        Units::Share if window == before.window => before.mass() + 1,
        Units::Share => (before.mass().saturating_mul(before.window.into()) / u128::from(window.max(1))) + 1,
    }
}
