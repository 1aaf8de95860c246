//! Synthetic streams of any size, for demonstrations, tests and benchmarks.
//!
//! The same seed gives the same rows, whatever the number of files and threads. The random numbers are not secure and
//! must never be used for noise.

mod city;
mod random;
mod taxi;
mod write;

pub use taxi::{CHUNK, DIRTY, Day, Taxi, TaxiError};
pub use write::{STREAM_FILE, TAXI, WriteError, WrittenFiles, write};
