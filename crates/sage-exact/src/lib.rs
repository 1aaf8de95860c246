//! Arithmetic that the kernel builds on as it builds on a Fourier transform: nothing here knows of rows,
//! budgets or noise.
//!
//! What it promises is checked against plain integers: a product of whole matrices is exact on every
//! machine, in any order and by any number of threads, and a [`Double`] keeps about 106 bits.

#![forbid(unsafe_code)]

mod double;
mod product;

pub use double::Double;
pub use product::{ROWS_AT_A_TIME, add_product};
