//! Row expressions and the SELECT of private SQL: parsed, type-checked and evaluated without runtime errors.
//!
//! An error that depends on a row would release information without charging for it, and so would a running time that
//! depends on a row. This crate is therefore a small closed language instead of a general query engine:
//!
//! - [`parse`] parses an expression in linear time without backtracking, with limits on its length, its tokens and its
//!   depth;
//! - [`plan`] turns it into a [`Program`]: a tree of typed operators that cannot represent an ill-typed or partial
//!   operation. It validates every literal argument and compiles every pattern, from the text and the
//!   schema alone;
//! - [`Program::evaluate`] is a total function from a batch of rows to an array of values and nulls. It returns no
//!   `Result`. Every operand and every branch of a `CASE` is computed for every row; nothing short-circuits.
//!
//! The crate knows nothing about blocks and budgets. It must never put a value from a row into a message.

mod calendar;
mod evaluate;
mod like;
mod parse;
mod plan;
mod program;
mod refusal;
mod rehearse;
mod schema;
mod select;
mod syntax;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;
mod token;

pub use parse::parse;
pub use plan::plan;
pub use program::{Kind, Program};
pub use refusal::Refusal;
pub use rehearse::rehearse;
pub use schema::{DAYS, Schema};
pub use select::{Select, SelectItem, parse_select};
pub use syntax::{Aggregation, BinaryOperator, Case, Expr, Identifier, IsTest, TypeName, UnaryOperator};
