//! Made-up streams of any size, for demonstrations, tests and measurements where no real rows are at hand.
//!
//! The same seed gives the same rows, whatever the number of files and threads. Nothing here is random
//! enough for privacy, and nothing here may be used where noise is meant.

mod city;
mod random;
mod taxi;
mod write;

pub use taxi::{CHUNK, DIRTY, Day, Taxi, TaxiError};
pub use write::{STREAM_FILE, TAXI, WriteError, Written, write};
