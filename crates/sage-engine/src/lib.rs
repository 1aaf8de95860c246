//! The engine of Sage: the layer between the trusted kernel and the front ends.
//!
//! Front ends (the command line, the server and its pages) use items of this crate only. It re-exports the kernel types
//! that a front end needs. Its own modules make no privacy decision:
//!
//! - [`pipeline`]: the pipeline file as data;
//! - [`learners`]: what `kind` in `[train]` can select, and how another crate adds one;
//! - [`plan`]: a pipeline checked against its stream, and the cost of its attempts;
//! - [`allocate`]: how much of each block's budget each pipeline may spend;
//! - [`adapt`]: the next attempt of a pipeline after one that was not enough;
//! - [`account`]: the privacy loss of a list of mechanisms by several methods, and noise calibration;
//! - [`audit`]: empirical attacks on the learners with synthetic rows;
//! - [`backup`]: online backups of a directory, and their restoration behind a rollback fence;
//! - [`generate`]: synthetic streams of any size, for demonstrations and tests;
//! - [`query`]: private SQL, checked against its stream before anything is charged;
//! - [`read`]: per-row SQL over the blocks that a permit covers, into a session of the kernel;
//! - [`serve`]: rows of prediction requests, converted to the inputs of a released model;
//! - [`log`]: the log on disk, its single owner, group commit, exported heads;
//! - [`verify`]: verification of the hash chain, the exported heads and the files, while a server runs;
//! - [`simulate`]: the adaptive loop under a simulated clock, without rows and without noise.
//!
//! Nothing here draws noise, only [`read`] sees rows, and nothing can reduce a charge: only the kernel's gate charges.
//! Results are plain structs in the user's terms.

pub mod account;
mod api;
pub mod audit;
pub mod backup;
mod catalog;
pub mod doctor;
pub mod generate;
pub mod learners;
pub mod metrics;
mod orders;
pub mod pipeline;
pub mod plan;
pub mod query;
pub mod read;
pub mod release;
pub mod run;
mod scheduler;
pub mod serve;
pub mod simulate;
pub mod verify;
mod worker;

pub use scheduler::{Hint, THOUSANDTHS, Waiting, adapt, allocate};
pub use worker::{ChargeRequest, Granted, Job, ProgressView};

pub use sage_store::threads::{set_threads, threads};
pub use sage_store::{blocks, ingest, log, private, stream, suggest};
pub(crate) use sage_store::{document, quiet};

pub use api::{
    AttemptLimits, AttemptOutcome, AttemptView, BlockView, CensusView, EVENT_KINDS, Engine, EngineError, EngineOptions,
    EventView, IngestOutcome, LaneView, Opened, PolicyOutcome, Principal, ProposalView, QuarantineView, QueryCost,
    QueryPlan, QueryRequest, QueryResult, RangeCount, ReleaseView, RollbackFence, RunView, Shown, Snapshot, State,
    Stopped, StreamView, UnitCount,
};
pub use query::{BlockSelection, Spend};
pub use sage_kernel::{
    AccessMode, AccessModes, BlockId, Blocks, BlocksError, Ceiling, ChargeOutcome, Component, ContextId, Cost,
    CostError, Delta, Epsilon, Filter, FinishedSession, Gate, GateError, GrantId, GrantState, Head, Lane, Ledger, Log,
    Mechanism, MemoryLog, NumberError, Policy, Rate, Refusal, Rule, Session, Shortfall, Sigma, StreamId, TableNoise,
};

/// Call this first in `main`. The executable starts itself again as the sandbox of a user's program; in that process
/// this function does not return.
pub use sage_sandbox::enter_if_requested as enter_sandbox_if_requested;

/// Certified accounting formulas of the kernel and of `sage-learn`, for front ends that plan and never charge.
pub mod accountant {
    pub use sage_kernel::accountant::{
        AccountantError, Certified, Composition, Loss, ORDERS, conversion, epsilon_from_curve, gaussian_delta,
        gaussian_epsilon,
    };
    pub use sage_learn::plan::{
        Comparison, DENSE_ORDERS, Statement, calibrate_sampled_gaussian, calibrate_sigma, epsilon_from_zcdp,
        gaussian_sigma, optimal_epsilon, sampled_gaussian_epsilon,
    };
}
