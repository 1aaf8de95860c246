//! The state of one pipeline's attempts: a fold of events, and the next action.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::grid::Grid;
use super::informed::{self, FailedAttempts, PricedForecast, Search, WORTHWHILE};
use super::path::{Candidate, Rows};
use super::plan::{Mode, Plan, RiskSchedule, Strategy, Units};
use super::risk::{Draw, RiskLeft};
use super::world::World;

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The index of the test in the pipeline, from one.
    pub index: u32,
    /// The index of the choice in the pipeline, from one. The key of the charge is derived from it.
    pub serial: u64,
    /// The cost on each block, in units of the ledger.
    pub cost: u64,
    /// The number of blocks it reads.
    pub window: u32,
    /// The divisor of the pipeline's error probability; of the part for the noise, if the rows have their own.
    pub risk_divisor: u64,
    /// The divisor of the part for an unlucky sample of rows, if the attempt was chosen by estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_divisor: Option<u64>,
}

impl Attempt {
    /// The same attempt with this divisor of the rows' part of the risk.
    #[must_use]
    pub const fn with_rows_divisor(self, divisor: u64) -> Self {
        Self { rows_divisor: Some(divisor), ..self }
    }
}

/// The verdict of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The target is met.
    Accept,
    /// No model of this kind meets the target.
    Reject,
    /// Undecided: more data or budget is needed.
    Retry,
}

/// An event in the life of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt was chosen. Recorded before it is charged.
    Chosen(Attempt),
    /// The ledger refused it; nothing was spent.
    Refused,
    /// It was charged.
    Charged,
    /// Its charge was cancelled before anything was read.
    Withdrawn,
    /// It was lost after it may have read rows; the charge stands.
    Burnt,
    /// It was tested.
    Judged(Verdict),
    /// The pipeline ended without a verdict.
    Ended(End),
}

/// Why a pipeline ended without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Its deadline passed.
    TimedOut,
    /// A user stopped it.
    Cancelled,
    /// A limit leaves no further attempt.
    Limit(Limit),
    /// Too many consecutive attempts were lost: each costs budget, and the next would fail as well.
    Failing,
    /// The principal who submitted it may no longer spend: the role, the membership of the context, or both were revoked.
    NotMember,
    /// The process crashed several times in a row while it worked on this pipeline.
    Crashed,
    /// Its name belongs to another stream.
    NameTaken,
    /// According to its released estimates, neither more rows nor more budget reach the target.
    OutOfReach,
}

/// The number of consecutive lost attempts after which a pipeline ends.
const LOST_IN_A_ROW: u32 = 3;

/// The limit that leaves no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The number of attempts.
    Attempts,
    /// Neither the cost nor the window may grow.
    Growth,
    /// The next attempt would exceed its time limit, estimated from public sizes. In older logs: an attempt exceeded
    /// it.
    Time,
    /// The next attempt would exceed its memory limit.
    Memory,
}

/// The outcome of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted: there is a result.
    Accepted,
    /// Rejected: no model meets the target.
    Rejected,
    /// Ended without a verdict.
    Stopped(End),
}

/// The phase of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No attempt is in progress.
    Idle,
    /// An attempt is chosen; whether it is charged is not known yet.
    Chosen(Attempt),
    /// An attempt is charged and has no verdict yet.
    Running(Attempt),
    /// The pipeline has ended.
    Over(Outcome),
}

/// What a waiting pipeline needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number of blocks.
    pub blocks: u32,
    /// The budget that must be available on each of them.
    pub cost: u64,
    /// The deadline.
    pub deadline: Option<u64>,
}

/// The next action of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Record this choice, then call [`State::next`] again.
    Choose(Attempt),
    /// Charge this attempt under its serial number. Repeating a charge has no effect.
    Charge(Attempt),
    /// Finish this attempt, which is charged.
    Finish(Attempt),
    /// Wait.
    Wait(Wanted),
    /// Record that the pipeline ended for this reason.
    Stop(End),
    /// Nothing: the pipeline has ended.
    Nothing(Outcome),
}

/// An event that cannot follow the previous ones: a bug, or a log of another pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The phase of the pipeline.
    pub phase: Phase,
    /// The event.
    pub event: Event,
}

impl fmt::Display for Impossible {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} cannot follow {:?}", self.event, self.phase)
    }
}

impl std::error::Error for Impossible {}

/// The attempts of a pipeline so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    plan: Plan,
    phase: Phase,
    /// The last judged attempt, from which the next one grows.
    judged: Option<Attempt>,
    tests: u32,
    choices: u64,
    data_doublings: u32,
    /// Whether the last judged attempt had half the cost of the previous one.
    halved: bool,
    spent: u128,
    failed: FailedAttempts,
    /// What a probing schedule has left.
    risk: RiskLeft,
    /// Attempts lost since the last verdict.
    lost: u32,
}

