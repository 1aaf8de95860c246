//! The terms on which a pipeline was taken: what its first attempt costs and how far it may go, in whole units.
//!
//! They are worked out once, when the pipeline is submitted, and written down, so that a later release of the
//! program, or another policy, does not change how its attempts follow each other.

use sage_kernel::{Delta, Filter, Lane, Rule};
use serde::{Deserialize, Serialize};

use super::price::Prices;
use super::refusal::PlanRefusal;
use crate::adapt::{self, Units};
use crate::allocate::Resources;
use crate::pipeline::{Extent, Pipeline};
use crate::stream::StreamFile;

/// The terms of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// What the first attempt costs each block.
    pub first_cost: u64,
    /// How many blocks it reads.
    pub first_window: u32,
    /// What any attempt costs at most.
    pub most_cost: u64,
    /// How many blocks it reads at most.
    pub most_window: u32,
    /// What one unit of cost is.
    pub units: Units,
    /// The δ of each attempt, in the kernel's units.
    pub delta: u64,
}

/// The part of a block's budget that a first attempt takes where the file says nothing.
const FIRST_SHARE: u64 = 64;
/// The part of δ_g that an attempt takes where the file says nothing.
pub(super) const DELTA_SHARE: u64 = 1000;
/// More blocks than any window has.
const ALL_BLOCKS: u32 = 1 << 30;

impl Terms {
    /// The terms of a pipeline on a stream, under the filter of the context that pays.
    ///
    /// # Errors
    /// When the window is no number of blocks of this stream, or the first attempt is beyond the limits.
    pub fn new(pipeline: &Pipeline, file: &StreamFile, filter: &Filter) -> Result<Self, PlanRefusal> {
        let budget = &pipeline.budget;
        let share = Delta::from_units(filter.ceiling().delta.units() / DELTA_SHARE).unwrap_or(Delta::ZERO);
        let delta = budget.delta.unwrap_or(share);
        let prices = Prices { filter, delta };
        let fixed = || PlanRefusal::part("stream", "a fixed stream charges only what was declared");
        let capacity = Resources::of_block(filter).ok_or_else(fixed)?.loss(Lane::Train);
        let most_cost = match budget.epsilon_max {
            Some(epsilon) => prices.units(epsilon)?.min(capacity),
            None => capacity,
        };
        let first_cost = match budget.epsilon0 {
            Some(epsilon) => prices.units(epsilon)?,
            None => (capacity / FIRST_SHARE).clamp(1, most_cost),
        };
        if first_cost > most_cost {
            let why = "epsilon0 is more than a block of this stream has, or more than epsilon_max";
            return Err(PlanRefusal::part("budget", why));
        }
        let most_window = match pipeline.window.max {
            Some(extent) => blocks(extent, "window.max", file)?,
            None => ALL_BLOCKS,
        };
        let units = if filter.rule() == Rule::Basic { Units::Epsilon } else { Units::Share };
        let first_window = blocks(pipeline.window.min, "window.min", file)?;
        let terms = Self { first_cost, first_window, most_cost, most_window, units, delta: delta.units() };
        terms.plan(pipeline, 0)?;
        Ok(terms)
    }

    /// How attempts follow each other, if the pipeline was submitted at this time, in milliseconds.
    ///
    /// # Errors
    /// When the first attempt is beyond the limits.
    pub fn plan(&self, pipeline: &Pipeline, submitted: u64) -> Result<adapt::Plan, PlanRefusal> {
        let (first, most) = ((self.first_cost, self.first_window), (self.most_cost, self.most_window));
        pipeline.adaptation.plan(first, most, self.units, submitted).map_err(PlanRefusal::Limits)
    }

    /// The δ of each attempt.
    pub fn delta(&self) -> Delta {
        Delta::from_units(self.delta).unwrap_or(Delta::ZERO)
    }
}

/// How many blocks so long a window has.
fn blocks(extent: Extent, part: &str, file: &StreamFile) -> Result<u32, PlanRefusal> {
    let length = match extent {
        Extent::Blocks(blocks) => return Ok(blocks),
        Extent::Time(length) => length,
    };
    let whole = file.blocks.time.filter(|_| file.blocks.levels() == 1);
    let Some(width) = whole else {
        let why = "a number of blocks: those of this stream are not blocks of time alone";
        return Err(PlanRefusal::part(part, why));
    };
    let blocks = length.microseconds().unsigned_abs().div_ceil(width.microseconds().unsigned_abs());
    u32::try_from(blocks).map_err(|_| PlanRefusal::part(part, "a shorter time"))
}
