//! A preview of a submission. It costs nothing.

use sage_kernel::Epsilon;

/// The first and the most expensive attempt of a pipeline, if it were submitted now.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// The pipeline.
    pub pipeline: String,
    /// The stream.
    pub stream: String,
    /// The number of blocks that the first attempt reads.
    pub window: u32,
    /// The number of sealed blocks that still admit it.
    pub eligible: u32,
    /// The ε of the first attempt alone at δ_g, on the more expensive lane.
    pub first: Epsilon,
    /// The same for the most expensive attempt within the limits.
    pub most: Epsilon,
    /// How many more such attempts the blocks of the first window admit.
    pub runs_left: u64,
    /// How many blocks are likely to be enough at several costs, cheapest first; empty if nothing is known about the
    /// rows yet.
    pub forecast: Vec<ForecastLine>,
    /// What to know before submitting it, such as a target that a constant prediction meets.
    pub warnings: Vec<String>,
}

/// How many blocks are likely to be enough at a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastLine {
    /// The ε of the attempt alone at δ_g, on the more expensive lane.
    pub epsilon: Epsilon,
    /// The number of blocks; `None` if no number within the limits is likely to be enough.
    pub blocks: Option<u32>,
}
