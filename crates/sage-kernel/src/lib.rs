//! The trusted kernel.

mod accountant;
pub mod noise;
