//! Learners, validators, statistics and noise planning: the machine learning between the trusted kernel and the engine.
//!
//! Nothing here charges, draws noise or reads a file. Rows are seen only by closures that the kernel calls, and by the
//! encoding that runs before a session holds them. The kernel prices every request again before it reads, so a mistake
//! costs budget or accuracy, never privacy.
//!
//! - [`audit`]: attacks on the learners, and the lower bound of the privacy loss that follows;
//! - [`count`]: a running count from noisy sums;
//! - [`encode`]: from the columns of a row to the inputs of a learner;
//! - [`forecast`]: how likely the next attempt is to be accepted;
//! - [`linear`]: linear regression from noisy moments;
//! - [`network`]: logistic regression and multilayer networks;
//! - [`plan`]: noise for a target, other composition theorems, quantiles of noise;
//! - [`statistics`]: counts, means, groups and quantiles, with confidence intervals;
//! - [`validate`]: whether a model meets its target.

#![forbid(unsafe_code)]

pub mod audit;
pub mod count;
pub mod encode;
mod estimate;
pub mod forecast;
pub mod linear;
pub mod network;
pub mod plan;
pub mod statistics;
pub mod validate;
