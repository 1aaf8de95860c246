//! The informed search: within four times the optimum whatever the forecast says, and close to it when it is right.

use proptest::prelude::{any, prop_assert, proptest};
use sage_engine::adapt::{
    Action, Attempt, End, Event, Forecast, Limits, Mode, Offers, Outcome, Phase, State, Strategy, Units, Verdict, World,
};

use crate::adapt::driver::{UNLIMITED, accepted, plan, step};

/// An attempt succeeds once its sampling error and its noise, relative to its rows, are small enough.
#[derive(Clone, Copy, Debug)]
struct Curve {
    rows: f64,
    noise: f64,
}

impl Curve {
    fn succeeds(self, cost: u64, window: u32) -> bool {
        let window = f64::from(window);
        self.rows / window + self.noise / (window * (cost as f64 / FIRST as f64).sqrt()) <= 1.0
    }

    /// The least mass of any sufficient attempt, on whole windows and whole costs.
    fn optimum(self, most: u64, blocks: u32) -> Option<u128> {
        let mass = |window: u32| {
            let enough = |cost: u64| self.succeeds(cost, window);
            let (mut below, mut cost) = (FIRST - 1, most);
            while cost - below > 1 {
                let middle = below + (cost - below) / 2;
                if enough(middle) { cost = middle } else { below = middle }
            }
            enough(cost).then(|| u128::from(cost) * u128::from(window))
        };
        (1..=blocks).filter_map(mass).min()
    }
}

/// A forecast that makes chances up, but knows a mass that is too small.
struct Adversary {
    seed: u64,
    too_small: u128,
}

