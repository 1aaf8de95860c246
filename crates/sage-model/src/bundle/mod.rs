//! Bundles: a trained model with its features as files that other tools can run, verify and document.
//!
//! - [`Graph`]: the model, in the form that learners are translated into;
//! - [`Bundle`]: its files, written and read back;
//! - [`import_onnx`]: an ONNX file of another tool as a graph;
//! - [`Card`]: the model card;
//! - [`Predictor`]: evaluates the graph in this process;
//! - [`try_out`]: runs the graph on synthetic rows before it is released.
//!
//! Nothing here reads a file system or a row of a stream.

mod assemble;
mod card;
mod category_index;
mod columns;
mod fields;
mod files;
mod graph;
mod import;
mod layers;
mod mlmodel;
mod onnx;
mod predict;
mod steps;
mod tables;
mod trial;
mod weights;

pub use assemble::{Fields, Model, fields};
pub use card::{Card, CardAccess, Validation};
pub use category_index::CategoryIndex;
pub use files::{Bundle, BundleError, ESSENTIAL, described};
pub use graph::{Activation, Feature, Field, Graph, GraphRefusal, Layer, Link, Outline, Scaled, Shape, Weights};
pub use import::{ImportRefusal, MODEL as ONNX_FILE, import_onnx};
pub use predict::{Cells, PredictError, Predictor, likeliest};
pub use steps::{Map, Operand, Rule, Step};
pub use trial::{TrialRefusal, synthetic_rows, try_out};

/// The version of the bundle format.
const FORMAT: u32 = 1;
