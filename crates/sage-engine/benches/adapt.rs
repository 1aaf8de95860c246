//! Measurements of the search for an accepted attempt, for `cargo xtask bench adapt`.
//!
//! One JSON object a line is printed: `name`, `ours`, `peer`, `unit`. Pipelines have simulated learning curves, drawn
//! from seeds; tests, forecasts and the search are the product's own. The smallest sufficient budget is that of an
//! oracle that knows the curve: the least cost times blocks whose first test accepts. The peer is the strategy that
//! doubles. With names as arguments only those run.

use sage_engine::adapt::{
    Action, Attempt, Event, Forecast, Limits, Mode, Offers, Outcome, Phase, Plan, RiskSchedule, State, Strategy,
    TestedBlocks, Units, Verdict, World,
};
use sage_engine::simulate::{Need, Scenario, SchedulingPolicy, SimulationResult, run_simulation};
use sage_engine::{Ceiling, Delta, Epsilon};
use sage_kernel::Pair;
use sage_learn::forecast::{ReleasedTest, RowsPerBlock, Setting, TestForecast, TestSetting};
use sage_learn::validate::Margin;
use sage_learn::validate::decide::{Tail, accepts};

const SEEDS: u64 = 400;
/// A block's budget in units of cost.
const CAPACITY: u64 = 1 << 40;
/// The blocks that exist at first. While a run waits, more arrive, up to eight times as many.
const BLOCKS: u32 = 365;
const MOST_BLOCKS: u32 = 8 * BLOCKS;
/// The probability of a wrong acceptance of a pipeline.
const RISK: f64 = 0.05;
/// The share of the rows in the test lane.
const TEST_SHARE: f64 = 0.1;
/// The noise of a test that costs a whole block's budget, in rows.
const LEAST_NOISE: f64 = 4.0;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| word == name);
    if wanted("informed_overshoot") {
        overshoot();
    }
    if wanted("releases_per_year") {
        releases_per_year();
    }
}

fn line(name: &str, ours: f64, peer: Option<f64>, unit: &str) {
    let peer = peer.map_or_else(|| "null".to_owned(), |peer| peer.to_string());
    println!("{{\"name\": \"{name}\", \"ours\": {ours}, \"peer\": {peer}, \"unit\": \"{unit}\"}}");
}

/// A reproducible generator.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform on a logarithmic scale.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.uniform())
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A pipeline with a known learning curve.
#[derive(Clone, Copy, Debug)]
struct Pipeline {
    target: f64,
    floor: f64,
    sampling: f64,
    sampling_rate: f64,
    noise: f64,
    noise_rate: f64,
    /// The rows of a block.
    rows: f64,
}

impl Pipeline {
    /// A pipeline whose class can meet its target, with a margin of a few to fifty percent.
    fn draw(random: &mut Random) -> Self {
        let target = random.scale(0.02, 0.4);
        Self {
            target,
            floor: target * random.between(0.5, 0.95),
            sampling: target * random.scale(0.3, 30.0),
            sampling_rate: random.between(0.5, 1.0),
            noise: target * random.scale(0.1, 100.0),
            noise_rate: random.between(1.0, 2.0),
            rows: random.scale(200.0, 20_000.0),
        }
    }

    /// The mean loss of a model that an attempt trains.
    fn mean(&self, cost: u64, window: u32) -> f64 {
        let rows = f64::from(window) * self.rows;
        let sampling = self.sampling * (100.0 / rows).powf(self.sampling_rate);
        let noise = self.noise * (100.0 * deviation(cost) / (LEAST_NOISE * rows)).powf(self.noise_rate);
        (self.floor + sampling + noise).min(1.0)
    }

    /// The sums that a test releases, without noise and luck.
    fn exact_sums(&self, cost: u64, window: u32) -> Pair {
        let (mean, rows) = (self.mean(cost, window), f64::from(window) * self.rows * TEST_SHARE);
        Pair { above: mean * rows, below: (1.0 - mean) * rows }
    }

    /// The sums that a test releases.
    fn sums(&self, cost: u64, window: u32, random: &mut Random) -> Pair {
        let rows = f64::from(window) * self.rows * TEST_SHARE;
        // Models of the same setting differ a little, and the test has a sample of losses.
        let mean = self.mean(cost, window) * (1.0 + 0.02 * random.normal());
        let mean = (mean + (0.5 * mean * (1.0 - mean).max(0.0) / rows).sqrt() * random.normal()).clamp(0.0, 1.0);
        let mut noise = || deviation(cost) * random.normal();
        Pair { above: mean * rows + noise(), below: (1.0 - mean) * rows + noise() }
    }

    /// The least mass whose first test accepts.
    fn oracle(&self) -> Option<f64> {
        let accepted = |(cost, window): (u64, u32)| {
            let margin = margin(cost, 2.0, 2.0);
            accepts(self.exact_sums(cost, window), self.target, margin, Tail::KullbackLeibler)
        };
        let least = CAPACITY / 1024;
        let widths = (1..=BLOCKS).map(|window| (least, window));
        let costs = (0..).map(|step| (least as f64 * 1.02_f64.powi(step)) as u64).take_while(|cost| *cost <= CAPACITY);
        let all = widths.chain(costs.map(|cost| (cost, BLOCKS)));
        all.into_iter().find(|attempt| accepted(*attempt)).map(|(cost, window)| cost as f64 * f64::from(window))
    }
}

