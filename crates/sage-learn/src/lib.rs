//! What stands between the trusted kernel and the engine, and cannot leak when wrong.
//!
//! Nothing here charges, draws noise or keeps a row: whatever it says, the kernel prices a request again
//! before it reads, and shows rows only to functions that its session calls. A mistake costs budget or
//! accuracy, never privacy.
//!
//! - [`bundle`]: a trained model with its features as files that others can run;
//! - [`count`]: a running count from noisy sums;
//! - [`encode`]: rows as learners read them;
//! - [`formula`]: per-row features that can be computed here and written into a graph;
//! - [`plan`]: noise from a target, comparisons with other composition theorems, and quantiles;
//! - [`validate`]: whether a model meets its target.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod count;
pub mod encode;
pub mod formula;
pub mod plan;
pub mod validate;
