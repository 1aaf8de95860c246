//! Numerical routines that the kernel relies on. Nothing here knows about rows, budgets or noise.
//!
//! Tests compare every result with plain integer or rational arithmetic: products of integer matrices are exact on
//! every instruction set, in any order and with any number of threads, one-hot moments equal the naive sums, and a
//! [`DoubleDouble`] keeps about 106 bits. Two modules hold what the kernel need not trust: an index of
//! digests ([`KeyIndex`]), whose caller verifies every hit, and the choice of a lattice ([`LatticeChoice`]), which affects
//! how tight a bound is and never whether it holds.

#![forbid(unsafe_code)]

mod alias;
mod arch;
mod convolution;
mod decimal;
mod double_double;
mod factors;
mod fused;
mod grid;
mod index;
mod normal;
mod one_hot;
mod outer;
mod parallel;
mod product;
mod rescale;
mod search;
mod semidefinite;
mod spectral;

pub use alias::alias_columns;
pub use arch::{InstructionSet, dispatch};
pub use convolution::{Convolution, FftPlanner, LatticeDistribution, TiltedWindow, exponentials};
pub use decimal::{NumberError, Round, TEXT_LIMIT, decimal, parse_units};
pub use double_double::DoubleDouble;
pub use factors::{FactorShape, Factors, split_front, squared_norm, sum_outer_products, truncate_scaled};
pub use fused::multiply_add;
pub use grid::{GUESS, LatticeChoice, LossSketch, step_for};
pub use index::KeyIndex;
pub use normal::{HEIGHT_ERROR, rounded_gaussian_height};
pub use one_hot::{OneHotMoments, triangle_row};
pub use parallel::{balanced_chunks, map_parallel, split_range};
pub use product::{DenseMoments, ROWS_AT_A_TIME, add_product};
pub use rescale::Rescaler;
pub use search::bisect;
pub use semidefinite::{could_be_moments, is_semidefinite};
pub use spectral::{GAP, least_loss, smallest_eigenvalue};

#[cfg(test)]
mod tests {
    /// A linear congruential generator (Knuth's multiplier). Each word joins the high halves of two steps.
    pub(crate) fn words(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            let mut half = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 32
            };
            half() << 32 | half()
        }
    }
}