impl State {
    /// The state before any event.
    pub const fn new(plan: Plan) -> Self {
        Self {
            plan,
            phase: Phase::Idle,
            judged: None,
            tests: 0,
            choices: 0,
            data_doublings: 0,
            halved: false,
            spent: 0,
            failed: FailedAttempts { total: 0, largest: 0, widest: 0 },
            risk: RiskLeft::WHOLE,
            lost: 0,
        }
    }

    /// The state after these events.
    ///
    /// # Errors
    /// At the first event that cannot follow the previous ones.
    pub fn replay(plan: Plan, events: impl IntoIterator<Item = Event>) -> Result<Self, Impossible> {
        events.into_iter().try_fold(Self::new(plan), State::step)
    }

    /// The current phase.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The total cost of a block that was in every window, in units of the ledger.
    pub const fn spent(&self) -> u128 {
        self.spent
    }

    /// The number of attempts that were charged and not cancelled.
    pub const fn attempts(&self) -> u32 {
        self.tests
    }

    /// The state after one more event.
    ///
    /// # Errors
    /// When the event cannot follow the previous ones.
    pub fn step(self, event: Event) -> Result<Self, Impossible> {
        let phase = self.phase;
        match (phase, event) {
            (Phase::Idle, Event::Chosen(attempt)) if self.could_choose(&attempt) => {
                Ok(Self { phase: Phase::Chosen(attempt), choices: attempt.serial, ..self })
            }
            (Phase::Chosen(_), Event::Refused) => Ok(Self { phase: Phase::Idle, ..self }),
            (Phase::Chosen(attempt), Event::Charged) => {
                let spent = self.spent + u128::from(attempt.cost);
                let risk = self.risk.after(attempt.risk_divisor);
                Ok(Self { phase: Phase::Running(attempt), tests: attempt.index, spent, risk, ..self })
            }
            (Phase::Running(attempt), Event::Withdrawn) => {
                let spent = self.spent - u128::from(attempt.cost);
                // Nothing was tested. The risk of a probing schedule is not restored: it is small, and always enough.
                Ok(Self { phase: Phase::Idle, tests: attempt.index - 1, spent, ..self })
            }
            (Phase::Running(_), Event::Burnt) => Ok(Self { phase: Phase::Idle, lost: self.lost + 1, ..self }),
            (Phase::Running(attempt), Event::Judged(verdict)) => Ok(self.judge(attempt, verdict)),
            (Phase::Idle | Phase::Chosen(_) | Phase::Running(_), Event::Ended(end)) => {
                Ok(Self { phase: Phase::Over(Outcome::Stopped(end)), ..self })
            }
            (phase, event) => Err(Impossible { phase, event }),
        }
    }

    /// Whether an attempt is the next one and within the limits. Whether the budget was available is not known here.
    fn could_choose(&self, attempt: &Attempt) -> bool {
        let limits = self.plan.limits();
        attempt.serial == self.choices + 1
            && attempt.index == self.tests + 1
            && limits.attempts.is_none_or(|attempts| attempt.index <= attempts)
            && (self.plan.first_cost()..=limits.cost).contains(&attempt.cost)
            && (self.plan.first_window()..=limits.window).contains(&attempt.window)
            && match self.plan.risk() {
                RiskSchedule::Probing => self.risk.admits(attempt.risk_divisor),
                _ => attempt.risk_divisor == self.plan.risk_divisor(attempt.index),
            }
    }

    fn judge(self, attempt: Attempt, verdict: Verdict) -> Self {
        let grown = self.judged.is_some_and(|before| attempt.window > before.window);
        let halved = self.judged.is_some_and(|before| attempt.cost < before.cost);
        let phase = match verdict {
            Verdict::Accept => Phase::Over(Outcome::Accepted),
            Verdict::Reject => Phase::Over(Outcome::Rejected),
            Verdict::Retry => Phase::Idle,
        };
        let data_doublings = self.data_doublings + u32::from(grown);
        let failed = self.failed.with(Candidate { cost: attempt.cost, window: attempt.window });
        Self { phase, judged: Some(attempt), data_doublings, halved, failed, lost: 0, ..self }
    }

    /// The next action. Only [`Action::Choose`] and [`Action::Stop`] depend on the world, and both are recorded before
    /// they take effect.
    pub fn next(&self, world: World<'_>) -> Action {
        match self.phase {
            Phase::Over(outcome) => Action::Nothing(outcome),
            Phase::Running(attempt) => Action::Finish(attempt),
            Phase::Chosen(attempt) => Action::Charge(attempt),
            Phase::Idle => self.choose(world),
        }
    }

