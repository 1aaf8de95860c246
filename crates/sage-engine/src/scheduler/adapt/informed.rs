//! The search of [`Strategy::Informed`](super::Strategy::Informed): which attempt is next, given a forecast.
//!
//! # One path
//! The *mass* of an attempt is its cost times its number of blocks: what it takes from the stream. Of all attempts of
//! the same mass, the one on the most blocks has the most rows and the least noise relative to them (under Rényi
//! units the relative variance of the noise is 1 / (mass · blocks), under ε units it is the same for all). So only
//! attempts on one path are considered: at the least cost on more and more blocks, then at a higher cost on all blocks
//! that admit it.
//!
//! # At most four times the optimum
//! Let x be the largest mass of an attempt that was not accepted, L the largest mass of the path whose test is too small
//! for any model, S the sum of all masses so far. The next attempt has a mass from S to 4 max(x, L) − S. If success is
//! monotone along the path and m is the least mass that succeeds, then m > max(x, L) before each attempt, so the total
//! is at most 4 m after each. The interval is never empty: each attempt has at least the mass of all before it, so
//! S ≤ 2x, and 4x − S ≥ S. Doubling is the special case without a forecast. Within the interval the forecast decides,
//! so a wrong forecast does not break the bound. The first attempt without a known L is the least one of the plan,
//! whatever the optimum. Success is random; the bound is for the search, not for luck.

use super::forecast::Forecast;
use super::plan::{Limits, Plan};
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

/// The masses of earlier attempts of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masses {
    /// Of all charged attempts together.
    pub(super) spent: u128,
    /// The largest of an attempt that was not accepted.
    pub(super) failed: u128,
}

/// The next step of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// This attempt.
    Try(Candidate),
    /// More budget or more blocks are needed: at least this.
    Wait(Candidate),
    /// The limits of the plan admit no further attempt.
    Exhausted,
    /// No attempt is likely to be accepted.
    Hopeless,
}

/// An attempt outside the interval of masses is made only if its chance is at least this.
const LIKELY: f64 = 0.5;
/// A chance below this is not told apart from zero.
const LEAST_CHANCE: f64 = 0.01;
/// How often the existing blocks may have to double for a wait to be worthwhile.
const FORESIGHT: u32 = 6;

/// The next attempt of a pipeline.
pub(super) fn search(plan: &Plan, masses: Masses, offers: &Offers, forecast: Option<&dyn Forecast>) -> Search {
    if masses.failed > 0 && forecast.is_some_and(Forecast::is_hopeless) {
        return Search::Hopeless;
    }
    let first = Candidate { cost: plan.first_cost(), window: plan.first_window() };
    let path = path(plan, offers);
    let too_small = |one: &&Candidate| forecast.is_some_and(|forecast| forecast.is_too_small(one.cost, one.window));
    let small = path.iter().filter(too_small).map(|one| one.mass()).max().unwrap_or(0);
    let floor = masses.failed.max(small);
    if floor == 0 {
        return if path.is_empty() { Search::Wait(first) } else { Search::Try(first) };
    }
    let most = (4 * floor).saturating_sub(masses.spent);
    let fits = |one: &&Candidate| one.mass() > floor && one.mass() >= masses.spent && one.mass() <= most;
    let within: Vec<Candidate> = path.iter().filter(fits).copied().collect();
    let chance = |one: &Candidate| forecast.map_or(0.0, |forecast| forecast.chance(one.cost, one.window));
    if within.is_empty() {
        // What there is does not reach the interval. The largest attempt is made if it is likely to be the last one.
        let last = path.last().filter(|one| one.mass() > masses.failed && one.mass() <= most && chance(one) >= LIKELY);
        return last.map_or_else(|| wait(plan, masses, offers, forecast), |last| Search::Try(*last));
    }
    let Some(forecast) = forecast else {
        let doubled = within.iter().find(|one| one.mass() >= 2 * masses.failed).or(within.last());
        return doubled.map_or(Search::Exhausted, |one| Search::Try(*one));
    };
    if within.iter().all(|one| chance(one) < LEAST_CHANCE)
        && let Some(wider) = wider_window(plan, offers, forecast)
    {
        return Search::Wait(wider);
    }
    let price = |one: &Candidate| one.mass() as f64 / chance(one).max(LEAST_CHANCE);
    let best = within.iter().min_by(|one, two| price(one).total_cmp(&price(two)));
    best.map_or(Search::Exhausted, |one| Search::Try(*one))
}

/// What a pipeline waits for that cannot make an attempt of the mass it needs.
fn wait(plan: &Plan, masses: Masses, offers: &Offers, forecast: Option<&dyn Forecast>) -> Search {
    if let Some(wider) = forecast.and_then(|forecast| wider_window(plan, offers, forecast)) {
        return Search::Wait(wider);
    }
    let Limits { cost: most_cost, window: most_window, .. } = *plan.limits();
    let mass = masses.failed.max(masses.spent);
    if u128::from(most_cost) * u128::from(most_window) <= mass {
        return Search::Exhausted;
    }
    // Twice the blocks that exist, at a cost that gives the mass.
    let blocks = offers.blocks(plan.first_cost()).saturating_mul(2).clamp(plan.first_window(), most_window);
    let cost = u64::try_from(mass / u128::from(blocks) + 1).unwrap_or(u64::MAX);
    Search::Wait(Candidate { cost: cost.clamp(plan.first_cost(), most_cost), window: blocks })
}

/// The least window beyond the existing blocks on which an attempt is likely to be accepted: rows are missing, not
/// budget. `None` if a larger cost would do as well, or nothing would.
fn wider_window(plan: &Plan, offers: &Offers, forecast: &dyn Forecast) -> Option<Candidate> {
    let existing = offers.blocks(plan.first_cost()).max(1);
    let windows = (1..=FORESIGHT).map(|doublings| existing.saturating_mul(1 << doublings).min(plan.limits().window));
    let costs = || std::iter::successors(Some(plan.first_cost()), |cost| cost.checked_mul(4));
    let costs = || costs().take_while(|cost| *cost <= plan.limits().cost);
    let candidates = windows.flat_map(|window| costs().map(move |cost| Candidate { cost, window }));
    candidates.filter(|one| one.window > existing).find(|one| forecast.chance(one.cost, one.window) >= LIKELY)
}

/// The attempts that are possible now, by rising mass; neighbours differ by a factor of about √2.
fn path(plan: &Plan, offers: &Offers) -> Vec<Candidate> {
    let limits = plan.limits();
    let widest = |cost: u64| offers.blocks(cost).min(limits.window);
    let grow = |number: u64| (number.saturating_mul(181) / 128).max(number.saturating_add(1));
    let mut path: Vec<Candidate> = Vec::new();
    let all = widest(plan.first_cost());
    let mut window = u64::from(plan.first_window());
    while window < u64::from(all) {
        path.push(Candidate { cost: plan.first_cost(), window: window as u32 });
        window = grow(window);
    }
    let mut cost = plan.first_cost();
    loop {
        let window = widest(cost);
        if window < plan.first_window() {
            break;
        }
        let one = Candidate { cost, window };
        if path.last().is_none_or(|last| one.mass() > last.mass()) {
            path.push(one);
        }
        if cost >= limits.cost {
            break;
        }
        cost = grow(cost).min(limits.cost);
    }
    path
}
