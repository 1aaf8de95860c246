//! The terms of a run: the cost of its first attempt and its limits, in integer units.
//!
//! They are computed once, at submission, and recorded, so that a later release of the program or a changed policy does
//! not change the order of attempts.

use sage_kernel::{Delta, Filter, Lane, Rule};
use serde::{Deserialize, Serialize};

use super::price::Prices;
use super::refusal::PlanRefusal;
use crate::adapt::{self, Strategy, Units};
use crate::allocate::Resources;
use crate::pipeline::{Extent, Pipeline};
use crate::scheduler::has_forecast;
use crate::stream::StreamFile;

/// The recorded terms of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The cost of the first attempt per block.
    pub first_cost: u64,
    /// The number of blocks that it reads.
    pub first_window: u32,
    /// The maximum cost of an attempt per block.
    pub most_cost: u64,
    /// The maximum number of blocks that an attempt reads.
    pub most_window: u32,
    /// The unit of cost.
    pub units: Units,
    /// The δ of each attempt, in the kernel's units.
    pub delta: u64,
}

/// The default cost of a first attempt: one part in this number of a block's budget.
const FIRST_SHARE: u64 = 64;
/// The same for the informed strategy, where it is the least cost of all attempts: many rows with much noise each cost
/// less than few rows with little noise.
const INFORMED_SHARE: u64 = 1024;
/// The default δ of an attempt: one part in this number of δ_g.
pub(super) const DELTA_SHARE: u64 = 1000;
/// Larger than any window.
const ALL_BLOCKS: u32 = 1 << 30;

impl Terms {
    /// The terms of a pipeline on a stream, under the filter of the paying context.
    ///
    /// # Errors
    /// When the window cannot be converted to blocks of this stream, or the first attempt exceeds the limits.
    pub fn new(pipeline: &Pipeline, file: &StreamFile, filter: &Filter) -> Result<Self, PlanRefusal> {
        let budget = &pipeline.budget;
        let share = Delta::from_units(filter.ceiling().delta.units() / DELTA_SHARE).unwrap_or(Delta::ZERO);
        let delta = budget.delta.unwrap_or(share);
        let prices = Prices { filter, delta };
        let fixed = || PlanRefusal::part("stream", "a fixed stream charges only declared mechanisms");
        let capacity = Resources::of_block(filter).ok_or_else(fixed)?.loss(Lane::Train);
        let most_cost = match budget.epsilon_max {
            Some(epsilon) => prices.loss_units(epsilon)?.min(capacity),
            None => capacity,
        };
        let first_cost = match budget.epsilon0 {
            Some(epsilon) => prices.loss_units(epsilon)?,
            None => (capacity / first_share(pipeline)).clamp(1, most_cost),
        };
        if first_cost > most_cost {
            let why = "epsilon0 is more than a block of this stream has, or more than epsilon_max";
            return Err(PlanRefusal::part("budget", why));
        }
        let most_window = match pipeline.window.max {
            Some(extent) => window_blocks(extent, "window.max", file)?,
            None => ALL_BLOCKS,
        };
        let units = if filter.rule() == Rule::Basic { Units::Epsilon } else { Units::Share };
        let first_window = window_blocks(pipeline.window.min, "window.min", file)?;
        let terms = Self { first_cost, first_window, most_cost, most_window, units, delta: delta.units() };
        terms.plan(pipeline, 0)?;
        Ok(terms)
    }

    /// The adaptation plan of a run submitted at this time, in milliseconds.
    ///
    /// # Errors
    /// When the first attempt exceeds the limits.
    pub fn plan(&self, pipeline: &Pipeline, submitted: u64) -> Result<adapt::Plan, PlanRefusal> {
        let (first, most) = ((self.first_cost, self.first_window), (self.most_cost, self.most_window));
        pipeline.adaptation.plan(first, most, self.units, submitted).map_err(PlanRefusal::Limits)
    }

    /// The δ of each attempt.
    pub fn delta(&self) -> Delta {
        Delta::from_units(self.delta).unwrap_or(Delta::ZERO)
    }
}

/// The divisor of a block's budget that gives the first cost. Without a forecast a search doubles, so it does not start
/// at the least cost: a pipeline without a target ends with its first attempt, and nothing is known in advance about
/// variances and quantiles.
fn first_share(pipeline: &Pipeline) -> u64 {
    let is_informed = matches!(pipeline.adaptation.strategy, Strategy::Informed);
    if is_informed && has_forecast(pipeline) { INFORMED_SHARE } else { FIRST_SHARE }
}

/// The number of blocks in a window.
fn window_blocks(extent: Extent, part: &str, file: &StreamFile) -> Result<u32, PlanRefusal> {
    let length = match extent {
        Extent::Blocks(blocks) => return Ok(blocks),
        Extent::Time(length) => length,
    };
    let whole = file.blocks.time.filter(|_| file.blocks.levels() == 1);
    let Some(width) = whole else {
        let why = "it must be a number of blocks, because the blocks of this stream are not by time only";
        return Err(PlanRefusal::part(part, why));
    };
    let blocks = length.microseconds().unsigned_abs().div_ceil(width.microseconds().unsigned_abs());
    u32::try_from(blocks).map_err(|_| PlanRefusal::part(part, "it is too long; choose a shorter time"))
}