/// The noise of a test under a Rényi filter, in rows.
fn deviation(cost: u64) -> f64 {
    LEAST_NOISE * (CAPACITY as f64 / cost as f64).sqrt()
}

fn margin(cost: u64, noise_divisor: f64, rows_divisor: f64) -> Margin {
    // Two sums, each beyond this with a quarter of the risk, by the Gaussian tail.
    let reach = deviation(cost) * (-2.0 * (0.5 * RISK / noise_divisor).ln()).sqrt();
    Margin::new(reach, 0.5 * RISK / rows_divisor).expect("a margin")
}

/// The product's forecast for a simulated pipeline.
struct SimulatedRun {
    forecast: Option<TestForecast>,
    noise_divisor: f64,
}

impl Forecast for SimulatedRun {
    fn chance(&self, cost: u64, window: u32, rows_divisor: f64) -> f64 {
        self.forecast.as_ref().map_or(0.0, |forecast| forecast.chance(self.setting(cost, window, rows_divisor)))
    }

    fn is_too_small(&self, cost: u64, window: u32, rows_divisor: f64) -> bool {
        self.forecast.as_ref().is_some_and(|forecast| forecast.is_too_small(self.setting(cost, window, rows_divisor)))
    }

    fn is_hopeless(&self) -> bool {
        self.forecast.as_ref().is_some_and(TestForecast::is_hopeless)
    }
}

impl SimulatedRun {
    fn setting(&self, cost: u64, window: u32, rows_divisor: f64) -> TestSetting {
        let margin = margin(cost, self.noise_divisor, rows_divisor);
        TestSetting { blocks: f64::from(window), noise: deviation(cost), margin }
    }
}

/// What is known about the rows of a block before the first attempt.
#[derive(Clone, Copy, PartialEq)]
enum KnownRows {
    Nothing,
    Census,
    /// An earlier run of the same pipeline, on other blocks.
    EarlierRun,
}

/// The total mass of a run and its number of attempts; `None` if it was not accepted. Earlier runs of the pipeline
/// have released these sums, and it adds its own.
fn run(
    pipeline: &Pipeline, strategy: Strategy, known: KnownRows, released: &mut Vec<ReleasedTest>, random: &mut Random,
) -> Option<(f64, u32)> {
    // An earlier run read other blocks.
    let mut tested = TestedBlocks::new(BLOCKS, BLOCKS);
    let share = if strategy == Strategy::Informed { 1024 } else { 64 };
    let limits = Limits { cost: CAPACITY, window: MOST_BLOCKS, attempts: None, data_doublings: 30, deadline: None };
    let plan = Plan::new((CAPACITY / share, 1), limits, Units::Share).expect("a plan");
    let risk = if strategy == Strategy::Informed { RiskSchedule::Probing } else { RiskSchedule::Falling };
    let plan = plan.by(strategy, Mode::Conserve).with_risk(risk).expect("a plan");
    let mut state = State::new(plan);
    let mut offers = Offers::new(vec![CAPACITY; BLOCKS as usize]);
    let mut total = 0.0;
    loop {
        let declared = || match known {
            KnownRows::Census | KnownRows::EarlierRun => {
                let mean = pipeline.rows * TEST_SHARE;
                Some(RowsPerBlock { mean, deviation: 0.1 * mean })
            }
            KnownRows::Nothing => None,
        };
        let noise_divisor = state.next_risk_divisor() as f64;
        let first = Setting { rows: 1.0, noise: deviation(plan.first_cost()) };
        let goal = (pipeline.target, Tail::KullbackLeibler);
        let forecast = TestForecast::new(goal, first, released, declared);
        let known = forecast.is_some();
        let forecast = SimulatedRun { forecast, noise_divisor };
        let forecast = known.then_some(&forecast as &dyn Forecast);
        let all: Vec<u32> = (0..offers.count()).collect();
        let rows = tested.prices(&plan, &all);
        let attempt = match state.next(World { time: 0, offers: &offers, forecast, rows }) {
            Action::Choose(attempt) => attempt,
            Action::Wait(_) if offers.count() < MOST_BLOCKS => {
                let blocks = (offers.count() + offers.count() / 8).min(MOST_BLOCKS);
                offers = Offers::new(vec![CAPACITY; blocks as usize]);
                tested = tested.with_sealed(blocks);
                continue;
            }
            _ => return None,
        };
        let Attempt { cost, window, risk_divisor, .. } = attempt;
        let sums = pipeline.sums(cost, window, random);
        let noise_divisor = risk_divisor as f64;
        let rows_divisor = if strategy == Strategy::Informed {
            let chosen = tested.choose(&all, window);
            let divisor = tested.divisor(&plan, risk_divisor, (cost, &chosen));
            tested.add_judged(chosen);
            divisor as f64
        } else {
            noise_divisor
        };
        let margin = margin(cost, noise_divisor, rows_divisor);
        let accepted = accepts(sums, pipeline.target, margin, Tail::KullbackLeibler);
        released.push(ReleasedTest { blocks: f64::from(window), noise: deviation(cost), sums });
        total += cost as f64 * f64::from(window);
        let verdict = if accepted { Verdict::Accept } else { Verdict::Retry };
        for event in [Event::Chosen(attempt), Event::Charged, Event::Judged(verdict)] {
            state = state.step(event).expect("it can follow");
        }
        if state.phase() == Phase::Over(Outcome::Accepted) {
            return Some((total, state.attempts()));
        }
    }
}

