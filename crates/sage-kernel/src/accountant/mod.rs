//! The accountant: what mechanisms cost, and what costs mean.
//!
//! Pure functions from parameters to certified numbers: Renyi curves,
//! conversions to (epsilon, delta), exact Gaussian privacy, composition of
//! privacy-loss distributions, and calibration of noise. Floats live here and
//! nowhere else in the kernel.
//!
//! Everything rounds against the spender: a cost up, a capacity down. Nothing
//! here may read data, draw noise, keep state, panic, or answer NaN; a
//! parameter out of range is refused by name. Each theorem has a page in
//! `proofs/`.

mod calibrate;
mod composition;
mod convert;
mod curve;
mod gaussian;
mod parameter;
mod pld;
mod sampled;
mod tail;

pub use calibrate::{calibrate_sampled_gaussian, calibrate_sigma};
pub use composition::{optimal_delta, optimal_epsilon, rogers_epsilon, whitehouse_capacity, whitehouse_epsilon};
pub use convert::{conversion, epsilon_from_curve, epsilon_from_zcdp, pure_to_gdp, pure_to_zcdp, rho_for};
pub use curve::{DENSE_ORDERS, ORDERS, discrete_laplace, gaussian, laplace, pure, zcdp};
pub use gaussian::{gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma, log_normal_cdf, normal_quantile};
pub use parameter::{AccountantError, Certified};
pub use pld::{Composition, Loss};
pub use sampled::{sampled_gaussian, sampled_gaussian_continuous, sampled_gaussian_curve, sampled_gaussian_epsilon};
pub use tail::{discrete_gaussian_quantile, discrete_laplace_quantile, laplace_quantile};
