//! The adaptive loop under a simulated clock, for choosing a policy, a scheduler and a strategy.
//!
//! Ledger, scheduler and adaptation are those of the product; the traffic is synthetic. No stream is used.

use sage_engine::adapt::Strategy;
use sage_engine::allocate::{Scheduler, Unlock};
use sage_engine::simulate::{
    Need, Scenario, SchedulingPolicy, SimulationResult, SimulationStep, Summary, run_simulation,
};
use sage_engine::{Ceiling, Delta, Epsilon, Rule};
use serde::Serialize;

use crate::format::{loss, quoted};
use crate::plot::{Line, Plot, svg};

/// A scheduler by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerName {
    /// All waiting pipelines have the same share of each block.
    #[default]
    EvenSplit,
    /// The pipeline that came first.
    FirstCome,
    /// The pipeline that requests the smallest share of a block.
    DominantShare,
    /// The pipeline that requests least in all.
    Pack,
}

impl SchedulerName {
    /// The scheduler.
    #[must_use]
    pub const fn scheduler(self) -> Scheduler {
        // A block's budget is fully unlocked by the tenth pipeline that requests it.
        let unlock = Unlock::ByAskers(10);
        match self {
            Self::EvenSplit => Scheduler::EvenSplit,
            Self::FirstCome => Scheduler::FirstCome,
            Self::DominantShare => Scheduler::DominantShare(unlock),
            Self::Pack => Scheduler::Pack(unlock),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::EvenSplit => "even-split",
            Self::FirstCome => "first-come",
            Self::DominantShare => "dominant-share",
            Self::Pack => "pack",
        }
    }
}

/// A strategy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyName {
    /// Data before budget.
    Frugal,
    /// Budget before data.
    Conserve,
    /// What a forecast recommends.
    Informed,
}

impl StrategyName {
    const fn named(self) -> (&'static str, Strategy) {
        match self {
            Self::Frugal => ("frugal", Strategy::Frugal),
            Self::Conserve => ("conserve", Strategy::Conserve),
            Self::Informed => ("informed", Strategy::Informed),
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct SimulationRequest {
    /// Blocks, one at each step of the clock.
    pub blocks: u32,
    /// New pipelines for each block, on average.
    pub rate: f64,
    /// The ceiling of each block.
    pub epsilon: String,
    /// The delta of the ceiling.
    pub delta: String,
    /// The filter.
    pub filter: Rule,
    /// Rows of a block.
    pub rows: f64,
    /// Rows that the easiest pipeline needs without noise.
    pub need_rows: f64,
    /// Rows that it needs in addition for each sensitivity of noise.
    pub noise_rows: f64,
    /// After how many blocks a pipeline gives up.
    pub patience: Option<u32>,
    /// Schedulers to compare; empty: even-split and first-come.
    pub schedulers: Vec<SchedulerName>,
    /// Strategies to compare; empty: both.
    pub strategies: Vec<StrategyName>,
    /// The first seed.
    pub seed: u64,
    /// How many seeds are simulated and added up.
    pub seeds: u32,
}

impl Default for SimulationRequest {
    fn default() -> Self {
        Self {
            blocks: 168,
            rate: 0.3,
            epsilon: "1".to_owned(),
            delta: "1e-6".to_owned(),
            filter: Rule::Renyi,
            rows: 10_000.0,
            need_rows: 5_000.0,
            noise_rows: 2_500.0,
            patience: None,
            schedulers: Vec::new(),
            strategies: Vec::new(),
            seed: 1,
            seeds: 1,
        }
    }
}

/// Why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A ceiling that cannot be read.
    #[error("--{flag} is no ceiling: {given}")]
    Ceiling {
        /// The flag.
        flag: &'static str,
        /// Its value.
        given: String,
    },
    /// Too many seeds, or none.
    #[error("--seeds must be from 1 to {MOST_SEEDS}, got {0}")]
    Seeds(u32),
    /// The scenario is out of range.
    #[error(transparent)]
    Scenario(sage_engine::simulate::SimulationError),
}

/// One combination of scheduler and strategy, and how it ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    name: String,
    scheduler: &'static str,
    strategy: &'static str,
    summary: Summary,
    moments: Vec<SimulationStep>,
    seeds: u32,
}

const MOST_SEEDS: u32 = 100;

/// Simulates every combination of the requested schedulers and strategies.
///
/// # Errors
/// When the request is out of range.
pub fn simulate(request: &SimulationRequest) -> Result<Vec<Outcome>, SimulationError> {
    let scenario = request.scenario()?;
    let mut all = Vec::new();
    for scheduler in request.schedulers() {
        for strategy in request.strategies() {
            let (strategy, chosen) = strategy.named();
            let way =
                SchedulingPolicy { scheduler: scheduler.scheduler(), strategy: chosen, ..SchedulingPolicy::default() };
            let stories = (0..u64::from(request.seeds)).map(|more| {
                let seed = scenario.seed.wrapping_add(more);
                run_simulation(&Scenario { seed, ..scenario }, way).map_err(SimulationError::Scenario)
            });
            let stories: Vec<SimulationResult> = stories.collect::<Result<_, SimulationError>>()?;
            all.push(Outcome {
                name: format!("{}, {strategy}", scheduler.word()),
                scheduler: scheduler.word(),
                strategy,
                summary: Summary::new(&stories),
                moments: sum_of_moments(&stories),
                seeds: request.seeds,
            });
        }
    }
    Ok(all)
}

impl SimulationRequest {
    fn scenario(&self) -> Result<Scenario, SimulationError> {
        let wrong = |flag, text: &str| SimulationError::Ceiling { flag, given: quoted(text) };
        let epsilon = Epsilon::ceiling(&self.epsilon).ok().filter(|epsilon| *epsilon > Epsilon::ZERO);
        let epsilon = epsilon.ok_or_else(|| wrong("epsilon", &self.epsilon))?;
        let delta = Delta::ceiling(&self.delta).ok().ok_or_else(|| wrong("delta", &self.delta))?;
        if !(1..=MOST_SEEDS).contains(&self.seeds) {
            return Err(SimulationError::Seeds(self.seeds));
        }
        Ok(Scenario {
            blocks: self.blocks,
            rate: self.rate,
            ceiling: Ceiling { epsilon, delta },
            rule: self.filter,
            rows: self.rows,
            need: Need { rows: self.need_rows, noisy_rows: self.noise_rows },
            patience: self.patience,
            seed: self.seed,
        })
    }

