//! What stands between the trusted kernel and the engine, and cannot leak when wrong.
//!
//! Nothing here charges a stream, draws noise or reads a row: whatever it says, the kernel prices a request
//! again before it reads. A mistake costs budget or accuracy, never privacy.
//!
//! - [`audit`]: attacks on the learners, and what their success says;
//! - [`count`]: a running count from noisy sums;
//! - [`encode`]: rows as learners read them;
//! - [`network`]: logistic regression and multilayer networks;
//! - [`plan`]: noise from a target, comparisons with other composition theorems, and quantiles.

#![forbid(unsafe_code)]

pub mod audit;
pub mod count;
pub mod encode;
pub mod network;
pub mod plan;
