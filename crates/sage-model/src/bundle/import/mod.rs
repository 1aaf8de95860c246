//! Import of ONNX files: an untrusted model is translated into the steps of a [`Graph`].
//!
//! The file is never executed. Its nodes are parsed within limits, and each must be a supported operator applied to one
//! row at a time. Each becomes a step, and the released model is written from the steps like any other. Loops, random
//! operators and references to other rows or files have no step, so a release cannot contain them. Everything is
//! computed in single precision.
//!
//! The file was made by a program that saw rows, and a refusal may be read by other people than its author. So a refusal
//! contains only texts and operator names of this module and the number of a node, never a text from the file.

mod file;
mod learned;
mod numbers;
mod operators;
mod shapes;
mod tensor;
mod translate;
mod wire;

use std::fmt;

use super::graph::Graph;
use crate::formula::Column;

/// The name of the ONNX file in a program's output folder.
pub const MODEL: &str = "model.onnx";

/// The largest file that is read, in bytes.
const LARGEST: usize = 1 << 26;

/// Why an ONNX file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRefusal {
    /// The number of the node, from 1, and its operator if it is supported.
    node: Option<(usize, Option<&'static str>)>,
    why: &'static str,
}

impl fmt::Display for ImportRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            None => write!(f, "`{MODEL}`: {}", self.why),
            Some((number, None)) => write!(f, "`{MODEL}`, node {number}: {}", self.why),
            Some((number, Some(operator))) => write!(f, "`{MODEL}`, node {number} ({operator}): {}", self.why),
        }
    }
}

impl std::error::Error for ImportRefusal {}

const fn refused(why: &'static str) -> ImportRefusal {
    ImportRefusal { node: None, why }
}

/// Translates an untrusted ONNX file whose inputs are named after these columns.
///
/// # Errors
/// If the file is too large, is not an ONNX file, or uses something unsupported; the refusal names the node and the fix.
pub fn import_onnx(bytes: &[u8], columns: &[Column]) -> Result<Graph, ImportRefusal> {
    if bytes.len() > LARGEST {
        return Err(refused("it is larger than 64 MiB; give a smaller model"));
    }
    translate::translate(file::read(bytes)?, columns)
}
