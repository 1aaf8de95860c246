//! The cost of the search for a sufficient cost.

use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
use sage_engine::adapt::{Action, Mode, Offers, State, Strategy, Units, Verdict};

use crate::adapt::driver::{UNLIMITED, accepted, plan, run};

/// First cost, least cost that is enough, last cost, total, and the bound 4 c* − c0 (or c0), in millionths.
const DOUBLING: [(u64, u64, u64, u64, u64); 6] = [
    (62_500, 62_500, 62_500, 62_500, 187_500),
    (62_500, 70_000, 125_000, 187_500, 217_500),
    (62_500, 500_000, 500_000, 937_500, 1_937_500),
    (62_500, 500_001, 1_000_000, 1_937_500, 1_937_504),
    (100_000, 10_000, 100_000, 100_000, 100_000),
    (100_000, 810_000, 1_600_000, 3_100_000, 3_140_000),
];

#[test]
fn doubling_costs_what_the_table_says() {
    for (first, enough, last, total, bound) in DOUBLING {
        let mut state = State::new(plan((first, 1), UNLIMITED, Strategy::Conserve, Mode::Conserve, Units::Epsilon));
        let verdict = |cost: u64| if cost >= enough { Verdict::Accept } else { Verdict::Retry };
        let (attempts, _) = run(&mut state, &Offers::new(vec![u64::MAX]), 0, |attempt| verdict(attempt.cost));
        assert!(accepted(&state));
        assert_eq!(attempts.last().map(|attempt| attempt.cost), Some(last), "first {first}, enough {enough}");
        assert_eq!(state.spent(), u128::from(total), "first {first}, enough {enough}");
        assert!(total <= bound && bound == first.max((4 * enough).saturating_sub(first)));
    }
}

/// For each attempt: the number of blocks, and the offer on each.
fn worlds() -> impl proptest::strategy::Strategy<Value = Vec<(u32, u64)>> {
    prop::collection::vec((0_u32..200, 0_u64..5_000), 1..80)
}

/// Runs through the worlds, with a verdict of RETRY throughout. Returns cost and window of each attempt.
fn run_all(state: &mut State, worlds: &[(u32, u64)]) -> Vec<(u64, u32)> {
    let mut seen = Vec::new();
    for (blocks, offer) in worlds {
        let offers = Offers::new(vec![*offer; *blocks as usize]);
        let before = state.attempts();
        let (attempts, end) = run(state, &offers, 0, |_| Verdict::Retry);
        assert_eq!(state.attempts() - before, attempts.len() as u32);
        seen.extend(attempts.iter().map(|attempt| (attempt.cost, attempt.window)));
        if !matches!(end, Action::Wait(_)) {
            break;
        }
    }
    seen
}

proptest! {
    /// A block in all windows pays less than (2 + d) times the last cost, d being the doublings of the window.
    #[test]
    fn conserving_costs_an_old_block_little(worlds in worlds(), first in 1_u64..100) {
        let mut state = State::new(plan((first, 1), UNLIMITED, Strategy::Conserve, Mode::Conserve, Units::Share));
        let seen = run_all(&mut state, &worlds);
        let Some((last, _)) = seen.last() else { return Ok(()) };
        let grown = seen.windows(2).filter(|pair| pair[1].1 > pair[0].1).count() as u128;
        prop_assert!(state.spent() < (2 + grown) * u128::from(*last), "{:?}", seen);
        for pair in seen.windows(2) {
            let [(cost, window), (next_cost, next_window)] = [pair[0], pair[1]];
            let doubled_cost = next_cost == 2 * cost && next_window == window;
            let doubled_data = next_cost == cost && next_window == 2 * window;
            prop_assert!(doubled_cost || doubled_data, "{:?}", pair);
        }
    }

    /// A run of window doublings costs at most twice the cost it starts from, and the floor once for each attempt
    /// there.
    #[test]
    fn frugal_runs_cost_an_old_block_little(worlds in worlds(), first in 1_u64..100) {
        let mut state = State::new(plan((first, 1), UNLIMITED, Strategy::Frugal, Mode::Conserve, Units::Share));
        let seen = run_all(&mut state, &worlds);
        for start in 0..seen.len() {
            let grows = |index: &usize| seen[*index].1 > seen[*index - 1].1;
            let run: Vec<u64> = std::iter::once(start).chain((start + 1..seen.len()).take_while(grows))
                .map(|index| seen[index].0).collect();
            let floors = run.iter().filter(|cost| **cost == first).count() as u64;
            // Costs are first · 2^k, so halves are exact.
            prop_assert!(run.iter().sum::<u64>() <= 2 * run[0] + floors * first, "{:?} from {}", seen, start);
        }
        for pair in seen.windows(2) {
            let [(cost, window), (next_cost, next_window)] = [pair[0], pair[1]];
            let doubled_cost = next_cost == 2 * cost && next_window == window;
            let halved = next_cost == (cost / 2).max(first) && next_window == 2 * window;
            prop_assert!(doubled_cost || halved, "{:?}", pair);
        }
        prop_assert!(seen.iter().all(|(cost, _)| *cost >= first));
    }

    /// With unlimited offers, the total is within four times the least sufficient cost.
    #[test]
    fn a_search_costs_less_than_four_times_the_sufficient_cost(first in 1_u64..1_000, enough in 1_u64..1_000_000) {
        for strategy in [Strategy::Conserve, Strategy::Frugal] {
            let mut state = State::new(plan((first, 1), UNLIMITED, strategy, Mode::Conserve, Units::Share));
            let verdict = |cost: u64| if cost >= enough { Verdict::Accept } else { Verdict::Retry };
            let (attempts, _) = run(&mut state, &Offers::new(vec![u64::MAX]), 0, |attempt| verdict(attempt.cost));
            prop_assert!(accepted(&state));
            let last = attempts[attempts.len() - 1].cost;
            prop_assert_eq!(state.spent(), u128::from(2 * last - first));
            prop_assert!(state.spent() <= u128::from(first.max((4 * enough).saturating_sub(first))));
        }
    }
}
