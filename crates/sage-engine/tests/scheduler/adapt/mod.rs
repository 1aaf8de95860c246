//! Adaptation: the search has a bounded cost, it ends, and the state is the same after any restart.

mod confidence;
mod driver;
mod informed;
mod restart;
mod rules;
mod search;
mod together;
