//! The trusted kernel of Sage.
//!
//! Everything the privacy promise rests on, with no input or output, no clock and no machine learning.
//!
//! # The theorem
//! Rows arrive in blocks that a public attribute of each row decides, and every unit is sent to one of
//! two lanes of its block by a coin of its own. For every lane of every block the ledger keeps a filter.
//! A query names blocks and a cost; it is charged on all of them, durably, before a byte is read, or on
//! none. Then everything that ever leaves the stream, whoever asks and after whatever outputs, is
//! (ε_g, δ_g)-differentially private for one unit more or less (`proofs/block.md`).
//!
//! # The way through
//! [`Gate::charge`] decides a [`Request`] and makes it durable: a [`Grant`]. [`Gate::start`] makes it final: a
//! [`Permit`]. [`Permit::open`] reads the rows: a [`Session`], whose methods are the only way out.
//! [`Session::finish`] and [`Gate::release`] let the result leave. Each step uses up the one before.

#![forbid(unsafe_code)]

pub mod accountant;
mod block;
mod budget;
mod codec;
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
pub use codec::Malformed;
pub use cost::{Amounts, Cost, CostError, Curve, Mechanism, ORDER_COUNT, SCALE};
pub use decide::Decision;
pub use event::{Charge, Door, Event, GrantId, Request, RequestKey};
pub use factors::{Bias, LayerRows, LayerShape};
#[cfg(any(test, feature = "seeded"))]
pub use faulty::{Fault, FaultyLog};
pub use filter::{Ceiling, Component, Declared, Filter, FixedError, Rule, Unpriced};
pub use gradient::{Sample, Step};
pub use grant::{Answer, Finished, Gate, GateError, Grant, Permit};
pub use lane::{LaneKey, Split};
pub use ledger::{GrantState, Inconsistent, Ledger, Stream};
pub use log::{BrokenChain, Head, Log, LogError, Record};
pub use memory::MemoryLog;
pub use moments::{BestLoss, MomentBounds, Moments, PlaceBounds};
pub use policy::{Context, Doors, Policy};
pub use refusal::{Book, Refusal, Shortfall};
pub use session::{DeclaredRows, Rows, Session, SessionError};
pub use summary::{Part, Summary, SummaryKey, Tag};
pub use table::{Pair, Range, TableNoise, Taken, Triple};
