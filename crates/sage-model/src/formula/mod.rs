//! Per-row features as formulas, which are evaluated here and lowered to an ONNX graph that computes the same.
//!
//! A [`Formula`] is a tree over the columns of a row. Its numbers are `f64`, its truth values and numbers may be
//! null, and every row has a value: nothing in it can fail. The rules are those of the engine's queries: `x / 0` is
//! infinite, the root of a negative number is null, a time outside the years 1700 to 2199 is null. Two points are
//! fixed here because no graph can distinguish the bits: −0 equals 0, also as a divisor, and NaN equals itself and
//! sorts after every number, whatever its sign bit.
//!
//! The tree contains only what has an exact counterpart in ONNX as both tract and onnxruntime evaluate it in double
//! precision: no decimal logarithm, no inverse trigonometry, no text function. The translation from SQL refuses those by
//! name instead of serving a model that differs from the one that was trained. `exp`, `ln`, `pow`, `sin`, `cos`, `tan`
//! and `tanh` may differ in their last bits between runtimes, so a comparison exactly at one of their values may differ
//! too; everything else is identical to the last bit.

mod calendar;
mod check;
mod evaluate;
mod lower;
mod nodes;
pub(crate) mod proto;
mod schema;
mod tree;

pub use check::FormulaRefusal;
pub use evaluate::Cell;
pub use schema::{Column, Domain, GREATEST_HASH, Keys, Missing, Schema, SchemaRefusal, Table, TableColumn};
pub use tree::{Arithmetic, Case, Comparison, Formula, Function, Kind, Lookup, Part};

pub(crate) use calendar::{is_time, part as part_of_time};
pub(crate) use evaluate::{apply, combine, compare};
pub(crate) use lower::{Lowered, Lowering};
pub(crate) use nodes::{CATEGORIES, Nodes, Tensor, whole_attribute};
