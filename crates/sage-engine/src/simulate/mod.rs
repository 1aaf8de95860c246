//! The adaptive loop under a simulated clock: time to release, starvation, and budget use.
//!
//! All decisions are made by the product's own code: the kernel's gate with a filter and a log in memory, an
//! allocation, and the state machine of every pipeline. Simulated are the traffic (a block at each step, pipelines at a
//! rate, from a seed), the clock, and how a pipeline's loss falls with rows and noise ([`Need`]). There are no rows and
//! no noise: a grant is started and then burnt, like a charge without a release. So a simulation shows how budgets are
//! shared, and nothing about the quality of models.
//!
//! Attempts take no time, and attempts that are scheduled together are made together.

mod dice;
mod forecast;
mod live;
mod result;

use sage_kernel::{Ceiling, Filter, GateError, Rule};

use crate::adapt::{Mode, PlanError, Strategy};
use crate::allocate::Scheduler;

pub use live::run_simulation;
pub use result::{Release, SimulationResult, SimulationStep, Summary};

/// The traffic of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// The number of blocks, one per step of the clock.
    pub blocks: u32,
    /// The average number of new pipelines per block.
    pub rate: f64,
    /// The ceiling of every block.
    pub ceiling: Ceiling,
    /// The composition rule of the filter.
    pub rule: Rule,
    /// The number of rows per block.
    pub rows: f64,
    /// How the loss of pipelines falls with rows and noise.
    pub need: Need,
    /// The number of blocks after which a pipeline gives up; `None` for never.
    pub patience: Option<u32>,
    /// The seed of the traffic.
    pub seed: u64,
}

/// How the loss of a pipeline falls with rows and noise. On n rows with noise of s sensitivities, the excess loss is
/// d (rows + noisy_rows · s) / n of what its target allows, so its validation passes once that is at most one. The
/// difficulty d is at least 1, small for most pipelines, and up to 100 for a few.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// The rows that the easiest pipeline needs without noise.
    pub rows: f64,
    /// The additional rows per sensitivity of noise.
    pub noisy_rows: f64,
}

impl Need {
    /// Whether a pipeline of this difficulty passes its validation.
    pub fn is_met(&self, difficulty: f64, rows: f64, noise: f64) -> bool {
        difficulty * (self.rows + self.noisy_rows * noise) <= rows
    }
}

/// How budgets are shared and how attempts follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingPolicy {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Whether more data or more budget comes first after an attempt that was not enough.
    pub strategy: Strategy,
    /// How much of its allocation an attempt uses.
    pub mode: Mode,
}

impl Default for SchedulingPolicy {
    fn default() -> Self {
        Self { scheduler: Scheduler::default(), strategy: Strategy::Informed, mode: Mode::Conserve }
    }
}

/// The maximum numbers of blocks and pipelines, which bound the running time.
const MOST_BLOCKS: u32 = 2_000;
const MOST_PIPELINES: f64 = 5_000.0;

impl Scenario {
    /// A week of hourly blocks under this ceiling, with one new pipeline every three hours.
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

/// Why a simulation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A parameter of the scenario is out of range.
    #[error("the scenario's {part} is out of range; allowed: {allowed}")]
    Scenario {
        /// The parameter.
        part: &'static str,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The first attempt of a pipeline exceeds its limits.
    #[error(transparent)]
    Plan(PlanError),
    /// The gate or its log failed.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The state machines contradict each other, or replaying the log gives another state: a bug.
    #[error("the simulated state does not follow from its own log; this is a bug")]
    Mismatch,
}
