//! The trusted kernel of Sage.
//!
//! Contains everything that the privacy guarantee depends on. It has no input or output, no clock and no machine
//! learning.
//!
//! # The theorem
//! A public attribute of each row determines its block, and an independent random assignment sends each privacy unit
//! to one of the two lanes of its block. The ledger keeps a privacy filter for every lane of every block. A query names
//! blocks and a cost. It is charged durably on all of these blocks before a byte is read, or on none. Then everything
//! that ever leaves the stream is (ε_g, δ_g)-differentially private with respect to adding or removing one unit, for
//! every adaptive choice of queries (`proofs/block.md`).
//!
//! # From request to release
//! [`Gate::charge`] decides a [`Request`], makes the charge durable and returns a [`Grant`]. [`Gate::start`] makes the
//! charge final and returns a [`Permit`]. [`Permit::open`] reads the rows and returns a [`Session`], whose mechanisms
//! are the only way to compute on them. [`Session::finish`] and [`Gate::release`] release the result. Each step consumes
//! the value that the previous step returned.

#![forbid(unsafe_code)]

pub mod accountant;
mod block;
mod budget;
mod codec;
mod contribution;
mod cost;
mod decide;
mod event;
mod factors;
#[cfg(any(test, feature = "seeded"))]
mod faulty;
mod filter;
mod gradient;
mod grant;
mod lane;
mod ledger;
mod log;
mod memory;
mod message;
mod moments;
pub mod noise;
mod plan;
mod policy;
mod refusal;
mod session;
mod summary;
mod table;
mod vector;
mod wire;

pub use block::{BlockId, BlockRange, Blocks, BlocksError, ContextId, Lane, StreamId};
pub use budget::{Delta, Epsilon, NumberError, Rate, Sigma};
pub use codec::MalformedBytes;
pub use contribution::{Contribution, PerUnit};
pub use cost::{Amounts, Cost, CostError, Curve, Mechanism, ORDER_COUNT, SCALE};
pub use decide::Decision;
pub use event::{AccessMode, Charge, Event, GrantId, Request, RequestKey};
pub use factors::{Bias, LayerRows, LayerShape};
#[cfg(any(test, feature = "seeded"))]
pub use faulty::{Fault, FaultyLog};
pub use filter::{Ceiling, Component, DeclaredQuery, Filter, FixedError, PriceError, Rule};
pub use gradient::{Sample, Step};
pub use grant::{ChargeOutcome, FinishedSession, Gate, GateError, Grant, Permit};
pub use lane::{LaneKey, Split};
pub use ledger::{GrantState, InconsistentLog, Ledger, Stream};
pub use log::{BrokenChain, Head, Log, LogError, Record};
pub use memory::MemoryLog;
pub use moments::{BestLoss, MomentBounds, Moments, OneHotBounds};
pub use policy::{AccessModes, Context, Policy};
pub use refusal::{Book, Refusal, Shortfall};
pub use session::{AttestedRows, Rows, Session, SessionError};
pub use summary::{BlockPart, Summary, SummaryKey, SummaryTag};
pub use table::{Pair, Range, Rounding, TableNoise, Triple};
