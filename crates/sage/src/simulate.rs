//! `sage simulate`: the loop under a simulated clock, for choosing a policy, a scheduler and a strategy.
//!
//! No directory is opened and no row is touched. The page of the server shows the same.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sage_engine::adapt::Strategy;
use sage_engine::allocate::{Scheduler, Unlock};
use sage_engine::simulate::{
    Need, Scenario, SchedulingPolicy, SimulationResult, SimulationStep, Summary, run_simulation,
};
use sage_engine::{Ceiling, Delta, Epsilon, Rule};
use serde_json::{Value, json};

use crate::failure::{Failure, quoted};
use crate::output::{loss, print, print_json, tell};
use crate::plot::{self, Line, Plot, svg};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage simulate
  sage simulate --rate 0.7 --seeds 8
  sage simulate --blocks 365 --rate 2 --epsilon 4 --patience 60 --svg year.svg
  sage simulate --scheduler even-split --scheduler first-come --strategy frugal --json

What decides is the product's own: ledger, scheduler and adaptation. What is made up is the traffic: a block at
each tick, pipelines at a rate, and how a pipeline's loss falls: on n rows with noise of s sensitivities it passes
once n is at least its difficulty times (need-rows + noise-rows * s). Most are easy, a few a hundred times harder.";

/// Schedulers by their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchedulerName {
    /// Everybody that waits has the same part of each block (the default of the product)
    #[default]
    EvenSplit,
    /// Whoever came first
    FirstCome,
    /// Whoever asks for the smallest share of a block
    DominantShare,
    /// Whoever asks for least in all
    Pack,
}

impl SchedulerName {
    pub(crate) const fn named(self) -> Scheduler {
        // A block's budget comes within reach with the tenth pipeline that asks for it.
        let unlock = Unlock::ByAskers(10);
        match self {
            Self::EvenSplit => Scheduler::EvenSplit,
            Self::FirstCome => Scheduler::FirstCome,
            Self::DominantShare => Scheduler::DominantShare(unlock),
            Self::Pack => Scheduler::Pack(unlock),
        }
    }
}

/// Strategies by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyName {
    /// Data before budget (the default of the product)
    Frugal,
    /// Budget before data
    Conserve,
}

