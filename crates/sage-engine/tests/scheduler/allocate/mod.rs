//! Allocation: budget is shared evenly, none is lost, and a replay gives the same state.

mod invariants;
mod loans;
mod model;
mod queues;
mod speed;
mod units;
