//! The events of an allocation, and why one is rejected.
//!
//! An event is a plain value: all rules are in [`Allocation`](super::Allocation).

use std::fmt;

use sage_kernel::{BlockId, Blocks};

use super::Resources;

/// A pipeline. Later arrivals have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipelineId(pub u64);

/// An event of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block arrived; it gets the next number.
    Block {
        /// Its budget.
        capacity: Resources,
    },
    /// Pipelines arrived, all at once.
    Arrive {
        /// In increasing order; each number is larger than all earlier ones.
        pipelines: Vec<PipelineId>,
    },
    /// A pipeline requests to spend. It has at most one request; a new one replaces it.
    Request {
        /// The pipeline.
        pipeline: PipelineId,
        /// The blocks.
        blocks: Blocks,
        /// The cost on each block.
        cost: Resources,
    },
    /// A pipeline withdraws its request, or the ledger refused it.
    Withdraw {
        /// The pipeline.
        pipeline: PipelineId,
    },
    /// The cost of a pipeline's next attempt on each block; `None` if it does not wait for one.
    Need {
        /// The pipeline.
        pipeline: PipelineId,
        /// The cost on each block.
        cost: Option<Resources>,
    },
    /// A pipeline reads only these of the present blocks; `None` if none of its blocks has arrived yet.
    Restrict {
        /// The pipeline.
        pipeline: PipelineId,
        /// The blocks.
        blocks: Option<Blocks>,
    },
    /// The ledger charged a pipeline, within its allocation.
    Spend {
        /// The pipeline.
        pipeline: PipelineId,
        /// The blocks.
        blocks: Blocks,
        /// The cost on each block.
        cost: Resources,
    },
    /// The ledger charged a pipeline beyond its reservation, as a loan. It is always accepted, because the charge
    /// exists.
    Borrow {
        /// The pipeline.
        pipeline: PipelineId,
        /// The blocks.
        blocks: Blocks,
        /// The cost on each block.
        cost: Resources,
    },
    /// Part of a charge is returned, because it was for steps that were not performed.
    Refund {
        /// The pipeline.
        pipeline: PipelineId,
        /// The blocks.
        blocks: Blocks,
        /// The refund on each block.
        cost: Resources,
    },
    /// A pipeline ended, for whatever reason.
    Leave {
        /// The pipeline.
        pipeline: PipelineId,
    },
    /// A block was retired: it can never be read again.
    Retire {
        /// The block.
        block: BlockId,
    },
    /// Time passed.
    AdvanceClock {
        /// The time, in the unit of [`Unlock::OverTime`](super::Unlock::OverTime).
        time: u64,
    },
}

/// Why an event was rejected. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No such pipeline waits.
    NotWaiting(PipelineId),
    /// The number of an arriving pipeline is not larger than all earlier ones.
    OutOfOrder(PipelineId),
    /// There is no such block.
    NoBlock(BlockId),
    /// The block is retired.
    Retired(BlockId),
    /// The pipeline may not spend that much on this block now.
    NotAllowed(BlockId),
    /// The refund exceeds what was used on this block.
    NotUsed(BlockId),
    /// The number of blocks is at its maximum.
    TooManyBlocks,
    /// Time went backwards.
    Backwards,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWaiting(PipelineId(id)) => write!(out, "no pipeline {id} waits"),
            Self::OutOfOrder(PipelineId(id)) => {
                write!(out, "pipeline {id} has a number that is not the greatest so far")
            }
            Self::NoBlock(BlockId(id)) => write!(out, "there is no block {id}"),
            Self::Retired(BlockId(id)) => write!(out, "block {id} is retired"),
            Self::NotAllowed(BlockId(id)) => write!(out, "not as much may be spent on block {id} now"),
            Self::NotUsed(BlockId(id)) => write!(out, "less than that was used on block {id}"),
            Self::TooManyBlocks => out.write_str("there are as many blocks as there can be"),
            Self::Backwards => out.write_str("time went backwards"),
        }
    }
}

impl std::error::Error for Refused {}
