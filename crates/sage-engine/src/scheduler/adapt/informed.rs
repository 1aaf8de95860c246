//! The search of [`Strategy::Informed`](super::Strategy::Informed): which attempt is next, given a forecast.
//!
//! # At most four times the optimum
//! Let M be the least mass of a sufficient attempt, x the largest mass of an attempt that was not accepted, S the sum
//! of all of them, and L the largest mass of the [path](super::path) that the forecast excludes. Then M is at least
//! `low` = max(x + 1, L + 1, the first mass), and the next attempt has a mass from max(low, S) to 4 low − S. So the
//! total is at most 4 M after each attempt. The interval is never empty: each attempt has at least the mass of all
//! before it, so S ≤ 2 x, and 4 low − S ≥ 2 x. Without a forecast the next attempt has a mass of 2 x, which is doubling.
//! Within the interval the forecast decides, so a wrong chance does not break the bound. The proof and its assumptions:
//! `docs/internals/informed.md`.
//!
//! # Rows or budget
//! If not even the largest cost on all existing blocks is likely to succeed, rows are missing, and the run waits for
//! blocks. Otherwise it never waits for rows: it raises the cost on the blocks that exist, or waits until it may.
//!
//! # Under load
//! What other runs reserve is borrowed at small costs only ([`LARGEST_LOAN`]): a wide attempt at a high cost takes more
//! than it would need to wait for, and from everybody.

use super::forecast::Forecast;
use super::path::{Candidate, Path, Rows};
use super::plan::Plan;
use super::tested::RowsPrices;
use super::world::Offers;

/// The attempts of a pipeline that were tested and not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FailedAttempts {
    /// The sum of their masses.
    pub(super) total: u128,
    /// The largest mass.
    pub(super) largest: u128,
    /// The largest window.
    pub(super) widest: u32,
}

impl FailedAttempts {
    pub(super) fn with(self, one: Candidate) -> Self {
        Self {
            total: self.total + one.mass(),
            largest: self.largest.max(one.mass()),
            widest: self.widest.max(one.window),
        }
    }
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
    /// No attempt within the limits is likely to be accepted.
    Hopeless,
}

/// From this chance on an attempt counts as likely to be accepted.
pub(crate) const LIKELY: f64 = 0.5;
/// Below this chance an attempt is not worth its cost.
const LEAST_CHANCE: f64 = 0.01;
/// Below this chance no more budget is spent on the existing blocks while more blocks may arrive.
pub(super) const WORTHWHILE: f64 = 0.2;
/// Below this chance an attempt serves to reach further with the next one.
const STEP_CHANCE: f64 = 0.1;
/// How much more a later attempt needs, because less of the error probability is left for it.
const STRICTER: f64 = 2.0;
/// The largest cost of an attempt on borrowed budget, in first costs. A run that needs more than that on each block would
/// take what several waiting runs need.
pub(super) const LARGEST_LOAN: u64 = 16;
/// Attempts below this part of the mass of everything that is available say little about it.
const MEASURED: u128 = 64;
/// How often the existing blocks may have to double for a wait to be worthwhile.
const FORESIGHT: u32 = 6;

/// The next attempt of a pipeline.
pub(super) fn search(
    plan: &Plan, failed: FailedAttempts, offers: &Offers, forecast: Option<PricedForecast<'_>>,
) -> Search {
    Searcher { plan, failed, offers, forecast }.next()
}

/// A forecast with the risk that is left to the next attempt.
#[derive(Clone, Copy)]
pub(super) struct PricedForecast<'a> {
    pub(super) forecast: &'a dyn Forecast,
    pub(super) rows: RowsPrices,
    /// The divisor of the noise's risk of a likely attempt.
    pub(super) noise_divisor: u64,
}

