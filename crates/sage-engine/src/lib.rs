//! The engine of Sage: what stands between the trusted kernel and the people who use it.
//!
//! Front ends (the command line, later the server and its pages) name items of this crate alone. Those of
//! the kernel's nouns that a front end needs pass through here unchanged; what the engine adds are stages
//! that decide no privacy question themselves:
//!
//! - [`account`]: what a list of mechanisms costs, by several routes, and how much noise meets a target;
//! - [`log`]: the log on disk, its single owner, the desk where many threads charge, exported heads;
//! - [`simulate`]: a stream on a log in memory, for demonstrations, with neither rows nor noise.
//!
//! Nothing here draws noise or reads a row, and nothing can make a charge smaller: only the kernel's gate
//! charges. Results are plain structs in the user's words.

pub mod account;
pub mod blocks;
pub mod log;
mod orders;
pub mod simulate;

pub use sage_kernel::{
    Answer, BlockId, Blocks, BlocksError, Ceiling, Component, ContextId, Cost, CostError, Delta, Doors, Epsilon,
    Filter, Gate, GateError, Lane, Ledger, Log, Mechanism, MemoryLog, NumberError, Policy, Rate, Refusal, Rule,
    Shortfall, Sigma, StreamId,
};

/// Certified formulas, the kernel's and those for planning, for front ends that plan and never charge.
pub mod accountant {
    pub use sage_kernel::accountant::{
        AccountantError, Certified, Composition, Loss, ORDERS, conversion, epsilon_from_curve, epsilon_from_zcdp,
        gaussian_delta, gaussian_epsilon,
    };
    pub use sage_learn::plan::{
        Comparison, DENSE_ORDERS, Statement, calibrate_sampled_gaussian, calibrate_sigma, gaussian_sigma,
        optimal_epsilon, sampled_gaussian_epsilon,
    };
}
