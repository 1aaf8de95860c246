//! The environment of the state machine in these tests: available blocks, and a ledger with idempotent keys.

use std::collections::BTreeMap;

use sage_engine::adapt::{
    Action, Attempt, Event, Limits, Mode, Offers, Outcome, Plan, State, Strategy, Units, Verdict,
};
use sage_engine::adapt::{Phase, World};

/// Limits that are never reached.
pub(crate) const UNLIMITED: Limits =
    Limits { cost: u64::MAX, window: u32::MAX, attempts: None, data_doublings: 30, deadline: None };

pub(crate) fn plan(first: (u64, u32), limits: Limits, strategy: Strategy, mode: Mode, units: Units) -> Plan {
    Plan::new(first, limits, units).expect("a plan").by(strategy, mode)
}

/// A ledger that charges each key once.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) charges: BTreeMap<u64, Attempt>,
}

impl Ledger {
    /// Charges a key. The same key with the same body has no further effect; with another body it is a bug.
    pub(crate) fn charge(&mut self, attempt: Attempt) {
        let before = self.charges.insert(attempt.serial, attempt);
        assert!(before.is_none_or(|before| before == attempt), "serial {} has two bodies", attempt.serial);
    }

    pub(crate) fn total(&self) -> u128 {
        self.charges.values().map(|attempt| u128::from(attempt.cost)).sum()
    }
}

pub(crate) fn step(state: &mut State, event: Event) {
    *state = state.clone().step(event).expect("it can follow");
}

/// Makes attempts with constant offers until the run ends, waits or stops. Returns the attempts and the last action.
pub(crate) fn run(
    state: &mut State, offers: &Offers, time: u64, verdict: impl Fn(&Attempt) -> Verdict,
) -> (Vec<Attempt>, Action) {
    let mut attempts = Vec::new();
    loop {
        match state.next(World::new(time, offers)) {
            Action::Choose(attempt) => {
                assert!(offers.blocks(attempt.cost) >= attempt.window, "{attempt:?} is more than is offered");
                step(state, Event::Chosen(attempt));
            }
            Action::Charge(_) => step(state, Event::Charged),
            Action::Finish(attempt) => {
                attempts.push(attempt);
                step(state, Event::Judged(verdict(&attempt)));
            }
            other => return (attempts, other),
        }
        assert!(attempts.len() < 200, "the search does not end");
    }
}

pub(crate) fn accepted(state: &State) -> bool {
    state.phase() == Phase::Over(Outcome::Accepted)
}
