//! Linear regression from noisy moments.
//!
//! The kernel sums the moments, adds the noise and returns a matrix, a vector and perhaps an eigenvalue; the rest is
//! arithmetic on released numbers. Nothing here sees a row.

mod adassp;
mod model;
mod solve;

pub use adassp::{AdaSsp, LinearError, Ridge, ridge_target, sigma_for};
pub use model::LinearModel;
pub use solve::{Cholesky, solve_bounded, solve_ridge};
