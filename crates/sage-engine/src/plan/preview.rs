//! What would happen to a pipeline if it were submitted now. It costs nothing to look.

use sage_kernel::Epsilon;

/// What would happen first, and at worst.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// The pipeline.
    pub pipeline: String,
    /// The stream.
    pub stream: String,
    /// How many blocks the first attempt reads.
    pub window: u32,
    /// How many sealed blocks still admit it.
    pub eligible: u32,
    /// The ε that the first attempt by itself comes to, on the lane where it costs more, at δ_g.
    pub first: Epsilon,
    /// The same for the costliest attempt that the limits allow.
    pub most: Epsilon,
    /// How many more first attempts the blocks of the first window admit.
    pub runs_left: u64,
}
