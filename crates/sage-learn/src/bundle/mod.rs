//! A trained model with its features as one thing that others can run, check and read about.
//!
//! - [`Graph`]: what a model is, in the form that learners translate into;
//! - [`Bundle`]: its files, written and read back;
//! - [`translated`]: an ONNX file that others made as a graph of this kind;
//! - [`Card`]: what people are told about it;
//! - [`Predictor`]: the graph run in this process;
//! - [`try_out`]: the graph tried on made-up rows before it is released.
//!
//! Nothing here sees a file system or a row of a stream.

mod assemble;
mod card;
mod columns;
mod fields;
mod files;
mod foreign;
mod graph;
mod layers;
mod mlmodel;
mod onnx;
mod place;
mod predict;
mod steps;
mod tables;
mod trial;
mod weights;

pub use assemble::{Fields, Model, fields};
pub use card::{Card, Door, Validation};
pub use files::{Bundle, BundleError, ESSENTIAL, described};
pub use foreign::{ForeignRefusal, MODEL as FOREIGN, translated};
pub use graph::{Activation, Feature, Field, Graph, GraphRefusal, Layer, Link, Outline, Scaled, Shape, Weights};
pub use place::Place;
pub use predict::{Cells, PredictError, Predictor};
pub use steps::{Map, Operand, Rule, Step};
pub use trial::{TrialRefusal, made_up_rows, try_out};

/// The version of the form of bundles.
const FORMAT: u32 = 1;
