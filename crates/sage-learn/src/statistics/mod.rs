//! Statistics from the kernel's tables: counts, sums, means, variances, histograms, groups, quantiles.
//!
//! Each statistic has the mechanisms that a lane is charged, a `run` on a session, and a confidence interval at a
//! level given in advance. The kernel adds all noise; the rest is post-processing of released numbers.

mod group;
mod interval;
mod join;
mod number;
mod quantile;
mod shares;
mod target;

pub use crate::estimate::Estimate;
pub use group::{Group, GroupBy, Histogram};
pub(crate) use interval::shares as interval_shares;
pub use interval::{StatisticError, charge_for, noise_reach, spread};
pub use join::fit_join;
pub use number::{Count, Mean, Sum, Variance};
pub use quantile::{Located, Quantiles};
pub use shares::Shares;
pub use target::{epsilon_for_mean, half_width_of_mean};
