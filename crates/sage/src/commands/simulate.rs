//! `sage simulate`: the training loop under a simulated clock, for choosing a policy, a scheduler and a strategy.
//!
//! No directory is opened and no row is read. The page of the server shows the same.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sage_engine::Rule;
use sage_server::diagnostics::note;
use sage_server::plot;
use sage_server::views::simulation::{
    self, Outcome, Simulation, SimulationRequest, picture, sentence, simulate, table,
};

use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage simulate
  sage simulate --rate 0.7 --seeds 8
  sage simulate --blocks 365 --rate 2 --epsilon 4 --patience 60 --svg year.svg
  sage simulate --scheduler even-split --scheduler first-come --strategy frugal --json

Ledger, scheduler and adaptation are those of the product. The traffic is synthetic: a block at each step of
the clock, pipelines at a rate, and how a pipeline's loss falls: on n rows with noise of s sensitivities it passes
once n is at least its difficulty times (need-rows + noise-rows * s). Most are easy, a few a hundred times harder.";

/// Schedulers by their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchedulerName {
    /// Every waiting pipeline gets the same share of each block (the default of sage serve)
    #[default]
    EvenSplit,
    /// The pipeline that came first
    FirstCome,
    /// The pipeline that requests the smallest share of a block
    DominantShare,
    /// The pipeline that requests least in all
    Pack,
}

impl From<SchedulerName> for simulation::SchedulerName {
    fn from(name: SchedulerName) -> Self {
        match name {
            SchedulerName::EvenSplit => Self::EvenSplit,
            SchedulerName::FirstCome => Self::FirstCome,
            SchedulerName::DominantShare => Self::DominantShare,
            SchedulerName::Pack => Self::Pack,
        }
    }
}

/// Strategies by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StrategyName {
    /// What a forecast recommends (the default of pipelines)
    Informed,
    /// Data before budget
    Frugal,
    /// Budget before data
    Conserve,
}

/// Filters by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FilterName {
    Renyi,
    Strong,
    Basic,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SimulateArgs {
    /// The number of blocks, one per step of the clock
    #[arg(long, value_name = "NUMBER", default_value = "168")]
    blocks: u32,
    /// The mean number of new pipelines per block
    #[arg(long, value_name = "NUMBER", default_value = "0.3")]
    rate: f64,
    /// The epsilon ceiling of each block
    #[arg(long, value_name = "EPSILON", default_value = "1")]
    epsilon: String,
    /// The delta of the ceiling
    #[arg(long, value_name = "DELTA", default_value = "1e-6")]
    delta: String,
    /// The filter that counts losses
    #[arg(long, value_name = "FILTER", default_value = "renyi")]
    filter: FilterName,
    /// The rows per block
    #[arg(long, value_name = "NUMBER", default_value = "10000")]
    rows: f64,
    /// Rows that the easiest pipeline needs without noise
    #[arg(long, value_name = "NUMBER", default_value = "5000")]
    need_rows: f64,
    /// Rows that it needs in addition for each sensitivity of noise
    #[arg(long, value_name = "NUMBER", default_value = "2500")]
    noise_rows: f64,
    /// After how many blocks a pipeline gives up [default: never]
    #[arg(long, value_name = "NUMBER")]
    patience: Option<u32>,
    /// The scheduler; can be repeated [default: even-split and first-come]
    #[arg(long = "scheduler", value_name = "NAME")]
    schedulers: Vec<SchedulerName>,
    /// What grows after an inconclusive attempt; can be repeated [default: informed and frugal]
    #[arg(long = "strategy", value_name = "NAME")]
    strategies: Vec<StrategyName>,
    /// The first seed: the same seed gives the same traffic
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// How many seeds are simulated and added up
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seeds: u32,
    /// Write the plots to this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let request = args.request();
    let outcomes = simulate(&request)
        .map_err(|error| Failure::usage(error.to_string(), "sage simulate --blocks 168 --rate 0.3 --epsilon 1"))?;
    if let Some(file) = &args.svg {
        std::fs::write(file, plot::file(&picture(&outcomes))).map_err(|error| {
            let message = format!("--svg: {} cannot be written: {error}", file.display());
            Failure::no_answer(message, "name a file in a folder that exists")
        })?;
        note(&format!("plots: {}", file.display()));
    }
    if args.json { print_json(&Simulation::new(&request, &outcomes)) } else { print(&text(&request, &outcomes)) }
}

impl SimulateArgs {
    fn request(&self) -> SimulationRequest {
        let strategy = |name: &StrategyName| match name {
            StrategyName::Frugal => simulation::StrategyName::Frugal,
            StrategyName::Conserve => simulation::StrategyName::Conserve,
            StrategyName::Informed => simulation::StrategyName::Informed,
        };
        SimulationRequest {
            blocks: self.blocks,
            rate: self.rate,
            epsilon: self.epsilon.clone(),
            delta: self.delta.clone(),
            filter: match self.filter {
                FilterName::Renyi => Rule::Renyi,
                FilterName::Strong => Rule::Strong,
                FilterName::Basic => Rule::Basic,
            },
            rows: self.rows,
            need_rows: self.need_rows,
            noise_rows: self.noise_rows,
            patience: self.patience,
            schedulers: self.schedulers.iter().map(|name| (*name).into()).collect(),
            strategies: self.strategies.iter().map(strategy).collect(),
            seed: self.seed,
            seeds: self.seeds,
        }
    }
}

fn text(request: &SimulationRequest, outcomes: &[Outcome]) -> String {
    let (headings, rows) = table(outcomes);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(headings[column].chars().count())
    };
    let line = |cells: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for column in 0..headings.len() {
            let (cell, width) = (cells(column), width(column));
            line += &if column < 2 { format!("{cell:width$}  ") } else { format!("{cell:>width$}  ") };
        }
        format!("{}\n", line.trim_end())
    };
    let mut text = format!("{}\n\n", sentence(request, outcomes).replace(". ", ".\n"));
    text += &line(&|column| headings[column].to_owned());
    for row in &rows {
        text += &line(&|column| row[column].clone());
    }
    text + "\nWaiting: at the end, starved or come too late. Used up: blocks with too little left for any attempt.\n"
}
