//! Allocation promises to share evenly, to lose nothing, and to come out the same when replayed.

mod invariants;
mod loans;
mod model;
mod queues;
mod speed;
mod units;
