//! How often the informed search accepts what is not below its target, with all attempts on the same rows.
//!
//! The next attempt depends on the estimates of earlier tests, which have read partly the same rows. The proof of the
//! validators allows earlier verdicts only, so the rate is measured.

use sage_engine::adapt::{
    Action, Event, Forecast, Limits, Mode, Offers, Outcome, Phase, RiskSchedule, State, Strategy, Units, Verdict, World,
};
use sage_kernel::Pair;
use sage_learn::forecast::{ReleasedTest, RowsPerBlock, Setting, TestForecast, TestSetting};
use sage_learn::validate::Margin;
use sage_learn::validate::decide::{Tail, accepts};

use crate::adapt::driver::{plan, step};

const CAPACITY: u64 = 1 << 40;
const BLOCKS: u32 = 100;
const RISK: f64 = 0.05;

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn deviation(cost: u64) -> f64 {
    4.0 * (CAPACITY as f64 / cost as f64).sqrt()
}

fn margin(cost: u64, risk: f64) -> Margin {
    // Each of two sums is beyond this with at most a quarter of the risk.
    Margin::new(deviation(cost) * (-2.0 * (0.5 * risk).ln()).sqrt(), 0.5 * risk).expect("a margin")
}

/// The product's forecast of a run.
struct RunForecast {
    test: TestForecast,
    risk: f64,
}

impl RunForecast {
    fn setting(&self, cost: u64, window: u32) -> TestSetting {
        TestSetting { blocks: f64::from(window), noise: deviation(cost), margin: margin(cost, self.risk) }
    }
}

impl Forecast for RunForecast {
    fn chance(&self, cost: u64, window: u32) -> f64 {
        self.test.chance(self.setting(cost, window))
    }

    fn is_too_small(&self, cost: u64, window: u32) -> bool {
        self.test.is_too_small(self.setting(cost, window))
    }

    fn is_hopeless(&self) -> bool {
        self.test.is_hopeless()
    }
}

/// Whether a run accepts a model whose mean is exactly its target, and after how many attempts it ends.
fn accepts_wrongly(target: f64, rows: f64, seed: u64) -> (bool, u32) {
    let mut random = Random(seed.wrapping_mul(0xa076_1d64_78bd_642f));
    let mut above = vec![0.0];
    for block in 0..BLOCKS as usize {
        // A sample of losses that are zero or one, the most variable ones.
        above.push(above[block] + rows * target + (rows * target * (1.0 - target)).sqrt() * random.normal());
    }
    let limits = Limits { cost: CAPACITY, window: BLOCKS, attempts: None, data_doublings: 30, deadline: None };
    let plan = plan((CAPACITY / 1024, 1), limits, Strategy::Informed, Mode::Conserve, Units::Share);
    let mut state = State::new(plan.with_risk(RiskSchedule::Probing).expect("a plan"));
    let offers = Offers::new(vec![CAPACITY; BLOCKS as usize]);
    let mut released = Vec::new();
    let first = Setting { rows: 1.0, noise: deviation(CAPACITY / 1024) };
    loop {
        let declared = || Some(RowsPerBlock { mean: rows, deviation: 0.1 * rows });
        let test = TestForecast::new((target, Tail::KullbackLeibler), first, &released, declared).expect("a forecast");
        let forecast = RunForecast { test, risk: RISK / state.next_risk_divisor() as f64 };
        let Action::Choose(attempt) = state.next(World { time: 0, offers: &offers, forecast: Some(&forecast) }) else {
            return (false, state.attempts());
        };
        let (count, sum) = (rows * f64::from(attempt.window), above[attempt.window as usize]);
        let mut noise = || deviation(attempt.cost) * random.normal();
        let sums = Pair { above: sum + noise(), below: count - sum + noise() };
        let risk = RISK / attempt.risk_divisor as f64;
        let accepted = accepts(sums, target, margin(attempt.cost, risk), Tail::KullbackLeibler);
        released.push(ReleasedTest { blocks: f64::from(attempt.window), noise: deviation(attempt.cost), sums });
        step(&mut state, Event::Chosen(attempt));
        step(&mut state, Event::Charged);
        step(&mut state, Event::Judged(if accepted { Verdict::Accept } else { Verdict::Retry }));
        if state.phase() == Phase::Over(Outcome::Accepted) {
            return (true, state.attempts());
        }
    }
}

/// Wrong acceptances are at most the risk of the pipeline, over all attempts. The seeds are fixed.
#[test]
fn wrong_acceptances_stay_within_the_risk() {
    let runs = if std::env::var_os("SAGE_SOAK").is_some() { 20_000 } else { 40 };
    for (target, rows) in [(0.02, 500.0), (0.1, 100.0), (0.3, 2_000.0)] {
        let results: Vec<(bool, u32)> = (1..=runs).map(|seed| accepts_wrongly(target, rows, seed)).collect();
        let wrong = results.iter().filter(|(accepted, _)| *accepted).count();
        let attempts: u32 = results.iter().map(|(_, attempts)| attempts).sum();
        println!("target {target}, {rows} rows a block: {wrong} of {runs} runs, {attempts} attempts");
        assert!(wrong as f64 <= RISK * runs as f64, "target {target}, {rows} rows a block: {wrong} of {runs}");
        assert!(u64::from(attempts) > runs, "runs end before they have searched");
    }
}