impl PricedForecast<'_> {
    pub(super) fn chance(&self, cost: u64, window: u32) -> f64 {
        self.forecast.chance(cost, window, self.rows.divisor(window, self.noise_divisor))
    }

    fn is_too_small(&self, cost: u64, window: u32) -> bool {
        self.forecast.is_too_small(cost, window, self.rows.divisor(window, self.noise_divisor))
    }

    fn rows_help(&self) -> bool {
        self.forecast.rows_help()
    }
}

struct Searcher<'a> {
    plan: &'a Plan,
    failed: FailedAttempts,
    offers: &'a Offers,
    forecast: Option<PricedForecast<'a>>,
}

/// The masses that the bound allows for the next attempt.
#[derive(Clone, Copy)]
struct Interval {
    /// No smaller mass is sufficient.
    low: u128,
    from: u128,
    to: u128,
}

impl Searcher<'_> {
    fn next(&self) -> Search {
        let path = Path::new(self.plan, self.offers, Rows::new(self.forecast.map(|priced| priced.forecast)));
        if self.forecast.is_some_and(|forecast| self.is_hopeless(forecast, path.end())) {
            return Search::Hopeless;
        }
        let interval = self.interval(&path);
        let Some(end) = path.end() else { return self.wait(interval) };
        match self.forecast {
            None => self.by_doubling(&path, end, interval),
            Some(forecast) => self.by_forecast(forecast, &path, end, interval),
        }
    }

    fn interval(&self, path: &Path) -> Interval {
        let first = u128::from(self.plan.first_cost()) * u128::from(self.plan.first_window());
        let excluded = self.forecast.map_or(0, |forecast| largest_excluded(forecast, path));
        let FailedAttempts { total, largest, .. } = self.failed;
        let low = first.max(largest + 1).max(excluded + 1);
        // No attempt of the path has a mass between the two.
        let low = path.between(low).map_or(low, Candidate::mass);
        // An attempt that is hardly larger than one that failed is a repetition.
        let least = total.max(largest + largest / 4);
        let to = (4 * low).saturating_sub(total);
        // Where the grid has no step from the first mass on, the doubling of the last attempt is one.
        let is_within = |mass: &u128| path.at_least(*mass).is_none_or(|one| one.mass() <= to);
        let from = Some(low.max(least)).filter(is_within).unwrap_or(least);
        Interval { low, from, to }
    }

    /// Whether the bound allows one more attempt on everything there is, although it is less than all before together.
    fn may_be_last(&self, end: Candidate, interval: Interval) -> bool {
        end.mass() >= interval.low && end.mass() <= interval.to && 16 * end.mass() >= 17 * self.failed.largest
    }

    fn by_doubling(&self, path: &Path, end: Candidate, interval: Interval) -> Search {
        match path.at_least(interval.from.max(2 * self.failed.largest)) {
            // The step after this one would be more than there is.
            Some(next) if end.mass() < self.failed.total + next.mass() && end.mass() <= interval.to => Search::Try(end),
            Some(next) => Search::Try(next),
            None if self.may_be_last(end, interval) => Search::Try(end),
            None => self.wait(interval),
        }
    }

    fn by_forecast(&self, forecast: PricedForecast<'_>, path: &Path, end: Candidate, interval: Interval) -> Search {
        if self.lacks_rows(forecast, end) {
            return self.wait(interval);
        }
        let Some(next) = path.at_least(interval.from) else {
            let likely = forecast.chance(end.cost, end.window) >= LIKELY;
            return if likely && self.may_be_last(end, interval) { Search::Try(end) } else { self.wait(interval) };
        };
        if self.has_measured(end) && forecast.chance(end.cost, end.window) < LEAST_CHANCE {
            return self.wait(interval);
        }
        let steps = Steps::new(forecast, path, next, end, interval);
        Search::Try(steps.best())
    }

    /// Whether hardly any budget on the existing blocks would do. Before the first attempt little is known, so only a
    /// negligible chance counts.
    fn lacks_rows(&self, forecast: PricedForecast<'_>, end: Candidate) -> bool {
        let limits = self.plan.limits();
        let existing = self.offers.count().min(limits.window);
        let is_blind = self.failed.largest > 0 && !self.has_measured(end);
        if is_blind && existing >= self.plan.first_window() {
            return false;
        }
        let least = if self.failed.largest == 0 { LEAST_CHANCE } else { WORTHWHILE };
        forecast.rows_help()
            && existing < limits.window
            && (existing < self.plan.first_window() || forecast.chance(limits.cost, existing) < least)
    }

    /// Whether the attempts so far are more than a small part of what is available. The estimate of a small one may
    /// be noise, and a larger one costs little: a run neither waits nor ends because of it.
    fn has_measured(&self, end: Candidate) -> bool {
        self.failed.largest > 0 && MEASURED * self.failed.total >= end.mass()
    }

    /// Whether nothing within the limits and the foresight is likely to be accepted. Before the first attempt only
    /// noise that is certainly too large counts.
    fn is_hopeless(&self, forecast: PricedForecast<'_>, end: Option<Candidate>) -> bool {
        let limits = self.plan.limits();
        if self.failed.largest == 0 {
            return !forecast.rows_help() && forecast.is_too_small(limits.cost, limits.window);
        }
        // Without blocks nothing is known about the future of the stream.
        let known = self.offers.count().max(self.failed.widest);
        let far = known.saturating_mul(1 << FORESIGHT).clamp(self.plan.first_window(), limits.window);
        let has_measured = end.is_some_and(|end| self.has_measured(end));
        forecast.forecast.is_hopeless() || (has_measured && forecast.chance(limits.cost, far) < LEAST_CHANCE)
    }

    /// What a pipeline waits for that cannot make an attempt of the mass it needs.
    fn wait(&self, interval: Interval) -> Search {
        if let Some(likely) = self.forecast.and_then(|forecast| self.likely_later(forecast, interval)) {
            return Search::Wait(likely);
        }
        // The same blocks at a higher cost, or more blocks if the cost is at its limit.
        let limits = self.plan.limits();
        let end = Path::new(self.plan, self.offers, Rows::Help).end().map_or(0, |end| end.window);
        let blocks = end.max(self.failed.widest).max(self.plan.first_window());
        let mass = interval.from.max(2 * self.failed.largest);
        let cost = mass.div_ceil(u128::from(blocks)).clamp(self.plan.first_cost().into(), limits.cost.into());
        let window = mass.div_ceil(cost).max(u128::from(blocks));
        if window > u128::from(limits.window) {
            return Search::Exhausted;
        }
        let cost = u64::try_from(cost).unwrap_or(limits.cost);
        Search::Wait(Candidate { cost, window: u32::try_from(window).unwrap_or(limits.window) })
    }

    /// The least window, from the existing blocks on, on which an attempt is likely to be accepted, and its least cost.
    fn likely_later(&self, forecast: PricedForecast<'_>, interval: Interval) -> Option<Candidate> {
        let limits = self.plan.limits();
        let existing = if forecast.rows_help() { self.offers.count() } else { 0 };
        let mut window = existing.clamp(self.plan.first_window(), limits.window);
        let most = window.saturating_mul(1 << FORESIGHT).min(limits.window);
        while forecast.chance(limits.cost, window) < LIKELY {
            if window >= most || !forecast.rows_help() {
                return None;
            }
            window = u32::try_from(grown(window.into(), 8)).unwrap_or(u32::MAX).min(most);
        }
        // What is excluded on the existing blocks may be sufficient on more.
        let mass = if window > existing { self.failed.total.max(self.failed.largest + 1) } else { interval.from };
        let enough = mass.div_ceil(u128::from(window)).max(self.plan.first_cost().into());
        let (mut below, mut cost) = (u64::try_from(enough).ok().filter(|cost| *cost <= limits.cost)?, limits.cost);
        if forecast.chance(below, window) >= LIKELY {
            return Some(Candidate { cost: below, window });
        }
        while cost - below > below / 64 + 1 {
            // The middle of the logarithms, roughly: neighbouring powers of two first.
            let middle =
                if cost / 2 > below { below.saturating_mul(2).max(cost / 1024) } else { below + (cost - below) / 2 };
            if forecast.chance(middle, window) >= LIKELY { cost = middle } else { below = middle }
        }
        Some(Candidate { cost, window })
    }
}

