//! Adaptation promises a bounded price for its search, an end, and the same state after any restart.

mod driver;
mod restart;
mod rules;
mod search;
mod together;
