//! The informed search: within four times the optimum whatever the forecast says, and close to it when it is right.

use proptest::prelude::{any, prop_assert, prop_assume, proptest};
use sage_engine::adapt::{
    Action, Attempt, End, Event, Forecast, Limits, Mode, Offers, Outcome, Phase, State, Strategy, Units, Verdict, World,
};

use crate::adapt::driver::{UNLIMITED, accepted, plan, step};

/// An attempt succeeds once its sampling error and its noise, relative to its rows, are small enough. Errors fall with
/// powers of both.
#[derive(Clone, Copy, Debug)]
struct Curve {
    rows: f64,
    noise: f64,
    powers: (f64, f64),
}

fn curve(rows: f64, noise: f64) -> Curve {
    Curve { rows, noise, powers: (1.0, 1.0) }
}

impl Curve {
    fn succeeds(self, cost: u64, window: u32) -> bool {
        let window = f64::from(window);
        let noise = self.noise / (window * (cost as f64 / FIRST as f64).sqrt());
        (self.rows / window).powf(self.powers.0) + noise.powf(self.powers.1) <= 1.0
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
    fn chance(&self, cost: u64, window: u32, _: f64) -> f64 {
        let mixed = (self.seed ^ cost.rotate_left(17) ^ u64::from(window)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn is_too_small(&self, cost: u64, window: u32, _: f64) -> bool {
        u128::from(cost) * u128::from(window) < self.too_small
    }
}

/// A forecast that knows the curve.
struct Truth(Curve);

impl Forecast for Truth {
    fn chance(&self, cost: u64, window: u32, _: f64) -> f64 {
        f64::from(u8::from(self.0.succeeds(cost, window)))
    }

    fn is_too_small(&self, cost: u64, window: u32, _: f64) -> bool {
        !self.0.succeeds(cost, window)
    }
}

/// Makes attempts until the run ends or waits.
fn run(state: &mut State, offers: &Offers, forecast: Option<&dyn Forecast>, curve: Curve) -> (Vec<Attempt>, Action) {
    let mut attempts = Vec::new();
    loop {
        match state.next(World { forecast, ..World::new(0, offers) }) {
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
        rows in 0.01_f64..250.0, noise in 0.1_f64..1e5, powers in (0.25_f64..1.5, 0.5_f64..2.0),
        (seed, known, aware) in (any::<u64>(), 0.0_f64..1.0, any::<bool>()),
    ) {
        let curve = Curve { rows, noise, powers };
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
        let never = curve(1e9, 0.0);
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
        let curve = curve(rows, noise);
        let Some(optimum) = curve.optimum(MOST, BLOCKS) else { return Ok(()) };
        let limits = Limits { cost: MOST, window: BLOCKS, ..UNLIMITED };
        let mut state = informed((FIRST, 1), limits);
        let truth = Truth(curve);
        let (attempts, _) = run(&mut state, &Offers::new(vec![MOST; BLOCKS as usize]), Some(&truth), curve);
        prop_assert!(accepted(&state) && attempts.len() == 1, "{curve:?}: {attempts:?}");
        // The step of the grid: half a doubling of the cost, or a third of one of the blocks, which are whole.
        let close = optimum + 42 * optimum / 100 + 2 * u128::from(FIRST);
        prop_assert!(total(&attempts) <= close, "{curve:?}: {attempts:?}, optimum {optimum}");
    }

    /// With any chances, all attempts together cost at most four times the one that conserve ends with: that one is
    /// sufficient, so the optimum is not larger.
    #[test]
    fn conserve_is_exceeded_at_most_four_times(
        rows in 0.01_f64..250.0, noise in 0.1_f64..1e5, powers in (0.25_f64..1.5, 0.5_f64..2.0), seed in any::<u64>(),
    ) {
        let curve = Curve { rows, noise, powers };
        let (offers, limits) = (Offers::new(vec![MOST; BLOCKS as usize]), Limits { cost: MOST, window: BLOCKS, ..UNLIMITED });
        let mut other = State::new(plan((16 * FIRST, 1), limits, Strategy::Conserve, Mode::Conserve, Units::Share));
        let (conserved, _) = run(&mut other, &offers, None, curve);
        prop_assume!(accepted(&other));
        let adversary = Adversary { seed, too_small: 0 };
        let mut state = informed((FIRST, 1), limits);
        let (attempts, _) = run(&mut state, &offers, Some(&adversary), curve);
        let last = conserved.last().map_or(0, |last| u128::from(last.cost) * u128::from(last.window));
        prop_assert!(total(&attempts) <= 4 * last, "{curve:?}: {attempts:?} against {conserved:?}");
    }
}

/// Where the first attempt of conserve is just enough, a search that knows nothing and starts at a sixteenth of it costs
/// 31/16 of it. No search that starts lower is always within a tenth of conserve.
#[test]
fn a_lower_start_has_its_price() {
    let (offers, limits) = (Offers::new(vec![MOST]), Limits { cost: MOST, window: 1, ..UNLIMITED });
    // Noise falls with the root of the cost: sixteen times the first cost is just enough.
    let enough = Curve { rows: 0.0, noise: 4.0, powers: (1.0, 1.0) };
    let mut state = informed((FIRST, 1), limits);
    let (attempts, _) = run(&mut state, &offers, None, enough);
    assert!(accepted(&state));
    assert_eq!(total(&attempts), 31 * u128::from(FIRST), "{attempts:?}");
    let mut other = State::new(plan((16 * FIRST, 1), limits, Strategy::Conserve, Mode::Conserve, Units::Share));
    let (conserved, _) = run(&mut other, &offers, None, enough);
    assert_eq!((accepted(&other), total(&conserved)), (true, 16 * u128::from(FIRST)));
}

/// A forecast of a count: its noise alone decides.
struct NoiseAlone(u64);

impl Forecast for NoiseAlone {
    fn chance(&self, cost: u64, _: u32, _: f64) -> f64 {
        f64::from(u8::from(cost >= self.0))
    }

    fn is_too_small(&self, cost: u64, _: u32, _: f64) -> bool {
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
        let action = state.next(World { forecast: Some(&NoiseAlone(needed)), ..World::new(0, &offers) });
        let Action::Choose(attempt) = action else { panic!("{action:?}") };
        assert!(attempt.window == 2 && (needed..=needed + needed / 1000).contains(&attempt.cost), "{attempt:?}");
    }
    let next = |offers: Vec<u64>, needed: u64| {
        let offers = Offers::new(offers);
        informed((FIRST, 2), limits).next(World { forecast: Some(&NoiseAlone(needed)), ..World::new(0, &offers) })
    };
    assert_eq!(next(vec![1 << 20; 50], 1 << 21), Action::Stop(End::OutOfReach));
    let waits = next(vec![1 << 12; 50], 1 << 13);
    assert!(matches!(waits, Action::Wait(wanted) if wanted.blocks == 2 && wanted.cost >= 1 << 13), "{waits:?}");
}

struct Hopeless;

impl Forecast for Hopeless {
    fn chance(&self, _: u64, _: u32, _: f64) -> f64 {
        0.1
    }

    fn is_hopeless(&self) -> bool {
        true
    }
}

#[test]
fn a_hopeless_run_ends_after_its_first_attempt() {
    let mut state = informed((FIRST, 1), UNLIMITED);
    let never = curve(1e9, 1.0);
    let (attempts, end) = run(&mut state, &Offers::new(vec![MOST; 64]), Some(&Hopeless), never);
    assert_eq!((attempts.len(), end), (1, Action::Stop(End::OutOfReach)));
}

/// Regression: 28 of 31 blocks were used, and the run waited for 56 for ever.
#[test]
fn the_last_window_is_all_blocks() {
    for first in [1, 3, 7, 14, 28] {
        let limits = Limits { cost: FIRST, window: u32::MAX, ..UNLIMITED };
        let mut state = informed((FIRST, first), limits);
        let curve = curve(30.0, 1.0);
        let (attempts, _) = run(&mut state, &Offers::new(vec![FIRST; 31]), None, curve);
        assert!(accepted(&state), "{attempts:?}");
        assert_eq!(attempts.last().map(|attempt| attempt.window), Some(31), "{attempts:?}");
    }
}

/// Where rows are missing, a run waits for blocks and does not raise its cost.
#[test]
fn missing_rows_are_waited_for() {
    let curve = curve(20.0, 1e-3);
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
    let curve = curve(5.0, 500.0);
    let needed = 300 * FIRST;
    let mut state = informed((FIRST, 1), UNLIMITED);
    let (attempts, end) = run(&mut state, &Offers::new(vec![needed / 4; 36]), Some(&Truth(curve)), curve);
    assert!(attempts.is_empty(), "{attempts:?}");
    assert!(matches!(end, Action::Wait(wanted) if wanted.blocks == 36 && wanted.cost > needed / 4), "{end:?}");
    // The next step of the grid.
    let (attempts, _) = run(&mut state, &Offers::new(vec![needed + needed / 2; 36]), Some(&Truth(curve)), curve);
    assert!(accepted(&state) && attempts.iter().all(|attempt| attempt.window == 36), "{attempts:?}");
}
