//! Each rule by itself: the order of attempts, the limits, and that an ended run stays ended.

use sage_engine::adapt::{
    Action, End, Event, Limit, Limits, Mode, Offers, Outcome, Plan, PlanError, RiskSchedule, State, Strategy, Units,
    Verdict, Wanted, World,
};

use crate::adapt::driver::{UNLIMITED, plan, run, step};

/// The attempts of a run whose every verdict is RETRY; worlds are (blocks, offer on each).
fn attempts_in(plan: Plan, worlds: &[(usize, u64)]) -> (Vec<(u64, u32)>, Action) {
    let mut state = State::new(plan);
    let (mut seen, mut end) = (Vec::new(), None);
    for (blocks, offer) in worlds {
        let (attempts, last) = run(&mut state, &Offers::new(vec![*offer; *blocks]), 0, |_| Verdict::Retry);
        seen.extend(attempts.iter().map(|attempt| (attempt.cost, attempt.window)));
        end = Some(last);
    }
    (seen, end.expect("a world"))
}

#[test]
fn strategies_prefer_what_they_promise() {
    let of = |strategy, units| plan((10, 2), UNLIMITED, strategy, Mode::Conserve, units);
    let wait = |blocks, cost| Action::Wait(Wanted { blocks, cost, deadline: None });
    for (name, plan, worlds, seen, end) in [
        ("too few blocks", of(Strategy::Conserve, Units::Share), &[(1, 99)][..], vec![], wait(2, 10)),
        ("too little on them", of(Strategy::Conserve, Units::Share), &[(9, 9)], vec![], wait(2, 10)),
        (
            "the cost first, then the window at that cost",
            of(Strategy::Conserve, Units::Share),
            &[(3, 40), (4, 40), (8, 20)],
            vec![(10, 2), (20, 2), (40, 2), (40, 4)],
            wait(8, 40),
        ),
        (
            "the window first, at the floor",
            of(Strategy::Frugal, Units::Share),
            &[(9, 15)],
            vec![(10, 2), (10, 4), (10, 8)],
            wait(16, 10),
        ),
        (
            "half the cost for twice the window, and again",
            of(Strategy::Frugal, Units::Share),
            &[(3, 40), (16, 40)],
            vec![(10, 2), (20, 2), (40, 2), (20, 4), (10, 8), (10, 16), (20, 16), (40, 16)],
            wait(32, 20),
        ),
        (
            "in parts of epsilon no two halvings in a row",
            of(Strategy::Frugal, Units::Epsilon),
            &[(3, 40), (8, 40)],
            vec![(10, 2), (20, 2), (40, 2), (20, 4), (40, 4), (20, 8), (40, 8)],
            wait(16, 20),
        ),
    ] {
        assert_eq!(attempts_in(plan, worlds), (seen, end), "{name}");
    }
}

#[test]
fn aggressive_mode_spends_everything_available() {
    let plan = plan((10, 2), UNLIMITED, Strategy::Conserve, Mode::Aggressive, Units::Epsilon);
    let mut state = State::new(plan);
    let (attempts, end) = run(&mut state, &Offers::new(vec![70, 50, 5]), 0, |_| Verdict::Retry);
    assert_eq!(attempts.iter().map(|one| (one.cost, one.window)).collect::<Vec<_>>(), [(50, 2)]);
    assert_eq!(end, Action::Wait(Wanted { blocks: 4, cost: 10, deadline: None }));
    let (attempts, _) = run(&mut state, &Offers::new(vec![30; 4]), 0, |_| Verdict::Accept);
    assert_eq!(attempts.iter().map(|one| (one.cost, one.window)).collect::<Vec<_>>(), [(30, 4)]);
}

#[test]
fn limits_end_the_search() {
    let plenty = Offers::new(vec![u64::MAX; 1000]);
    for (name, limits, count, end) in [
        ("attempts", Limits { attempts: Some(3), ..UNLIMITED }, 3, End::Limit(Limit::Attempts)),
        ("cost and doublings", Limits { cost: 80, data_doublings: 2, ..UNLIMITED }, 6, End::Limit(Limit::Growth)),
        // A window that cannot double grows as far as it may.
        ("cost and window", Limits { cost: 10, window: 7, ..UNLIMITED }, 3, End::Limit(Limit::Growth)),
    ] {
        let mut state = State::new(plan((10, 2), limits, Strategy::Conserve, Mode::Conserve, Units::Share));
        let (attempts, last) = run(&mut state, &plenty, 0, |_| Verdict::Retry);
        assert_eq!((attempts.len(), last), (count, Action::Stop(end)), "{name}: {attempts:?}");
        step(&mut state, Event::Ended(end));
        let over = state.next(World::new(0, &plenty));
        assert_eq!(over, Action::Nothing(Outcome::Stopped(end)), "{name}");
    }
}