impl Forecast for Adversary {
    fn chance(&self, cost: u64, window: u32) -> f64 {
        let mixed = (self.seed ^ cost.rotate_left(17) ^ u64::from(window)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn is_too_small(&self, cost: u64, window: u32) -> bool {
        u128::from(cost) * u128::from(window) < self.too_small
    }
}

/// A forecast that knows the curve.
struct Truth(Curve);

impl Forecast for Truth {
    fn chance(&self, cost: u64, window: u32) -> f64 {
        f64::from(u8::from(self.0.succeeds(cost, window)))
    }

    fn is_too_small(&self, cost: u64, window: u32) -> bool {
        !self.0.succeeds(cost, window)
    }
}

/// Makes attempts until the run ends or waits.
fn run(state: &mut State, offers: &Offers, forecast: Option<&dyn Forecast>, curve: Curve) -> (Vec<Attempt>, Action) {
    let mut attempts = Vec::new();
    loop {
        match state.next(World { time: 0, offers, forecast }) {
            Action::Choose(attempt) => {
                assert!(offers.blocks(attempt.cost) >= attempt.window, "{attempt:?} is more than is offered");
                step(state, Event::Chosen(attempt));
                step(state, Event::Charged);
                let met = curve.succeeds(attempt.cost, attempt.window);
                step(state, Event::Judged(if met { Verdict::Accept } else { Verdict::Retry }));
                attempts.push(attempt);
            }
            other => return (attempts, other),
        }
        assert!(attempts.len() < 200, "the search does not end");
    }
}

fn total(attempts: &[Attempt]) -> u128 {
    attempts.iter().map(|attempt| u128::from(attempt.cost) * u128::from(attempt.window)).sum()
}

const BLOCKS: u32 = 300;
/// The least cost. Costs are whole numbers, and the bound is exact if there are at most four blocks per unit of it.
const FIRST: u64 = 1 << 10;
const MOST: u64 = FIRST << 20;

fn informed(first: (u64, u32), limits: Limits) -> State {
    State::new(plan(first, limits, Strategy::Informed, Mode::Conserve, Units::Share))
}

/// Some blocks with all of their budget, and others with less.
fn partly_spent(seed: u64) -> Offers {
    let left = |block: u32| MOST >> ((seed >> (block % 60)) & 7).min(20);
    Offers::new((0..BLOCKS).map(left).collect())
}

proptest! {
    /// With any chances, or without a forecast, the total is at most four times the optimum.
    #[test]
    fn the_total_is_at_most_four_times_the_optimum(
        rows in 0.01_f64..250.0, noise in 0.1_f64..1e5, seed in any::<u64>(), known in 0.0_f64..1.0, aware in any::<bool>(),
    ) {
        let curve = Curve { rows, noise };
        let Some(optimum) = curve.optimum(MOST, BLOCKS) else { return Ok(()) };
        let too_small = (optimum as f64 * known) as u128;
        let adversary = Adversary { seed, too_small: if aware { too_small } else { 0 } };
        for forecast in [Some(&adversary as &dyn Forecast), None] {
            let limits = Limits { cost: MOST, window: BLOCKS, ..UNLIMITED };
            let mut state = informed((FIRST, 1), limits);
            let (attempts, end) = run(&mut state, &Offers::new(vec![MOST; BLOCKS as usize]), forecast, curve);
            prop_assert!(total(&attempts) <= 4 * optimum, "{curve:?}: {attempts:?}, optimum {optimum}");
            // Without a forecast it stops short only where the last step would leave the bound.
            let everything = u128::from(MOST) * u128::from(BLOCKS);
            let near_the_end = 4 * optimum >= everything || forecast.is_some();
            prop_assert!(accepted(&state) || near_the_end, "{curve:?}: {end:?} {attempts:?}");
        }
    }

    /// Where other pipelines have spent parts of the blocks, blocks are left out only for less relative noise.
    #[test]
    fn relative_noise_falls_on_partly_spent_blocks(amounts in any::<u64>(), share in any::<bool>()) {
        let (offers, units) = (partly_spent(amounts), if share { Units::Share } else { Units::Epsilon });
        let limits = Limits { cost: MOST, window: BLOCKS, ..UNLIMITED };
        let mut state = State::new(plan((FIRST, 1), limits, Strategy::Informed, Mode::Conserve, units));
        let never = Curve { rows: 1e9, noise: 0.0 };
        let (attempts, _) = run(&mut state, &offers, None, never);
        let precision = |attempt: &Attempt| {
            let (cost, blocks) = (u128::from(attempt.cost), u128::from(attempt.window));
            if share { cost * blocks * blocks } else { cost * blocks }
        };
        for pair in attempts.windows(2) {
            prop_assert!(precision(&pair[0]) < precision(&pair[1]), "{pair:?}");
        }
        prop_assert!(attempts.len() > 10, "{attempts:?}");
    }

    /// A forecast that is right finds the optimum at the first attempt.
    #[test]
    fn a_right_forecast_needs_one_attempt(rows in 0.01_f64..250.0, noise in 0.1_f64..1e5) {
        let curve = Curve { rows, noise };
        let Some(optimum) = curve.optimum(MOST, BLOCKS) else { return Ok(()) };
        let limits = Limits { cost: MOST, window: BLOCKS, ..UNLIMITED };
        let mut state = informed((FIRST, 1), limits);
        let truth = Truth(curve);
        let (attempts, _) = run(&mut state, &Offers::new(vec![MOST; BLOCKS as usize]), Some(&truth), curve);
        prop_assert!(accepted(&state) && attempts.len() == 1, "{curve:?}: {attempts:?}");
        // Up to one block at the first cost, and the precision of the search.
        let close = optimum + optimum / 1000 + u128::from(FIRST);
        prop_assert!(total(&attempts) <= close, "{curve:?}: {attempts:?}, optimum {optimum}");
    }
}

/// A forecast of a count: its noise alone decides.
struct NoiseAlone(u64);

impl Forecast for NoiseAlone {
    fn chance(&self, cost: u64, _: u32) -> f64 {
        f64::from(u8::from(cost >= self.0))
    }

    fn is_too_small(&self, cost: u64, _: u32) -> bool {
        cost < self.0
    }

    fn rows_help(&self) -> bool {
        false
    }
}

/// The half-width of a count follows from its noise: nothing is tried that cannot pass, and no more blocks are read.
#[test]
fn a_count_is_tried_once_or_never() {
    let limits = Limits { cost: 1 << 20, ..UNLIMITED };
    for needed in [FIRST, 77_777] {
        let state = informed((FIRST, 2), limits);
        let offers = Offers::new(vec![1 << 20; 50]);
        let action = state.next(World { time: 0, offers: &offers, forecast: Some(&NoiseAlone(needed)) });
        let Action::Choose(attempt) = action else { panic!("{action:?}") };
        assert!(attempt.window == 2 && (needed..=needed + needed / 1000).contains(&attempt.cost), "{attempt:?}");
    }
    let next = |offers: Vec<u64>, needed: u64| {
        let offers = Offers::new(offers);
        informed((FIRST, 2), limits).next(World { time: 0, offers: &offers, forecast: Some(&NoiseAlone(needed)) })
    };
    assert_eq!(next(vec![1 << 20; 50], 1 << 21), Action::Stop(End::OutOfReach));
    let waits = next(vec![1 << 12; 50], 1 << 13);
    assert!(matches!(waits, Action::Wait(wanted) if wanted.blocks == 2 && wanted.cost >= 1 << 13), "{waits:?}");
}

struct Hopeless;

impl Forecast for Hopeless {
    fn chance(&self, _: u64, _: u32) -> f64 {
        0.1
    }

    fn is_hopeless(&self) -> bool {
        true
    }
}

#[test]
fn a_hopeless_run_ends_after_its_first_attempt() {
    let mut state = informed((FIRST, 1), UNLIMITED);
    let never = Curve { rows: 1e9, noise: 1.0 };
    let (attempts, end) = run(&mut state, &Offers::new(vec![MOST; 64]), Some(&Hopeless), never);
    assert_eq!((attempts.len(), end), (1, Action::Stop(End::OutOfReach)));
}

/// Regression: 28 of 31 blocks were used, and the run waited for 56 for ever.
#[test]
fn the_last_window_is_all_blocks() {
    for first in [1, 3, 7, 14, 28] {
        let limits = Limits { cost: FIRST, window: u32::MAX, ..UNLIMITED };
        let mut state = informed((FIRST, first), limits);
        let curve = Curve { rows: 30.0, noise: 1.0 };
        let (attempts, _) = run(&mut state, &Offers::new(vec![FIRST; 31]), None, curve);
        assert!(accepted(&state), "{attempts:?}");
        assert_eq!(attempts.last().map(|attempt| attempt.window), Some(31), "{attempts:?}");
    }
}

/// Where rows are missing, a run waits for blocks and does not raise its cost.
#[test]
fn missing_rows_are_waited_for() {
    let curve = Curve { rows: 20.0, noise: 1e-3 };
    let mut state = informed((FIRST, 1), UNLIMITED);
    let few = Offers::new(vec![MOST; 8]);
    let (attempts, end) = run(&mut state, &few, Some(&Truth(curve)), curve);
    assert!(attempts.is_empty(), "{attempts:?}");
    assert!(matches!(end, Action::Wait(wanted) if wanted.blocks > 8), "{end:?} {attempts:?}");
    let (_, _) = run(&mut state, &Offers::new(vec![MOST; 40]), Some(&Truth(curve)), curve);
    assert!(state.phase() == Phase::Over(Outcome::Accepted));
}

/// Regression: an estimate met its target, noise was most of its uncertainty, and the run waited for more blocks than
/// existed. Where noise is what is missing, the cost is raised on the existing blocks; if that much is not available,
/// the run waits for budget on them and not for blocks.
#[test]
fn missing_budget_is_not_waited_for_as_rows() {
    let curve = Curve { rows: 5.0, noise: 500.0 };
    let needed = 300 * FIRST;
    let mut state = informed((FIRST, 1), UNLIMITED);
    let (attempts, end) = run(&mut state, &Offers::new(vec![needed / 4; 36]), Some(&Truth(curve)), curve);
    assert!(attempts.is_empty(), "{attempts:?}");
    assert!(matches!(end, Action::Wait(wanted) if wanted.blocks == 36 && wanted.cost > needed / 4), "{end:?}");
    let (attempts, _) = run(&mut state, &Offers::new(vec![needed; 36]), Some(&Truth(curve)), curve);
    assert!(accepted(&state) && attempts.iter().all(|attempt| attempt.window == 36), "{attempts:?}");
}
