//! The loop under a simulated clock: how long releases take, who starves, and when blocks are used up.
//!
//! What decides is the product's own: the kernel's gate with a filter and a log in memory, an allocation, and the
//! state machine of every pipeline. Made up are the traffic (a block at each tick, pipelines at a rate, from a seed), the
//! clock, and how a pipeline's loss falls with rows and noise ([`Need`]). There are no rows and no noise: a grant is
//! started and then burnt, which is what a charge under which nothing leaves comes to. So a simulation says how budgets
//! are shared out, and nothing about how good a model is.
//!
//! Attempts take no time, and those that the scheduler lets through together are made together.

mod dice;
mod live;
mod story;

use std::fmt;

use sage_kernel::{Ceiling, Filter, GateError, Rule};

use crate::adapt::{Mode, PlanError, Strategy};
use crate::allocate::Scheduler;

pub use live::live;
pub use story::{Moment, Release, Story, Summary};

/// The traffic of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// How many blocks come, one at each tick of the clock.
    pub blocks: u32,
    /// How many pipelines come for each block, on average.
    pub rate: f64,
    /// The ceiling of every block.
    pub ceiling: Ceiling,
    /// By which losses are counted.
    pub rule: Rule,
    /// How many rows a block has.
    pub rows: f64,
    /// What pipelines need.
    pub need: Need,
    /// After how many blocks a pipeline gives up. None: never.
    pub patience: Option<u32>,
    /// The same seed gives the same traffic.
    pub seed: u64,
}

/// How the loss of a pipeline falls. On n rows with noise of s sensitivities it is above the best by
/// d (rows + noisy_rows · s) / n of what its target allows, so its test passes once that is at most one. The difficulty
/// d is at least one, for most pipelines not much more, and for a few up to a hundred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Rows that the easiest pipeline needs where there is no noise.
    pub rows: f64,
    /// Rows that it needs beside those for each sensitivity of noise.
    pub noisy_rows: f64,
}

impl Need {
    /// Whether a pipeline of this difficulty passes its test.
    pub fn is_met(&self, difficulty: f64, rows: f64, noise: f64) -> bool {
        difficulty * (self.rows + self.noisy_rows * noise) <= rows
    }
}

/// How budgets are shared out and attempts follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who comes first.
    pub scheduler: Scheduler,
    /// What grows after an attempt that was not enough.
    pub strategy: Strategy,
    /// How much of what it may spend an attempt takes.
    pub mode: Mode,
}

impl Default for Way {
    fn default() -> Self {
        Self { scheduler: Scheduler::default(), strategy: Strategy::Frugal, mode: Mode::Conserve }
    }
}

/// The most blocks and the most pipelines, so that a simulation ends while somebody waits for it.
const MOST_BLOCKS: u32 = 2_000;
const MOST_PIPELINES: f64 = 5_000.0;

impl Scenario {
    /// A week of hourly blocks under this ceiling, with one new pipeline in three hours.
    pub const fn week(ceiling: Ceiling) -> Self {
        let need = Need { rows: 5_000.0, noisy_rows: 2_500.0 };
        Self { blocks: 168, rate: 0.3, ceiling, rule: Rule::Renyi, rows: 10_000.0, need, patience: None, seed: 1 }
    }

    /// The filter of the stream.
    fn filter(&self) -> Result<Filter, SimulationError> {
        let above = |number: f64| number.is_finite() && number > 0.0;
        let wrong = |part, allowed| Err(SimulationError::Scenario { part, allowed });
        if !(1..=MOST_BLOCKS).contains(&self.blocks) {
            return wrong("blocks", "from 1 to 2000");
        }
        if !above(self.rate) || self.rate * f64::from(self.blocks) > MOST_PIPELINES {
            return wrong("rate", "above 0, and at most 5000 pipelines in all");
        }
        let countable = self.need.rows.is_finite() && self.need.rows >= 0.0;
        if !(countable && above(self.rows) && above(self.need.noisy_rows)) {
            return wrong("rows", "a number above 0");
        }
        let filter = match self.rule {
            Rule::Fixed => None,
            rule => Filter::new(rule, self.ceiling),
        };
        filter.ok_or(SimulationError::Scenario { part: "ceiling", allowed: "one that the filter can count" })
    }
}

/// Why a simulation cannot be lived through.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimulationError {
    /// A part of the scenario is out of its range.
    Scenario {
        /// Which.
        part: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
    /// The first attempt of a pipeline is beyond its limits.
    Plan(PlanError),
    /// The gate or its log failed.
    Gate(GateError),
    /// The state machines contradict each other, or the log read back leads to another state: a bug.
    Mismatch,
}

impl fmt::Display for SimulationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario { part, allowed } => write!(out, "the scenario's {part} cannot be: allowed is {allowed}"),
            Self::Plan(error) => write!(out, "{error}"),
            Self::Gate(error) => write!(out, "{error}"),
            Self::Mismatch => out.write_str("the simulated state does not follow from its own log"),
        }
    }
}

impl std::error::Error for SimulationError {}

impl From<GateError> for SimulationError {
    fn from(error: GateError) -> Self {
        Self::Gate(error)
    }
}