/// A number that is larger by one part in `part`, and by one at least.
fn grown(number: u128, part: u128) -> u128 {
    number + (number / part).max(1)
}

/// The largest mass up to which the forecast excludes every attempt of the path; zero if it admits the first.
fn largest_excluded(forecast: PricedForecast<'_>, path: &Path) -> u128 {
    let is_excluded = |one: &Candidate| forecast.is_too_small(one.cost, one.window);
    let (Some(mut last), Some(end)) = (path.between(0), path.end()) else { return 0 };
    if !is_excluded(&last) {
        return 0;
    }
    let mut open = loop {
        if last == end {
            return end.mass();
        }
        let next = path.between(grown(last.mass(), 5)).unwrap_or(end);
        if !is_excluded(&next) {
            break next.mass();
        }
        last = next;
    };
    let mut excluded = last.mass();
    while open - excluded > (excluded >> 12) + 1 {
        let middle = excluded + (open - excluded) / 2;
        match path.between(middle) {
            Some(one) if is_excluded(&one) => excluded = one.mass().min(open - 1),
            _ => open = middle,
        }
    }
    open - 1
}

/// Attempts by rising mass, those within the interval first, with their chances.
struct Steps {
    steps: Vec<(Candidate, f64)>,
    /// How many of them are within the interval.
    within: usize,
}