    fn schedulers(&self) -> Vec<SchedulerName> {
        let default = [SchedulerName::EvenSplit, SchedulerName::FirstCome];
        if self.schedulers.is_empty() { default.to_vec() } else { self.schedulers.clone() }
    }

    fn strategies(&self) -> Vec<StrategyName> {
        let default = [StrategyName::Informed, StrategyName::Frugal];
        if self.strategies.is_empty() { default.to_vec() } else { self.strategies.clone() }
    }
}

/// The moments of several simulations of the same length, added up.
fn sum_of_moments(stories: &[SimulationResult]) -> Vec<SimulationStep> {
    let length = stories.iter().map(|story| story.moments.len()).min().unwrap_or(0);
    let sum =
        |index: usize, part: fn(&SimulationStep) -> u32| stories.iter().map(|story| part(&story.moments[index])).sum();
    (0..length)
        .map(|index| SimulationStep {
            came: sum(index, |moment| moment.came),
            released: sum(index, |moment| moment.released),
            gave_up: sum(index, |moment| moment.gave_up),
            waiting: sum(index, |moment| moment.waiting),
            retired: sum(index, |moment| moment.retired),
            spent_share: stories.iter().map(|story| story.moments[index].spent_share).sum::<f64>()
                / stories.len() as f64,
        })
        .collect()
}

/// Three plots as one SVG: releases, waiting pipelines, used-up blocks.
#[must_use]
pub fn picture(outcomes: &[Outcome]) -> String {
    let lines = |part: fn(&SimulationStep) -> u32| {
        let line = |one: &Outcome| Line {
            name: one.name.clone(),
            values: one.moments.iter().map(|moment| f64::from(part(moment)) / f64::from(one.seeds)).collect(),
        };
        outcomes.iter().map(line).collect()
    };
    let plot = |title, part| Plot { title, across: "blocks so far", lines: lines(part) };
    let says = "A line for each scheduler and strategy, over the blocks so far, on average over the seeds. The table says \
                where each line ends.";
    svg(
        "simulated",
        says,
        &[
            plot("Released so far", |moment| moment.released),
            plot("Pipelines that wait", |moment| moment.waiting),
            plot("Blocks used up", |moment| moment.retired),
        ],
    )
}

/// The headings of the table and its rows.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> ([&'static str; 11], Vec<[String; 11]>) {
    let heads = [
        "scheduler",
        "strategy",
        "came",
        "released",
        "gave up",
        "waiting",
        "blocks to release",
        "slowest tenth",
        "attempts",
        "used up",
        "spent",
    ];
    let row = |one: &Outcome| {
        let all = &one.summary;
        let time = |index: usize| all.release_time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time[index]));
        [
            one.scheduler.to_owned(),
            one.strategy.to_owned(),
            all.came.to_string(),
            all.released.to_string(),
            all.gave_up.to_string(),
            all.waiting.to_string(),
            time(0),
            time(2),
            all.attempts.to_string(),
            all.retired.to_string(),
            format!("{:.0} %", 100.0 * all.spent_share),
        ]
    };
    (heads, outcomes.iter().map(row).collect())
}