    fn choose(&self, world: World<'_>) -> Action {
        let limits = self.plan.limits();
        if self.lost >= LOST_IN_A_ROW {
            return Action::Stop(End::Failing);
        }
        if limits.attempts.is_some_and(|attempts| self.tests >= attempts) {
            return Action::Stop(End::Limit(Limit::Attempts));
        }
        if limits.deadline.is_some_and(|deadline| world.time >= deadline) {
            return Action::Stop(End::TimedOut);
        }
        if self.plan.strategy() == Strategy::Informed {
            return self.choose_informed(world);
        }
        let steps = self.steps();
        let Some(last) = steps.iter().flatten().next_back() else {
            return Action::Stop(End::Limit(Limit::Growth));
        };
        let possible = |step: &&(u64, u32)| world.offers.blocks(step.0) >= step.1;
        match steps.iter().flatten().find(possible) {
            Some(&(cost, window)) => Action::Choose(self.attempt(self.raised(cost, window, world), window)),
            // Time brings more data; if only the cost may grow, the pipeline waits for that.
            None => {
                let (cost, blocks) = steps.iter().flatten().max_by_key(|step| step.1).unwrap_or(last);
                Action::Wait(Wanted { blocks: *blocks, cost: *cost, deadline: limits.deadline })
            }
        }
    }

    fn choose_informed(&self, world: World<'_>) -> Action {
        let noise_divisor = self.next_risk_divisor();
        let priced = |forecast| PricedForecast { forecast, rows: world.rows, noise_divisor };
        let forecast = world.forecast.map(priced);
        let offers = world.offers.with_loans_within(self.plan.first_cost().saturating_mul(informed::LARGEST_LOAN));
        match informed::search(&self.plan, self.failed, &offers, forecast) {
            Search::Try(one) => {
                let likely = forecast.is_none_or(|forecast| forecast.chance(one.cost, one.window) >= WORTHWHILE);
                let draw = if likely { Draw::Likely } else { Draw::Probe };
                let raised = self.raised(one.cost, one.window, world);
                // Attempts stay on the grid, whatever is available.
                let rows = Rows::new(world.forecast);
                let cost = rows.cost_within(&Grid::new(&self.plan, world.offers.sealed()), raised).unwrap_or(one.cost);
                let attempt = self.attempt(cost, one.window);
                Action::Choose(Attempt { risk_divisor: self.risk_divisor(draw), ..attempt })
            }
            Search::Wait(one) => {
                Action::Wait(Wanted { blocks: one.window, cost: one.cost, deadline: self.plan.limits().deadline })
            }
            Search::Exhausted => Action::Stop(End::Limit(Limit::Growth)),
            Search::Hopeless => Action::Stop(End::OutOfReach),
        }
    }

    /// The minimum costs and windows of the next attempt, in order of preference; empty if nothing may grow.
    fn steps(&self) -> [Option<(u64, u32)>; 2] {
        let (plan, limits) = (&self.plan, self.plan.limits());
        let Some(Attempt { cost, window, .. }) = self.judged else {
            return [Some((plan.first_cost(), plan.first_window())), None];
        };
        let doubled = cost.checked_mul(2).filter(|cost| *cost <= limits.cost);
        let more_cost = doubled.map(|cost| (cost, window));
        let grown = window.saturating_mul(2).min(limits.window);
        let may_grow = grown > window && self.data_doublings < limits.data_doublings;
        let floor = plan.first_cost();
        let with_data = match (plan.mode(), plan.strategy()) {
            // The budget of the current blocks is used up; the pipeline continues with newer blocks.
            (Mode::Aggressive, _) => floor,
            (Mode::Conserve, Strategy::Conserve) => cost,
            (Mode::Conserve, _) => cost.div_ceil(2).max(floor),
        };
        let more_data = may_grow.then_some((with_data, grown));
        // If half the cost on twice the rows has the same relative noise, one such step in a row is enough.
        let stale = self.halved && plan.units() == Units::Epsilon;
        match plan.strategy() {
            Strategy::Frugal if !stale => [more_data, more_cost],
            _ => [more_cost, more_data],
        }
    }

    fn raised(&self, cost: u64, window: u32, world: World<'_>) -> u64 {
        match self.plan.mode() {
            Mode::Conserve => cost,
            Mode::Aggressive => world.offers.most(window).min(self.plan.limits().cost).max(cost),
        }
    }

    const fn attempt(&self, cost: u64, window: u32) -> Attempt {
        let risk_divisor = self.risk_divisor(Draw::Likely);
        let (index, serial) = (self.tests + 1, self.choices + 1);
        Attempt { index, serial, cost, window, risk_divisor, rows_divisor: None }
    }

    const fn risk_divisor(&self, draw: Draw) -> u64 {
        match self.plan.risk() {
            RiskSchedule::Probing => self.risk.divisor(draw),
            _ => self.plan.risk_divisor(self.tests + 1),
        }
    }

    /// The divisor of the error probability of the next attempt, if it is a likely one.
    pub const fn next_risk_divisor(&self) -> u64 {
        self.risk_divisor(Draw::Likely)
    }
}
