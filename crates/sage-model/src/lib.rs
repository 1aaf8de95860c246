//! Released models: what a release contains, how it is written as ONNX, and how it is evaluated.
//!
//! - [`formula`]: per-row feature formulas that are evaluated here and lowered to ONNX operators;
//! - [`bundle`]: a trained model with its features as a set of files, the import of ONNX files, and prediction.
//!
//! Everything here works on released numbers and on rows of clients. Nothing reads a file or a row of a stream.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod formula;
