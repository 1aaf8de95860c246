//! Arithmetic that the kernel builds on as it builds on a Fourier transform: nothing here knows of rows,
//! budgets or noise.
//!
//! What it promises is checked against plain integers: a product of whole matrices is exact on every
//! machine, in any order and by any number of threads, counts of places equal those by hand, and a [`Double`] keeps about 106 bits.

#![forbid(unsafe_code)]

mod double;
mod factors;
mod law;
mod moves;
mod outer;
mod parallel;
mod places;
mod product;
mod search;
mod spectral;

pub use double::Double;
pub use factors::{Factors, Widths, cut, split, square, sum_outer_products};
pub use law::{Composed, Law, Planner, Side, exponentials};
pub use moves::Moves;
pub use parallel::{parts, shares, side_by_side};
pub use places::{PlaceSums, triangle_row};
pub use product::{ROWS_AT_A_TIME, add_product};
pub use search::bisect;
pub use spectral::{GAP, least_loss, smallest_eigenvalue};

#[cfg(test)]
mod tests {
    /// Words from a seed, by Knuth's multiplier; the high halves of two steps make one.
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
