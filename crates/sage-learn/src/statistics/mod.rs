//! Statistics from the kernel's tables: counts, sums, means, variances, histograms, groups, quantiles.
//!
//! Each has the mechanisms that a lane is charged, a run on a session, and a confidence interval for the result at a
//! level given in advance. All noise is the kernel's, and everything after it is arithmetic on released numbers.

mod group;
mod interval;
mod join;
mod number;
mod quantile;
mod target;

pub use crate::estimate::Estimate;
pub use group::{Group, GroupBy, Histogram};
pub use interval::{StatisticError, charge_for, noise_reach};
pub use join::fit_join;
pub use number::{Count, Mean, Sum, Variance};
pub use quantile::{Located, Quantiles};
pub use target::{epsilon_for_mean, half_width_of_mean};
