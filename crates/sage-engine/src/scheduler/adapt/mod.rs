//! Privacy-adaptive training: what a pipeline tries next after an attempt that was not enough.
//!
//! A pipeline starts with a small cost on a small window. As long as its test says "try again", it tries with
//! more data or a larger cost, each time about twice as much, until it is accepted, rejected, out of time or
//! at its limits. This is a pure state machine. [`State::step`] folds what happened, [`State::next`] says what to
//! do in the world as it is: how late it is, and what may be spent on which blocks. It has no clock, no ledger
//! and no rows. A verdict is the only thing in it that depends on rows, and that was released.
//!
//! # Without spending twice
//! A choice is recorded before it is charged, and carries the serial number that becomes the charge's key. So a
//! driver that was stopped at any point reads its events back, gets the same attempt again, and charges it
//! under the same key, which the ledger answers without charging anew.
//!
//! # What it costs
//! Costs are in units of the ledger: ε where losses add up as ε, shares of the cap at the primary order under
//! Rényi, where doubling ε would cost four times as much. With c the largest cost of an attempt:
//! - attempts that only double their cost come to 2c − c₀ in all, which is less than four times the least cost
//!   that would have been enough;
//! - under [`Strategy::Conserve`] a block in all windows pays less than (2 + d) c, where the window doubled d
//!   times at constant cost;
//! - under [`Strategy::Frugal`] a run of window doublings that starts at cost c costs a block at most
//!   2c + a c₀, where a attempts were at the floor c₀.
//!
//! [`Strategy::Conserve`] can wait for ever where many compete: a pipeline that doubled its cost while it was almost alone
//! asks that much of every block of a larger window, and the shares of later blocks may all be smaller. It has a
//! deadline for that, and [`Strategy::Frugal`] comes down again.
//!
//! Attempts lost to a crash are tried again and paid again. These are bounds of the schedule; whether a test
//! succeeds is up to luck as well.

mod plan;
mod state;
mod world;

pub use plan::{Limits, Mode, Plan, PlanError, RiskSchedule, Strategy, Units};
pub use state::{Action, Attempt, End, Event, Impossible, Limit, Outcome, Phase, State, Verdict, Wanted};
pub use world::{Offers, World};
