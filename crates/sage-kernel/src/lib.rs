//! The trusted kernel.

mod accountant;
mod noise;
