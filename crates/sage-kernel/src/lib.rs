//! The trusted kernel.

pub mod accountant;
mod noise;