/// What was simulated, in a sentence.
#[must_use]
pub fn sentence(request: &SimulationRequest, outcomes: &[Outcome]) -> String {
    let most = outcomes.iter().map(|one| one.summary.loss).max().unwrap_or(Epsilon::ZERO);
    let seeds = if request.seeds == 1 { "1 seed".to_owned() } else { format!("{} seeds together", request.seeds) };
    format!(
        "{} blocks of {} rows, each with a ceiling of epsilon {}, delta {}; {} pipelines a block; {seeds}. The most that a \
         block lost is {}. Under even-split a waiting frugal pipeline whose first cost is within its share gets its window \
         from as many new blocks. An informed one does while its next attempt is within its share; conserve has no such \
         bound.",
        request.blocks,
        request.rows,
        request.epsilon,
        request.delta,
        request.rate,
        loss(most)
    )
}

/// The simulation as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    blocks: u32,
    rate: f64,
    epsilon: String,
    delta: String,
    rows: f64,
    seed: u64,
    seeds: u32,
    ways: Vec<SimulatedWay>,
}

#[derive(Clone, Debug, Serialize)]
struct SimulatedWay {
    scheduler: &'static str,
    strategy: &'static str,
    came: u32,
    released: u32,
    gave_up: u32,
    waiting: u32,
    waited_mean: Option<f64>,
    release_time: ReleaseTime,
    attempts: u32,
    retired: u32,
    spent_share: f64,
    epsilon_lost: String,
    after_each_block: Series,
}

#[derive(Clone, Debug, Serialize)]
struct ReleaseTime {
    mean: Option<f64>,
    median: Option<f64>,
    slowest_tenth: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    released: Vec<u32>,
    waiting: Vec<u32>,
    retired: Vec<u32>,
}

impl Simulation {
    /// The request with its outcomes.
    #[must_use]
    pub fn new(request: &SimulationRequest, outcomes: &[Outcome]) -> Self {
        Self {
            blocks: request.blocks,
            rate: request.rate,
            epsilon: request.epsilon.clone(),
            delta: request.delta.clone(),
            rows: request.rows,
            seed: request.seed,
            seeds: request.seeds,
            ways: outcomes.iter().map(SimulatedWay::from).collect(),
        }
    }
}

impl From<&Outcome> for SimulatedWay {
    fn from(one: &Outcome) -> Self {
        let all = &one.summary;
        let series = |part: fn(&SimulationStep) -> u32| one.moments.iter().map(part).collect::<Vec<u32>>();
        let time = |index: usize| all.release_time.map(|time| time[index]);
        Self {
            scheduler: one.scheduler,
            strategy: one.strategy,
            came: all.came,
            released: all.released,
            gave_up: all.gave_up,
            waiting: all.waiting,
            waited_mean: all.waited,
            release_time: ReleaseTime { mean: time(0), median: time(1), slowest_tenth: time(2) },
            attempts: all.attempts,
            retired: all.retired,
            spent_share: all.spent_share,
            epsilon_lost: all.loss.to_string(),
            after_each_block: Series {
                released: series(|moment| moment.released),
                waiting: series(|moment| moment.waiting),
                retired: series(|moment| moment.retired),
            },
        }
    }
}
