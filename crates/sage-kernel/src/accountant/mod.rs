//! The accountant: the privacy cost of mechanisms and its meaning.
//!
//! Pure functions from parameters to certified numbers: Renyi curves,
//! conversions to (epsilon, delta), exact Gaussian privacy, and composition of
//! privacy-loss distributions. Elsewhere in the kernel, floats only quantise rows
//! to integer grids and costs to units; the ledger contains none.
//! Planning, such as the search for a sigma, is not here: a charge is always
//! priced again.
//!
//! Everything rounds against the spender: costs up, capacities down. Nothing
//! here may read data, draw noise, keep state, panic, or return NaN; a
//! parameter out of range is refused by name. Each theorem has a page in
//! `proofs/`.

mod convert;
mod curve;
mod gaussian;
mod parameter;
mod pld;
mod sampled;

pub use convert::{conversion, epsilon_from_curve, pure_to_zcdp, rho_for};
pub use curve::{ORDERS, discrete_laplace, gaussian, pure};
pub use gaussian::{gaussian_delta, gaussian_epsilon, log_normal_cdf};
pub use parameter::{AccountantError, Certified};
pub use pld::{Composition, Loss};
pub use sampled::sampled_gaussian_curve;
