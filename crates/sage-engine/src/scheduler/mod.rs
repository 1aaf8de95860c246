//! The scheduler: which run makes its next attempt, on which blocks and at what cost.
//!
//! - [`allocate`]: how much each pipeline may spend on each block;
//! - [`adapt`]: a run's next attempt after a verdict, as a state machine;
//! - `queue`: both of them folded from the notes of the log, for every stream and context;
//! - `wakeups`: the runs whose situation has changed since they were last evaluated;
//! - `available`, `ceilings`: the budget that a run can use on each block;
//! - `forecast`: how likely the next attempt of a run is to be accepted;
//! - `tested`: which blocks earlier attempts of a run tested, and what that leaves of its risk;
//! - `choose`: the next attempt of one run;
//! - `waiting`, `hints`, `shares`: why a run waits, what would unblock it, and its share of a block.
//!
//! The scheduler may waste budget, but it cannot exceed a ceiling: the kernel's gate decides every charge again.

pub mod adapt;
pub mod allocate;
pub(crate) mod available;
pub(crate) mod ceilings;
mod choose;
pub(crate) mod forecast;
mod hints;
pub(crate) mod queue;
mod shares;
mod tested;
mod waiting;
pub(crate) mod wakeups;

pub(crate) use available::{Reach, left_of_lane};
pub use hints::Hint;
pub use shares::THOUSANDTHS;
pub(crate) use tested::has_forecast;
pub use waiting::Waiting;
