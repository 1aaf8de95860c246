//! Statistics from the kernel's tables: counts, sums, means, variances, histograms, groups, quantiles.
//!
//! Each is a small plan: what a lane is charged for it, how it is run on a session, and what is known from the
//! released numbers, with a half-width that holds but for a chance given in advance. All noise is the kernel's,
//! and everything after it is arithmetic on released numbers.

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
