//! Privacy-adaptive training: the next attempt of a pipeline after one that was not sufficient.
//!
//! A pipeline starts with a small cost on a small window. While its test returns RETRY, it tries again with more data
//! or a higher cost until it is accepted, rejected, past its deadline or at its limits.
//! This is a pure state machine: [`State::step`] folds events, and [`State::next`] returns the next action for the
//! present time and available budget. It has no clock, no ledger and no rows. Only verdicts depend on rows, and they
//! have been released. [`Strategy::Informed`] also uses a [`Forecast`], which is a function of released values.
//!
//! # Without spending twice
//! A choice is recorded before it is charged, and has a serial number from which the key of the charge is derived. A
//! driver that stopped at any point replays its events, gets the same attempt again, and charges it under the same key,
//! which has no further effect on the ledger.
//!
//! # What it costs
//! Costs are in units of the ledger: ε where losses add up as ε; shares of the cap at the primary order under Rényi,
//! where doubling ε would cost four times as much. With c the largest cost of an attempt:
//! - attempts that only double their cost sum to 2c − c₀, which is less than four times the smallest sufficient cost;
//! - under [`Strategy::Conserve`] a block that is in all windows pays less than (2 + d) c, where the window doubled d
//!   times at constant cost;
//! - under [`Strategy::Informed`] the masses (cost times blocks) of all attempts sum to at most four times the least
//!   sufficient mass, if what the forecast excludes is insufficient;
//! - under [`Strategy::Frugal`] a sequence of window doublings that starts at cost c costs a block at most 2c + a c₀,
//!   where a attempts were at the minimum cost c₀.
//!
//! [`Strategy::Conserve`] can wait forever under contention: a pipeline that doubled its cost while it had little
//! competition requests that much of every block of a larger window, and its shares of later blocks may all be smaller.
//! Its deadline ends such a wait; [`Strategy::Frugal`] lowers the cost again.
//!
//! Attempts lost to a crash are repeated and charged again. These are bounds on the schedule; whether a test succeeds
//! also depends on chance.

mod forecast;
mod grid;
mod informed;
mod path;
mod plan;
mod risk;
mod state;
mod tested;
mod world;

pub use forecast::Forecast;
pub(crate) use informed::LIKELY;
pub use plan::{Limits, Mode, Plan, PlanError, RiskSchedule, Strategy, Units};
pub use state::{Action, Attempt, End, Event, Impossible, Limit, Outcome, Phase, State, Verdict, Wanted};
pub use tested::{RowsPrices, TestedBlocks};
pub use world::{Offers, World};
