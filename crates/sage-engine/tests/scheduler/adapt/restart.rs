//! A driver that stops at any point and resumes from its log spends nothing twice.

use proptest::prelude::*;
use sage_engine::adapt::{
    Action, End, Event, Limits, Mode, Offers, Outcome, Phase, State, Strategy as AdaptStrategy, Units, Verdict, World,
};

use crate::adapt::driver::{Ledger, plan};

/// One round: the available blocks, a verdict, and whether the driver stops.
#[derive(Clone, Copy, Debug)]
struct Round {
    blocks: u8,
    offer: u16,
    verdict: u8,
    stop: u8,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let round = any::<(u8, u16, u8, u8)>();
    let round = round.prop_map(|(blocks, offer, verdict, stop)| Round { blocks, offer, verdict, stop });
    prop::collection::vec(round, 1..120)
}

/// Performs an action and records its event, unless the driver stops before the record.
fn act(action: Action, round: Round, ledger: &mut Ledger, log: &mut Vec<Event>) {
    let stopped = round.stop.is_multiple_of(3);
    let event = match action {
        Action::Choose(attempt) => Event::Chosen(attempt),
        // Sometimes the ledger refuses a key that it has not charged.
        Action::Charge(attempt)
            if round.verdict.is_multiple_of(11) && !ledger.charges.contains_key(&attempt.serial) =>
        {
            Event::Refused
        }
        Action::Charge(attempt) => {
            ledger.charge(attempt);
            Event::Charged
        }
        Action::Finish(_) => match round.verdict % 16 {
            0 => Event::Judged(Verdict::Accept),
            1 => Event::Judged(Verdict::Reject),
            2 => Event::Burnt,
            _ => Event::Judged(Verdict::Retry),
        },
        Action::Stop(end) => Event::Ended(end),
        Action::Wait(_) if round.verdict == 255 => Event::Ended(End::Cancelled),
        Action::Wait(_) | Action::Nothing(_) => return,
    };
    if !stopped {
        log.push(event);
    }
}

proptest! {
    #[test]
    fn nothing_is_spent_twice(rounds in rounds(), frugal in any::<bool>(), aggressive in any::<bool>()) {
        let strategy = if frugal { AdaptStrategy::Frugal } else { AdaptStrategy::Conserve };
        let mode = if aggressive { Mode::Aggressive } else { Mode::Conserve };
        let limits =
            Limits { cost: 4_000, window: 100, attempts: Some(12), data_doublings: 4, deadline: Some(100) };
        let plan = plan((10, 2), limits, strategy, mode, Units::Share);
        let (mut ledger, mut log) = (Ledger::default(), Vec::new());
        let mut over: Option<Outcome> = None;
        for (time, round) in (0..).zip(rounds) {
            // Every round starts from the log alone.
            let state = State::replay(plan, log.iter().copied()).expect("its own log");
            let offers = Offers::new(vec![u64::from(round.offer); usize::from(round.blocks)]);
            let action = state.next(World::new(time, &offers));
            if let Some(outcome) = over {
                prop_assert_eq!(action, Action::Nothing(outcome), "an ended run stays ended");
            }
            if let Action::Nothing(outcome) = action {
                over = Some(outcome);
            }
            act(action, round, &mut ledger, &mut log);
            // The ledger has the charges of the log, and possibly one whose record was lost.
            let state = State::replay(plan, log.iter().copied()).expect("its own log");
            let unrecorded = match state.phase() {
                Phase::Chosen(attempt) if ledger.charges.contains_key(&attempt.serial) => u128::from(attempt.cost),
                _ => 0,
            };
            prop_assert_eq!(ledger.total(), state.spent() + unrecorded);
            prop_assert!(state.attempts() <= 12);
        }
    }

    /// Stepping through events and replaying any prefix of them give the same state.
    #[test]
    fn any_prefix_gives_the_same_state(rounds in rounds()) {
        let limits = Limits { cost: 4_000, window: 100, attempts: None, data_doublings: 4, deadline: None };
        let plan = plan((10, 2), limits, AdaptStrategy::Frugal, Mode::Conserve, Units::Epsilon);
        let (mut ledger, mut log, mut state) = (Ledger::default(), Vec::new(), State::new(plan));
        for round in rounds {
            let offers = Offers::new(vec![u64::from(round.offer); usize::from(round.blocks)]);
            let known = log.len();
            act(state.next(World::new(0, &offers)), round, &mut ledger, &mut log);
            for event in &log[known..] {
                state = state.step(*event).expect("it can follow");
            }
            prop_assert_eq!(State::replay(plan, log.iter().copied()), Ok(state.clone()));
        }
    }
}