impl Steps {
    /// Neighbours within the interval differ by a tenth, later ones by a half: they only show what a failure costs.
    fn new(forecast: PricedForecast<'_>, path: &Path, next: Candidate, end: Candidate, interval: Interval) -> Self {
        let mut candidates = vec![next];
        let (mut last, mut within) = (next, 1);
        while last != end {
            let part = if last.mass() < interval.to { 10 } else { 2 };
            let mut one = path.at_least(grown(last.mass(), part)).unwrap_or(end);
            if last.mass() < interval.to && one.mass() > interval.to {
                // The last one within the interval, if it is another one.
                one = path.at_least(interval.to).filter(|one| one.mass() <= interval.to).unwrap_or(one);
            }
            within += usize::from(one.mass() <= interval.to);
            candidates.push(one);
            last = one;
        }
        let chance = |one: Candidate| (one, forecast.chance(one.cost, one.window).clamp(0.0, 1.0));
        Self { steps: candidates.into_iter().map(chance).collect(), within }
    }

    /// The attempt with the least expected total cost of itself and all that follow.
    fn best(&self) -> Candidate {
        let (last_within, most) = self.steps[self.within - 1];
        if most < STEP_CHANCE {
            return last_within;
        }
        let mass = |index: usize| self.steps[index].0.mass() as f64;
        // What follows a failure, times the probability of the failure. The bound admits at most about three times the
        // mass next. Where that is not enough, the run has to wait, which counts as twice the mass.
        let mut after = vec![0.0; self.steps.len()];
        for index in (0..self.steps.len()).rev() {
            let fails = 1.0 - self.steps[index].1;
            let next = (index + 1..self.steps.len())
                .skip_while(|later| mass(*later) < 1.25 * mass(index))
                .take_while(|later| mass(*later) <= 3.0 * mass(index));
            let costs = next.map(|later| STRICTER * (fails * mass(later) + after[later]));
            after[index] = costs.min_by(f64::total_cmp).unwrap_or(fails * 2.0 * mass(index));
        }
        let best = (0..self.within).min_by(|one, two| {
            let cost = |index: usize| mass(index) + after[index];
            cost(*one).total_cmp(&cost(*two))
        });
        best.map_or(last_within, |index| self.steps[index].0)
    }
}
