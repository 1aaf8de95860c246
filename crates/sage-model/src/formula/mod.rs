//! Per-row features as formulas: what can be computed here, and written into an ONNX graph that computes the same.
//!
//! A [`Formula`] is a tree over the columns of a row. Its numbers are `f64`, its truth values and numbers may be
//! null, and every row has a value: nothing in it can fail. The rules are those of the engine's queries: `x / 0` is
//! infinite, the root of a negative number is null, a time outside the years 1700 to 2199 is null. Two points are
//! settled here because no graph can tell the bits apart: −0 equals 0, also as a divisor, and what is no number equals itself and
//! comes after every number, whatever its sign bit.
//!
//! What has no exact counterpart in ONNX as both tract and onnxruntime run it in double precision is not in the
//! tree: no decimal logarithm, no inverse trigonometry, no text function. Whoever translates SQL refuses those by
//! name instead of serving a model that differs from the one that was trained. `exp`, `ln`, `pow`, `sin`, `cos`,
//! `tan` and `tanh` may differ in their last bits between runtimes, so an edge drawn exactly at one of their values
//! is a matter of luck; everything else is the same to the last bit.

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
pub use schema::{Column, Domain, Keys, Missing, Schema, SchemaRefusal, Table, TableColumn};
pub use tree::{Arithmetic, Case, Comparison, Formula, Function, Kind, Lookup, Part};

pub(crate) use calendar::{is_time, part as part_of_time};
pub(crate) use evaluate::{apply, combine, compare};
pub(crate) use lower::{Lowered, Lowering};
pub(crate) use nodes::{CATEGORIES, Nodes, Tensor, whole_attribute};
