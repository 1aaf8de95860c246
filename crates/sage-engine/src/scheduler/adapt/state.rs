//! The state of one pipeline's attempts: a fold of what happened, and from it what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::plan::{Mode, Plan, Strategy, Units};
use super::world::World;

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Which test of the pipeline it is, from one.
    pub index: u32,
    /// Which choice of the pipeline it is, from one: what its charge's key is made from.
    pub serial: u64,
    /// What it costs each block, in units of the ledger.
    pub cost: u64,
    /// How many blocks it reads.
    pub window: u32,
    /// Its part of the pipeline's risk is one divided by this.
    pub risk_divisor: u64,
}

/// What a test said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It meets the target.
    Accept,
    /// No model of its kind does.
    Reject,
    /// Neither can be said yet.
    Retry,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt was chosen. Recorded before it is charged.
    Chosen(Attempt),
    /// The ledger refused it; nothing was spent.
    Refused,
    /// It was charged.
    Charged,
    /// Its charge was taken back before anything could be read.
    Withdrawn,
    /// It was lost after it may have read rows; the charge stays.
    Burnt,
    /// It was tested.
    Judged(Verdict),
    /// The pipeline stopped without a verdict.
    Ended(End),
}

/// Why a pipeline stops without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Its deadline passed.
    TimedOut,
    /// Somebody stopped it.
    Cancelled,
    /// A limit leaves nothing to try.
    Limit(Limit),
    /// Attempt after attempt was lost: each costs, and the next would be no better.
    Failing,
    /// The person who submitted it may no longer spend: their role, their membership of the context, or both are gone.
    NotMember,
    /// The process ended abnormally several times in a row while it worked on this pipeline.
    Crashed,
    /// Its name belongs to another stream.
    NameTaken,
}

/// How many attempts in a row may be lost before the pipeline gives up.
const LOST_IN_A_ROW: u32 = 3;

/// The limit that leaves nothing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// No more attempts.
    Attempts,
    /// Neither the cost nor the window may grow.
    Growth,
    /// By its public sizes the next attempt would take longer than one may. In older logs: an attempt took longer.
    Time,
    /// The next attempt would need more memory than one may.
    Memory,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Accepted,
    /// With the knowledge that there is none.
    Rejected,
    /// Without a verdict.
    Stopped(End),
}

/// Where a pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is under way.
    Idle,
    /// An attempt is chosen, and it is not known whether it is charged.
    Chosen(Attempt),
    /// An attempt is charged and has no verdict.
    Running(Attempt),
    /// It is over.
    Over(Outcome),
}

/// What a waiting pipeline waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// So many blocks,
    pub blocks: u32,
    /// on each of which this may be spent,
    pub cost: u64,
    /// before this time.
    pub deadline: Option<u64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Record this choice, then ask again.
    Choose(Attempt),
    /// Charge this attempt under its serial number. It may have been charged before; then nothing is added.
    Charge(Attempt),
    /// Bring this attempt to an end: it is paid for.
    Finish(Attempt),
    /// Wait.
    Wait(Wanted),
    /// Record that it ended for this reason.
    Stop(End),
    /// Nothing: it is over.
    Nothing(Outcome),
}

/// An event that cannot follow what happened before: a bug, or a log of something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Where the pipeline was.
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

/// A pipeline's attempts so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    plan: Plan,
    phase: Phase,
    /// The last attempt that was judged, from which the next one grows.
    judged: Option<Attempt>,
    tests: u32,
    choices: u64,
    data_doublings: u32,
    /// Whether the last judged attempt had half the cost of the one before.
    halved: bool,
    spent: u128,
    /// Attempts lost since the last that was judged.
    lost: u32,
}

impl State {
    /// Nothing happened yet.
    pub const fn new(plan: Plan) -> Self {
        let phase = Phase::Idle;
        Self { plan, phase, judged: None, tests: 0, choices: 0, data_doublings: 0, halved: false, spent: 0, lost: 0 }
    }

    /// The state after these events.
    ///
    /// # Errors
    /// At the first that cannot follow those before it.
    pub fn replay(plan: Plan, events: impl IntoIterator<Item = Event>) -> Result<Self, Impossible> {
        events.into_iter().try_fold(Self::new(plan), State::step)
    }

    /// Where it is.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Its plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What a block that was in every window has paid, in units of the ledger.
    pub const fn spent(&self) -> u128 {
        self.spent
    }

    /// How many attempts were charged and not taken back.
    pub const fn attempts(&self) -> u32 {
        self.tests
    }

    /// The state after one more event.
    ///
    /// # Errors
    /// When the event cannot follow; it was recorded by mistake.
    pub fn step(self, event: Event) -> Result<Self, Impossible> {
        let phase = self.phase;
        match (phase, event) {
            (Phase::Idle, Event::Chosen(attempt)) if self.could_choose(&attempt) => {
                Ok(Self { phase: Phase::Chosen(attempt), choices: attempt.serial, ..self })
            }
            (Phase::Chosen(_), Event::Refused) => Ok(Self { phase: Phase::Idle, ..self }),
            (Phase::Chosen(attempt), Event::Charged) => {
                let spent = self.spent + u128::from(attempt.cost);
                Ok(Self { phase: Phase::Running(attempt), tests: attempt.index, spent, ..self })
            }
            (Phase::Running(attempt), Event::Withdrawn) => {
                let spent = self.spent - u128::from(attempt.cost);
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

    /// Whether an attempt is the next one and within the limits. That the world allowed it is not known here.
    fn could_choose(&self, attempt: &Attempt) -> bool {
        let limits = self.plan.limits();
        attempt.serial == self.choices + 1
            && attempt.index == self.tests + 1
            && limits.attempts.is_none_or(|attempts| attempt.index <= attempts)
            && (self.plan.first_cost()..=limits.cost).contains(&attempt.cost)
            && (self.plan.first_window()..=limits.window).contains(&attempt.window)
            && attempt.risk_divisor == self.plan.risk_divisor(attempt.index)
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
        Self { phase, judged: Some(attempt), data_doublings, halved, lost: 0, ..self }
    }

    /// What to do in this world. Only [`Action::Choose`] and [`Action::Stop`] depend on it, and both are recorded
    /// before anything follows from them.
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
        let steps = self.steps();
        let Some(last) = steps.iter().flatten().next_back() else {
            return Action::Stop(End::Limit(Limit::Growth));
        };
        let possible = |step: &&(u64, u32)| world.offers.blocks(step.0) >= step.1;
        match steps.iter().flatten().find(possible) {
            Some(&(cost, window)) => Action::Choose(self.attempt(self.raised(cost, window, world), window)),
            // More data is what time brings; where only the cost may grow, that is what is waited for.
            None => {
                let (cost, blocks) = steps.iter().flatten().max_by_key(|step| step.1).unwrap_or(last);
                Action::Wait(Wanted { blocks: *blocks, cost: *cost, deadline: limits.deadline })
            }
        }
    }

    /// The least costs and windows to try next, the preferred one first; none if nothing may grow.
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
            // What it had on the blocks so far is used up; it goes on with what newer ones offer.
            (Mode::Aggressive, _) => floor,
            (Mode::Conserve, Strategy::Conserve) => cost,
            (Mode::Conserve, Strategy::Frugal) => cost.div_ceil(2).max(floor),
        };
        let more_data = may_grow.then_some((with_data, grown));
        // Where half the cost on twice the rows is as noisy as before, one such step is enough in a row.
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
        let index = self.tests + 1;
        Attempt { index, serial: self.choices + 1, cost, window, risk_divisor: self.plan.risk_divisor(index) }
    }
}
