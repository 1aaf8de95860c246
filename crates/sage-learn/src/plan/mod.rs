//! Formulas for planning: the noise that meets a target, other composition theorems, quantiles of noise.
//!
//! Each rounds conservatively, like the kernel's accountant. No ledger uses them: the kernel charges by its own
//! accountant, whatever was planned. Proofs are in `proofs/`.

mod calibrate;
mod comparison;
mod composition;
mod continuous;
mod gaussian;
mod number;
mod odometer;
mod tail;

pub use calibrate::{calibrate_sampled_gaussian, calibrate_sigma};
pub use comparison::{Comparison, Statement};
pub use composition::{optimal_delta, optimal_epsilon, rogers_epsilon, whitehouse_capacity, whitehouse_epsilon};
pub use continuous::{DENSE_ORDERS, laplace, sampled_gaussian, sampled_gaussian_continuous, sampled_gaussian_epsilon};
pub use gaussian::{gaussian_mu, gaussian_sigma, normal_quantile, pure_to_gdp};
pub use odometer::{epsilon_from_zcdp, fits, odometer};
pub use tail::{discrete_gaussian_quantile, discrete_laplace_quantile, laplace_quantile};
