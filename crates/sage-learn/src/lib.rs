//! What stands between the trusted kernel and the engine, and cannot leak when wrong.
//!
//! Nothing here charges, draws noise or keeps a row: whatever it says, the kernel prices a request again
//! before it reads, and shows rows only to functions that its session calls. A mistake costs budget or
//! accuracy, never privacy.
//!
//! - [`count`]: a running count from noisy sums;
//! - [`encode`]: rows as learners read them;
//! - [`plan`]: noise from a target, comparisons with other composition theorems, and quantiles;
//! - [`validate`]: whether a model meets its target.

#![forbid(unsafe_code)]

pub mod count;
pub mod encode;
pub mod plan;
pub mod validate;
