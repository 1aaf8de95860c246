//! The engine of Sage: what stands between the trusted kernel and the people who use it.
//!
//! Front ends (the command line, later the server and its pages) name items of this crate alone. Those of
//! the kernel's nouns that a front end needs pass through here unchanged; what the engine adds are stages
//! that decide no privacy question themselves:
//!
//! - [`pipeline`]: what the file of a pipeline says;
//! - [`learners`]: what `kind` in `[train]` can select, and how another crate adds one;
//! - [`plan`]: a pipeline held against its stream, and what an attempt of it will be charged;
//! - [`allocate`]: which pipeline may spend how much of which block;
//! - [`adapt`]: what a pipeline tries next after an attempt that was not enough;
//! - [`account`]: what a list of mechanisms costs, by several routes, and how much noise meets a target;
//! - [`audit`]: attacks on the learners with made-up rows, and what their success says;
//! - [`backup`]: a directory copied while it is used, and made again from the copy behind a fence;
//! - [`generate`]: made-up streams of any size, for demonstrations and tests;
//! - [`query`]: private SQL, held against its stream before anything is charged;
//! - [`read`]: per-row SQL over the blocks of a permit, into the kernel's session;
//! - [`serve`]: rows of those who ask a released model, turned into what it takes;
//! - [`log`]: the log on disk, its single owner, group commit, exported heads;
//! - [`verify`]: chain, heads and files held against each other while a server goes on;
//! - [`simulate`]: the loop under a simulated clock, with neither rows nor noise.
//!
//! Nothing here draws noise, only [`read`] sees rows, and nothing can make a charge smaller: only the
//! kernel's gate charges. Results are plain structs in the user's words.

pub mod account;
mod api;
pub mod audit;
pub mod backup;
mod catalog;
pub mod doctor;
pub mod generate;
pub mod learners;
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
    AttemptLimits, AttemptOutcome, AttemptView, BlockView, CensusView, EVENT_KINDS, Engine, EngineError, EventView,
    IngestOutcome, LaneView, Opened, Places, PolicyOutcome, Principal, ProposalView, QuarantineView, QueryCost,
    QueryPlan, QueryRequest, QueryResult, RangeCount, ReleaseView, RollbackFence, RunView, Shown, Snapshot, State,
    Stopped, StreamView, UnitCount,
};
pub use blocks::{KeyError, MasterKeySource};
pub use query::{Spend, Which};
pub use sage_kernel::{
    AccessMode, AccessModes, BlockId, Blocks, BlocksError, Ceiling, ChargeOutcome, Component, ContextId, Cost,
    CostError, Delta, Epsilon, Filter, FinishedSession, Gate, GateError, GrantId, GrantState, Head, Lane, Ledger, Log,
    Mechanism, MemoryLog, NumberError, Policy, Rate, Refusal, Rule, Session, Shortfall, Sigma, StreamId, TableNoise,
};

/// To be called first thing in `main`: the program is started anew as the box of a pipeline's program, and this is
/// where it finds out.
pub use sage_sandbox::enter_if_requested as enter_sandbox_if_requested;

/// Certified formulas, the kernel's and those for planning, for front ends that plan and never charge.
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
