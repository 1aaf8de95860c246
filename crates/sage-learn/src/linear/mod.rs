//! Linear regression from noisy moments.
//!
//! Nothing here sees a row: the kernel sums the moments, adds the noise, and hands out a matrix, a vector and
//! perhaps an eigenvalue; the rest is arithmetic on released numbers.

mod adassp;
mod model;
mod solve;

pub use adassp::{AdaSsp, LinearError, Ridge, ridge_target, sigma_for};
pub use model::LinearModel;
pub use solve::{Cholesky, solve_bounded, solve_ridge};
