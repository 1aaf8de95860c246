//! Models that are not a sequence of layers: a list of steps, each computed from earlier values.
//!
//! Every value is a vector for each row, and no step reads another row: its operands are values of the same row and
//! arrays of weights. So in every model of this form a row's prediction depends on that row alone. The first values are
//! the fields, categories one-hot encoded; each step adds one value, and the last one is the prediction. Imported ONNX
//! models are translated into this form.

mod run;
mod write;

use serde::{Deserialize, Serialize};

use super::graph::{Field, GraphRefusal, Outline, refused};

pub(super) use run::Steps;
pub(super) use write::write;

/// Limits on the number of steps, the width of a value, the width of all values together, and the number of weights.
/// They bound the memory and time of a row.
pub(super) const MOST_STEPS: usize = 4_096;
pub(super) const WIDEST: u64 = 1 << 16;
const WIDEST_TOGETHER: u64 = 1 << 18;
pub(super) const MOST_NUMBERS: u64 = 1 << 24;

/// A step: one value computed from earlier values of the same row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Concatenation of values.
    Join(Vec<u32>),
    /// A selection of a value's elements.
    Pick {
        /// The value.
        of: u32,
        /// Their indices. The file keeps the name that earlier bundles have.
        #[serde(rename = "places")]
        columns: Vec<u32>,
    },
    /// The product of a value with a matrix, whose array is output-major.
    Product {
        /// The value.
        of: u32,
        /// The number of outputs.
        outputs: u32,
    },
    /// An elementwise operation on two operands; a scalar is broadcast.
    Pair {
        /// The operation.
        rule: Rule,
        /// The left operand.
        left: Operand,
        /// The right operand.
        right: Operand,
    },
    /// An elementwise function.
    Map {
        /// The function.
        function: Map,
        /// The value.
        of: u32,
    },
    /// Each element clipped to a range.
    Clip {
        /// The value.
        of: u32,
        /// The lower end.
        low: f32,
        /// The upper end.
        high: f32,
    },
    /// Softmax.
    Softmax(u32),
    /// The sum of a value's elements.
    Sum(u32),
    /// Replaces NaN, which stands for null, by the elements of an array.
    Fill(u32),
}

/// An operand of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// A value.
    Value(u32),
    /// An array of this length, the same for every row.
    Array(u32),
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Rule {
    Add,
    Subtract,
    Multiply,
    Divide,
    Least,
    Greatest,
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Map {
    Relu,
    Sigmoid,
    Tanh,
    Exp,
    Ln,
    Sqrt,
    Abs,
    Negative,
    Erf,
}

/// The width of each value, the fields first; refused if a step is invalid or too large.
pub(super) fn widths(outline: &Outline) -> Result<Vec<u64>, GraphRefusal> {
    if outline.steps.len() > MOST_STEPS {
        return Err(refused("graph", "it has more than 4096 steps"));
    }
    let mut widths = Vec::with_capacity(outline.fields.len() + outline.steps.len());
    for field in &outline.fields {
        widths.push(match field {
            Field::Number(_) | Field::Plain(_) => 1,
            Field::OneHot(category) => category.categories(),
            Field::Embedded { .. } => return Err(refused("field", "steps do not support embeddings")),
        });
    }
    let mut together = widths.iter().fold(0_u64, |sum, width| sum.saturating_add(*width));
    for step in &outline.steps {
        let width = width(step, &widths)?;
        together = together.saturating_add(width);
        if !(1..=WIDEST).contains(&width) || together > WIDEST_TOGETHER {
            return Err(refused("step", "a value has 1 to 65536 numbers for a row, and all together at most 2^18"));
        }
        widths.push(width);
    }
    let numbers = arrays(outline, &widths).into_iter().fold(0, u64::saturating_add);
    if numbers > MOST_NUMBERS { Err(refused("graph", "it has more than 2^24 weights")) } else { Ok(widths) }
}

/// The width of a step's value, given the widths of the earlier values.
fn width(step: &Step, before: &[u64]) -> Result<u64, GraphRefusal> {
    let of = |value: &u32| {
        let width = before.get(*value as usize).copied();
        width.ok_or_else(|| refused("step", "it reads a value that is not computed yet"))
    };
    match step {
        Step::Join(parts) => parts.iter().map(of).try_fold(0_u64, |sum, width| Ok(sum.saturating_add(width?))),
        Step::Pick { of: value, columns } => {
            let width = of(value)?;
            match columns.iter().all(|index| u64::from(*index) < width) {
                true => Ok(columns.len() as u64),
                false => Err(refused("step", "it selects an element that does not exist")),
            }
        }
        Step::Product { of: value, outputs } => of(value).map(|_| u64::from(*outputs)),
        Step::Pair { left, right, .. } => {
            let side = |operand: &Operand| match operand {
                Operand::Value(value) => of(value),
                Operand::Array(width) => Ok(u64::from(*width)),
            };
            match (side(left)?, side(right)?, left, right) {
                (.., Operand::Array(_), Operand::Array(_)) => Err(refused("step", "it reads no value")),
                (1, width, ..) | (width, 1, ..) => Ok(width),
                (one, other, ..) if one == other => Ok(one),
                _ => Err(refused("step", "its two sides are of different lengths")),
            }
        }
        Step::Clip { of: value, low, high } => match low.is_finite() && high.is_finite() && low <= high {
            true => of(value),
            false => Err(refused("step", "the ends of a range are finite and in order")),
        },
        Step::Map { of: value, .. } | Step::Softmax(value) | Step::Fill(value) => of(value),
        Step::Sum(value) => of(value).map(|_| 1),
    }
}

/// The lengths of the arrays, in the order of the steps that use them.
pub(super) fn arrays(outline: &Outline, widths: &[u64]) -> Vec<u64> {
    let mut sizes = Vec::new();
    for step in &outline.steps {
        match step {
            Step::Product { of, outputs } => sizes.push(widths[*of as usize].saturating_mul(u64::from(*outputs))),
            Step::Fill(of) => sizes.push(widths[*of as usize]),
            Step::Pair { left, right, .. } => {
                let lengths = [left, right].into_iter().filter_map(|operand| match operand {
                    Operand::Array(width) => Some(u64::from(*width)),
                    Operand::Value(_) => None,
                });
                sizes.extend(lengths);
            }
            _ => {}
        }
    }
    sizes
}