#[test]
fn a_deadline_stops_new_attempts_and_no_charged_one() {
    let limits = Limits { deadline: Some(100), ..UNLIMITED };
    let mut state = State::new(plan((10, 1), limits, Strategy::Conserve, Mode::Conserve, Units::Share));
    let offers = Offers::new(vec![10]);
    let at = |state: &State, time| state.next(World::new(time, &offers));
    assert_eq!(at(&state, 100), Action::Stop(End::TimedOut));
    let Action::Choose(attempt) = at(&state, 99) else { panic!("it may begin") };
    step(&mut state, Event::Chosen(attempt));
    // It may be charged already without a record, so the charge is repeated under the same key.
    assert_eq!(at(&state, 500), Action::Charge(attempt));
    step(&mut state, Event::Charged);
    assert_eq!(at(&state, 500), Action::Finish(attempt));
    step(&mut state, Event::Judged(Verdict::Retry));
    assert_eq!(at(&state, 500), Action::Stop(End::TimedOut));
}

#[test]
fn risks_add_up_to_at_most_one() {
    let limited = Limits { attempts: Some(4), ..UNLIMITED };
    let falling = Plan::new((1, 1), UNLIMITED, Units::Share).expect("a plan");
    let even = Plan::new((1, 1), limited, Units::Share).expect("a plan").with_risk(RiskSchedule::Even);
    let divisors = |plan: Plan| (1..=4).map(|index| plan.risk_divisor(index)).collect::<Vec<_>>();
    assert_eq!(divisors(falling), [2, 6, 12, 20]);
    assert_eq!(divisors(even.expect("a limit is there")), [4; 4]);
    let sum: f64 = (1..=100_000).map(|index| 1.0 / falling.risk_divisor(index) as f64).sum();
    assert!(sum < 1.0 && sum > 0.9999, "{sum}");
}

#[test]
fn invalid_plans_and_events_are_refused() {
    for (first, limits, error) in [
        ((0, 1), UNLIMITED, PlanError::FreeAttempt),
        ((1, 0), UNLIMITED, PlanError::EmptyWindow),
        ((2, 1), Limits { cost: 1, ..UNLIMITED }, PlanError::BeyondLimit),
        ((1, 2), Limits { window: 1, ..UNLIMITED }, PlanError::BeyondLimit),
        ((1, 1), Limits { attempts: Some(0), ..UNLIMITED }, PlanError::BeyondLimit),
    ] {
        assert_eq!(Plan::new(first, limits, Units::Share), Err(error));
    }
    let plan = Plan::new((10, 1), UNLIMITED, Units::Share).expect("a plan");
    assert_eq!(plan.with_risk(RiskSchedule::Even), Err(PlanError::EvenWithoutAttempts));
    let state = State::new(plan);
    let offers = Offers::new(vec![10]);
    let Action::Choose(attempt) = state.next(World::new(0, &offers)) else { panic!("it may begin") };
    for event in [
        Event::Charged,
        Event::Refused,
        Event::Burnt,
        Event::Withdrawn,
        Event::Judged(Verdict::Accept),
        Event::Chosen(sage_engine::adapt::Attempt { serial: 2, ..attempt }),
        Event::Chosen(sage_engine::adapt::Attempt { index: 2, ..attempt }),
        Event::Chosen(sage_engine::adapt::Attempt { cost: 9, ..attempt }),
        Event::Chosen(sage_engine::adapt::Attempt { risk_divisor: 1, ..attempt }),
    ] {
        assert!(state.clone().step(event).is_err(), "{event:?}");
    }
}

#[test]
fn a_lost_attempt_is_tried_again_and_counts() {
    let mut state = State::new(plan((10, 1), UNLIMITED, Strategy::Conserve, Mode::Conserve, Units::Share));
    let offers = Offers::new(vec![100]);
    let begin = |state: &mut State| {
        let Action::Choose(attempt) = state.next(World::new(0, &offers)) else { panic!("it may begin") };
        step(state, Event::Chosen(attempt));
        attempt
    };
    let first = begin(&mut state);
    step(&mut state, Event::Charged);
    step(&mut state, Event::Burnt);
    let second = begin(&mut state);
    assert_eq!((second.cost, second.index, second.serial), (first.cost, 2, 2), "paid again, with less risk left");
    step(&mut state, Event::Refused);
    let third = begin(&mut state);
    assert_eq!((third.index, third.serial), (2, 3), "a refusal is not a test, but its key is used up");
    step(&mut state, Event::Charged);
    assert_eq!(state.spent(), 20);
    step(&mut state, Event::Withdrawn);
    assert_eq!((state.spent(), state.attempts()), (10, 1), "nothing was read, so nothing is spent");
}