/// Filters by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilterName {
    Renyi,
    Strong,
    Basic,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SimulateArgs {
    /// How many blocks come, one at each tick of the clock
    #[arg(long, value_name = "NUMBER", default_value = "168")]
    pub(crate) blocks: u32,
    /// How many pipelines come for each block, on average
    #[arg(long, value_name = "NUMBER", default_value = "0.3")]
    pub(crate) rate: f64,
    /// What each block may lose
    #[arg(long, value_name = "EPSILON", default_value = "1")]
    pub(crate) epsilon: String,
    /// The delta of the ceiling
    #[arg(long, value_name = "DELTA", default_value = "1e-6")]
    pub(crate) delta: String,
    /// By which losses are counted
    #[arg(long, value_name = "FILTER", default_value = "renyi")]
    pub(crate) filter: FilterName,
    /// How many rows a block has
    #[arg(long, value_name = "NUMBER", default_value = "10000")]
    pub(crate) rows: f64,
    /// Rows that the easiest pipeline needs where there is no noise
    #[arg(long, value_name = "NUMBER", default_value = "5000")]
    pub(crate) need_rows: f64,
    /// Rows that it needs beside those for each sensitivity of noise
    #[arg(long, value_name = "NUMBER", default_value = "2500")]
    pub(crate) noise_rows: f64,
    /// After how many blocks a pipeline gives up [default: never]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) patience: Option<u32>,
    /// Who comes first; repeats [default: even-split and first-come]
    #[arg(long = "scheduler", value_name = "NAME")]
    pub(crate) schedulers: Vec<SchedulerName>,
    /// What grows after an attempt that was not enough; repeats [default: both]
    #[arg(long = "strategy", value_name = "NAME")]
    pub(crate) strategies: Vec<StrategyName>,
    /// The first seed: the same seed gives the same traffic
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// How many seeds are lived through and added up
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seeds: u32,
    /// Write the pictures to a file of its own
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One way and what came of it.
pub(crate) struct Lived {
    pub(crate) name: String,
    scheduler: &'static str,
    strategy: &'static str,
    pub(crate) summary: Summary,
    moments: Vec<SimulationStep>,
    seeds: u32,
}

pub(crate) fn run(asked: &SimulateArgs) -> Result<(), Failure> {
    let lived = lived(asked)?;
    if let Some(file) = &asked.svg {
        std::fs::write(file, plot::file(&picture(&lived))).map_err(|error| {
            let message = format!("--svg: {} cannot be written: {error}", file.display());
            Failure::no_answer(message, "name a file in a folder that is there")
        })?;
        tell(&format!("pictures: {}", file.display()));
    }
    if asked.json { print_json(&object(asked, &lived)) } else { print(&text(asked, &lived)) }
}

const MOST_SEEDS: u32 = 100;

/// Lives through every way that is asked for.
pub(crate) fn lived(asked: &SimulateArgs) -> Result<Vec<Lived>, Failure> {
    let scenario = asked.scenario()?;
    let mut all = Vec::new();
    for scheduler in asked.schedulers() {
        for strategy in asked.strategies() {
            let way = SchedulingPolicy { scheduler: scheduler.1, strategy: strategy.1, ..SchedulingPolicy::default() };
            let stories = (0..u64::from(asked.seeds)).map(|more| {
                let seed = scenario.seed.wrapping_add(more);
                run_simulation(&Scenario { seed, ..scenario }, way).map_err(|error| wrong(&error.to_string()))
            });
            let stories: Vec<SimulationResult> = stories.collect::<Result<_, Failure>>()?;
            all.push(Lived {
                name: format!("{}, {}", scheduler.0, strategy.0),
                scheduler: scheduler.0,
                strategy: strategy.0,
                summary: Summary::new(&stories),
                moments: together(&stories),
                seeds: asked.seeds,
            });
        }
    }
    Ok(all)
}

fn wrong(message: &str) -> Failure {
    Failure::usage(message, "sage simulate --blocks 168 --rate 0.3 --epsilon 1")
}

impl SimulateArgs {
    fn scenario(&self) -> Result<Scenario, Failure> {
        let epsilon = Epsilon::ceiling(&self.epsilon).ok().filter(|epsilon| *epsilon > Epsilon::ZERO);
        let epsilon = epsilon.ok_or_else(|| wrong(&format!("--epsilon is no ceiling: {}", quoted(&self.epsilon))))?;
        let delta = Delta::ceiling(&self.delta).ok();
        let delta = delta.ok_or_else(|| wrong(&format!("--delta is no ceiling: {}", quoted(&self.delta))))?;
        if !(1..=MOST_SEEDS).contains(&self.seeds) {
            return Err(wrong(&format!("--seeds must be from 1 to {MOST_SEEDS}, got {}", self.seeds)));
        }
        Ok(Scenario {
            blocks: self.blocks,
            rate: self.rate,
            ceiling: Ceiling { epsilon, delta },
            rule: match self.filter {
                FilterName::Renyi => Rule::Renyi,
                FilterName::Strong => Rule::Strong,
                FilterName::Basic => Rule::Basic,
            },
            rows: self.rows,
            need: Need { rows: self.need_rows, noisy_rows: self.noise_rows },
            patience: self.patience,
            seed: self.seed,
        })
    }

    fn schedulers(&self) -> Vec<(&'static str, Scheduler)> {
        let default = [SchedulerName::EvenSplit, SchedulerName::FirstCome];
        let names = if self.schedulers.is_empty() { &default[..] } else { &self.schedulers };
        let word = |name: &SchedulerName| match name {
            SchedulerName::EvenSplit => "even-split",
            SchedulerName::FirstCome => "first-come",
            SchedulerName::DominantShare => "dominant-share",
            SchedulerName::Pack => "pack",
        };
        names.iter().map(|name| (word(name), name.named())).collect()
    }

    fn strategies(&self) -> Vec<(&'static str, Strategy)> {
        let default = [StrategyName::Frugal, StrategyName::Conserve];
        let names = if self.strategies.is_empty() { &default[..] } else { &self.strategies };
        let named = |name: &StrategyName| match name {
            StrategyName::Frugal => ("frugal", Strategy::Frugal),
            StrategyName::Conserve => ("conserve", Strategy::Conserve),
        };
        names.iter().map(named).collect()
    }
}

/// The moments of several stories of the same length, added up.
fn together(stories: &[SimulationResult]) -> Vec<SimulationStep> {
    let length = stories.iter().map(|story| story.moments.len()).min().unwrap_or(0);
    let sum =
        |place: usize, part: fn(&SimulationStep) -> u32| stories.iter().map(|story| part(&story.moments[place])).sum();
    (0..length)
        .map(|place| SimulationStep {
            came: sum(place, |moment| moment.came),
            released: sum(place, |moment| moment.released),
            gave_up: sum(place, |moment| moment.gave_up),
            waiting: sum(place, |moment| moment.waiting),
            retired: sum(place, |moment| moment.retired),
        })
        .collect()
}

/// Three pictures: what was released, who waits, which blocks are used up.
pub(crate) fn picture(lived: &[Lived]) -> String {
    let lines = |part: fn(&SimulationStep) -> u32| {
        let line = |one: &Lived| Line {
            name: one.name.clone(),
            values: one.moments.iter().map(|moment| f64::from(part(moment)) / f64::from(one.seeds)).collect(),
        };
        lived.iter().map(line).collect()
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

/// The heads of the table, and its rows.
pub(crate) fn table(lived: &[Lived]) -> ([&'static str; 11], Vec<[String; 11]>) {
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
    let row = |one: &Lived| {
        let all = &one.summary;
        let time = |place: usize| all.release_time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time[place]));
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
    (heads, lived.iter().map(row).collect())
}

/// What was simulated, in a sentence.
pub(crate) fn sentence(asked: &SimulateArgs, lived: &[Lived]) -> String {
    let most = lived.iter().map(|one| one.summary.loss).max().unwrap_or(Epsilon::ZERO);
    let seeds = if asked.seeds == 1 { "1 seed".to_owned() } else { format!("{} seeds together", asked.seeds) };
    format!(
        "{} blocks of {} rows, each with a ceiling of epsilon {}, delta {}; {} pipelines a block; {seeds}. The most that a \
         block lost is {}.",
        asked.blocks,
        asked.rows,
        asked.epsilon,
        asked.delta,
        asked.rate,
        loss(most)
    )
}

fn text(asked: &SimulateArgs, lived: &[Lived]) -> String {
    let (heads, rows) = table(lived);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(heads[column].chars().count())
    };
    let line = |cells: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for column in 0..heads.len() {
            let (cell, width) = (cells(column), width(column));
            line += &if column < 2 { format!("{cell:width$}  ") } else { format!("{cell:>width$}  ") };
        }
        format!("{}\n", line.trim_end())
    };
    let mut text = format!("{}\n\n", sentence(asked, lived).replace(". ", ".\n"));
    text += &line(&|column| heads[column].to_owned());
    for row in &rows {
        text += &line(&|column| row[column].clone());
    }
    text + "\nWaiting: at the end, starved or come too late. Used up: blocks with too little left for any attempt.\n"
}

fn object(asked: &SimulateArgs, lived: &[Lived]) -> Value {
    let way = |one: &Lived| {
        let all = &one.summary;
        let series = |part: fn(&SimulationStep) -> u32| one.moments.iter().map(part).collect::<Vec<u32>>();
        let time = |place: usize| all.release_time.map(|time| time[place]);
        json!({
            "scheduler": one.scheduler,
            "strategy": one.strategy,
            "came": all.came,
            "released": all.released,
            "gave_up": all.gave_up,
            "waiting": all.waiting,
            "waited_mean": all.waited,
            "release_time": {"mean": time(0), "median": time(1), "slowest_tenth": time(2)},
            "attempts": all.attempts,
            "retired": all.retired,
            "spent_share": all.spent_share,
            "epsilon_lost": all.loss.to_string(),
            "after_each_block": {
                "released": series(|moment| moment.released),
                "waiting": series(|moment| moment.waiting),
                "retired": series(|moment| moment.retired),
            },
        })
    };
    json!({
        "blocks": asked.blocks,
        "rate": asked.rate,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "rows": asked.rows,
        "seed": asked.seed,
        "seeds": asked.seeds,
        "ways": lived.iter().map(way).collect::<Vec<_>>(),
    })
}
