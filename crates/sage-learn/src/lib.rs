//! What stands between the trusted kernel and the engine, and cannot leak when wrong.
//!
//! Nothing here charges, draws noise or reads a file; rows are seen only by functions that the kernel calls on
//! them, and by the reader that encodes them before a session holds them. Whatever it says, the kernel prices
//! a request again before it reads. A mistake costs budget or accuracy, never privacy.
//!
//! - [`audit`]: attacks on the learners, and what their success says;
//! - [`count`]: a running count from noisy sums;
//! - [`encode`]: rows as learners read them;
//! - [`linear`]: linear regression from noisy moments;
//! - [`network`]: logistic regression and multilayer networks;
//! - [`plan`]: noise from a target, comparisons with other composition theorems, and quantiles;
//! - [`statistics`]: counts, means, groups and quantiles, with how far they may be off;
//! - [`validate`]: whether a model meets its target.

#![forbid(unsafe_code)]

pub mod audit;
pub mod count;
pub mod encode;
mod estimate;
pub mod linear;
pub mod network;
pub mod plan;
pub mod statistics;
pub mod validate;