/// The value below which this share of sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// The ratios to the oracle, sorted, the mean number of attempts, and the number of runs without a release.
fn ratios(strategy: Strategy, known: KnownRows) -> (Vec<f64>, f64, usize) {
    let (mut ratios, mut attempts, mut failed) = (Vec::new(), 0.0, 0);
    for seed in 1..=SEEDS {
        let mut random = Random(seed.wrapping_mul(0xa076_1d64_78bd_642f));
        let pipeline = Pipeline::draw(&mut random);
        // An oracle that needs nearly everything leaves nothing to search.
        let Some(least) = pipeline.oracle().filter(|least| *least <= 0.25 * CAPACITY as f64 * f64::from(BLOCKS)) else {
            continue;
        };
        let mut released = Vec::new();
        if known == KnownRows::EarlierRun {
            run(&pipeline, strategy, known, &mut released, &mut random);
        }
        match run(&pipeline, strategy, known, &mut released, &mut random) {
            Some((total, number)) => {
                ratios.push(total / least);
                attempts += f64::from(number);
            }
            None => failed += 1,
        }
    }
    ratios.sort_by(f64::total_cmp);
    let mean = attempts / ratios.len().max(1) as f64;
    (ratios, mean, failed)
}

/// Budget spent until a release, divided by the smallest sufficient budget.
fn overshoot() {
    let informed = ratios(Strategy::Informed, KnownRows::Census);
    let blind = ratios(Strategy::Informed, KnownRows::Nothing);
    let again = ratios(Strategy::Informed, KnownRows::EarlierRun);
    let [frugal, conserve] = [Strategy::Frugal, Strategy::Conserve].map(|one| ratios(one, KnownRows::Nothing));
    for (name, share) in [("median", 0.5), ("p90", 0.9), ("most", 1.0)] {
        let [ours, blind, again, frugal, conserve] =
            [&informed, &blind, &again, &frugal, &conserve].map(|(ratios, ..)| quantile(ratios, share));
        line(&format!("informed_overshoot_{name}"), ours, Some(frugal), "times the oracle, informed against frugal");
        line(&format!("informed_overshoot_{name}_conserve"), ours, Some(conserve), "the same against conserve");
        line(&format!("informed_overshoot_{name}_without_census"), blind, Some(frugal), "the same without a census");
        line(&format!("informed_overshoot_{name}_again"), again, Some(frugal), "the same after an earlier run");
    }
    line("attempts_per_release", informed.1, Some(frugal.1), "attempts, informed against frugal");
    line("attempts_per_release_without_census", blind.1, Some(frugal.1), "attempts, informed against frugal");
    line("attempts_per_release_again", again.1, Some(frugal.1), "attempts, informed against frugal");
    let share = |one: &(Vec<f64>, f64, usize)| one.0.len() as f64 / (one.0.len() + one.2) as f64;
    line("released_share", share(&informed), Some(share(&frugal)), "of the pipelines, informed against frugal");
}

/// Releases until 95 % of a year of blocks is spent, with the same arrivals under both strategies; until the end of the
/// year if less is spent.
fn releases_per_year() {
    const YEARS: u64 = 20;
    const SPENT: f64 = 0.95;
    let number = |text: &str| Epsilon::ceiling(text).expect("a number");
    let ceiling = Ceiling { epsilon: number("1"), delta: Delta::ceiling("1e-6").expect("a number") };
    let released = |strategy: Strategy| {
        let result = |seed: u64| {
            let week = Scenario::week(ceiling);
            let need = Need { rows: 5_000.0, noisy_rows: 2_500.0 };
            let scenario = Scenario { blocks: 365, rate: 1.5, need, patience: Some(90), seed, ..week };
            let policy = SchedulingPolicy { strategy, ..SchedulingPolicy::default() };
            run_simulation(&scenario, policy).expect("a simulation")
        };
        let results: Vec<SimulationResult> = (1..=YEARS).map(result).collect();
        results.iter().map(|result| released_until(result, SPENT)).sum::<usize>() as f64 / YEARS as f64
    };
    let [informed, frugal] = [Strategy::Informed, Strategy::Frugal].map(released);
    line("releases_per_year", informed, Some(frugal), "releases a year, informed against frugal");
}

/// The releases until this share of the budget of all blocks of the year is spent.
fn released_until(result: &SimulationResult, share: f64) -> usize {
    let end = result.moments.iter().position(|moment| moment.spent_share >= share).unwrap_or(result.moments.len());
    result.releases.iter().filter(|release| release.at as usize <= end).count()
}
