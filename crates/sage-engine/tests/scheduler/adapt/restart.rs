//! A driver that is stopped anywhere and starts again from what it recorded spends nothing twice.

use proptest::prelude::*;
use sage_engine::adapt::{
    Action, End, Event, Limits, Mode, Offers, Outcome, Phase, State, Strategy as Way, Units, Verdict, World,
};

use crate::adapt::driver::{Ledger, plan};

/// What happens at one turn: a world, a verdict, and where the driver is stopped, if it is.
#[derive(Clone, Copy, Debug)]
struct Turn {
    blocks: u8,
    offer: u16,
    verdict: u8,
    stop: u8,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = any::<(u8, u16, u8, u8)>();
    let turn = turn.prop_map(|(blocks, offer, verdict, stop)| Turn { blocks, offer, verdict, stop });
    prop::collection::vec(turn, 1..120)
}

/// Does one action, recording events, and is perhaps stopped before the record of what it did.
fn act(action: Action, turn: Turn, ledger: &mut Ledger, log: &mut Vec<Event>) {
    let stopped = turn.stop.is_multiple_of(3);
    let event = match action {
        Action::Choose(attempt) => Event::Chosen(attempt),
        // Now and then the ledger says no, to a key it has never said yes to.
        Action::Charge(attempt) if turn.verdict.is_multiple_of(11) && !ledger.charges.contains_key(&attempt.serial) => {
            Event::Refused
        }
        Action::Charge(attempt) => {
            ledger.charge(attempt);
            Event::Charged
        }
        Action::Finish(_) => match turn.verdict % 16 {
            0 => Event::Judged(Verdict::Accept),
            1 => Event::Judged(Verdict::Reject),
            2 => Event::Burnt,
            _ => Event::Judged(Verdict::Retry),
        },
        Action::Stop(end) => Event::Ended(end),
        Action::Wait(_) if turn.verdict == 255 => Event::Ended(End::Cancelled),
        Action::Wait(_) | Action::Nothing(_) => return,
    };
    if !stopped {
        log.push(event);
    }
}

proptest! {
    #[test]
    fn nothing_is_spent_twice(turns in turns(), frugal in any::<bool>(), aggressive in any::<bool>()) {
        let way = if frugal { Way::Frugal } else { Way::Conserve };
        let mode = if aggressive { Mode::Aggressive } else { Mode::Conserve };
        let limits =
            Limits { cost: 4_000, window: 100, attempts: Some(12), data_doublings: 4, deadline: Some(100) };
        let plan = plan((10, 2), limits, way, mode, Units::Share);
        let (mut ledger, mut log) = (Ledger::default(), Vec::new());
        let mut over: Option<Outcome> = None;
        for (time, turn) in (0..).zip(turns) {
            // Every turn starts from the log alone.
            let state = State::replay(plan, log.iter().copied()).expect("its own log");
            let offers = Offers::new(vec![u64::from(turn.offer); usize::from(turn.blocks)]);
            let action = state.next(World { time, offers: &offers });
            if let Some(outcome) = over {
                prop_assert_eq!(action, Action::Nothing(outcome), "an end is one");
            }
            if let Action::Nothing(outcome) = action {
                over = Some(outcome);
            }
            act(action, turn, &mut ledger, &mut log);
            // What the ledger was charged is what the log says, or the one charge whose record was lost.
            let state = State::replay(plan, log.iter().copied()).expect("its own log");
            let unrecorded = match state.phase() {
                Phase::Chosen(attempt) if ledger.charges.contains_key(&attempt.serial) => u128::from(attempt.cost),
                _ => 0,
            };
            prop_assert_eq!(ledger.total(), state.spent() + unrecorded);
            prop_assert!(state.attempts() <= 12);
        }
    }

    /// Stepping through events and replaying any beginning of them are the same.
    #[test]
    fn any_beginning_gives_the_same_state(turns in turns()) {
        let limits = Limits { cost: 4_000, window: 100, attempts: None, data_doublings: 4, deadline: None };
        let plan = plan((10, 2), limits, Way::Frugal, Mode::Conserve, Units::Epsilon);
        let (mut ledger, mut log, mut state) = (Ledger::default(), Vec::new(), State::new(plan));
        for turn in turns {
            let offers = Offers::new(vec![u64::from(turn.offer); usize::from(turn.blocks)]);
            let known = log.len();
            act(state.next(World { time: 0, offers: &offers }), turn, &mut ledger, &mut log);
            for event in &log[known..] {
                state = state.step(*event).expect("it can follow");
            }
            prop_assert_eq!(State::replay(plan, log.iter().copied()), Ok(state.clone()));
        }
    }
}
