//! Bundles: one graph with the same predictions here, in tract and in onnxruntime; files that survive hostile bytes.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test that cannot get its value has failed")]

mod assemble;
mod columns;
mod draw;
mod equality;
mod exported;
mod files;
mod formulas;
mod hostile;
mod import;
mod python;
mod reference;
