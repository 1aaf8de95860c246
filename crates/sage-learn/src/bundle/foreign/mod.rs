//! A model that somebody else made, as an ONNX file, translated into steps of ours.
//!
//! The file is never run. Its nodes are read one by one, within limits, and each must be an operator that is known
//! here, used in a way that looks at one row at a time; of each a step is made, and from the steps a graph is written
//! as from any other model. So a graph that loops, draws, looks at other rows or at other files cannot be said in what
//! is released, whatever the file tries. Everything is computed in single precision.
//!
//! The file was made by a program that saw rows, and a refusal is read by others than its author. So a refusal has
//! words and names of operators out of this module, and the number of a node: never a text out of the file.

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

/// The name of the file.
pub const MODEL: &str = "model.onnx";

/// How large it may be.
const LARGEST: usize = 1 << 26;

/// Why a file is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRefusal {
    /// The number of the node, from 1 on, and its operator if it is one that is known by name.
    node: Option<(usize, Option<&'static str>)>,
    why: &'static str,
}

impl fmt::Display for ForeignRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            None => write!(f, "`{MODEL}`: {}", self.why),
            Some((number, None)) => write!(f, "`{MODEL}`, node {number}: {}", self.why),
            Some((number, Some(operator))) => write!(f, "`{MODEL}`, node {number} ({operator}): {}", self.why),
        }
    }
}

impl std::error::Error for ForeignRefusal {}

const fn refused(why: &'static str) -> ForeignRefusal {
    ForeignRefusal { node: None, why }
}

/// The model in a file of unknown origin, whose inputs are named after these columns.
///
/// # Errors
/// When it is too large, no ONNX file, or does what cannot be translated; the refusal says which node and what to do.
pub fn translated(bytes: &[u8], columns: &[Column]) -> Result<Graph, ForeignRefusal> {
    if bytes.len() > LARGEST {
        return Err(refused("it is larger than 64 MiB; give a smaller model"));
    }
    translate::translate(file::read(bytes)?, columns)
}
