//! Evaluates the formulas and fields of a graph, column by column.
//!
//! [`Program::new`] compiles them once into instructions, each of which computes one column of `f64` from others;
//! [`Program::run`] executes the instructions over blocks of rows that stay in the cache. Truth values are 1 and 0.
//! A value that can be null has a second column, which is 1 where it is null. Every instruction works row by row, so
//! a row's values do not depend on the rows beside it, and are those of [`Formula::evaluate`] to the last bit.
//!
//! [`Formula::evaluate`]: crate::formula::Formula::evaluate

mod compile;
mod fields;
mod run;

use std::collections::HashMap;

use super::layers::FieldValues;
use crate::formula::{Arithmetic, Comparison, Function, Part};

/// The instructions that compute the fields of a graph from its columns.
pub(super) struct Program {
    instructions: Vec<Instruction>,
    /// The number of registers: the most columns that are live at the same time.
    registers: usize,
    /// Values of tables and edges of buckets.
    lists: Vec<Vec<f64>>,
    dictionaries: Vec<Dictionary>,
    /// The type of each field's values.
    fields: Vec<FieldType>,
}

/// The type of a field's values.
#[derive(Clone, Copy)]
enum FieldType {
    Number,
    Index,
}

/// The values of one field, for each row.
pub(super) enum FieldColumn {
    /// Numbers in single precision, as the model takes them.
    Numbers(Vec<f32>),
    /// Indices of categories, which are whole numbers.
    Indices(Vec<f64>),
}

impl FieldColumn {
    pub(super) fn values(&self) -> FieldValues<'_> {
        match self {
            Self::Numbers(numbers) => FieldValues::Numbers(numbers),
            Self::Indices(indices) => FieldValues::Indices(indices),
        }
    }
}

enum Instruction {
    /// Computes a column into a register.
    Compute { output: usize, operation: Operation },
    /// Appends a column to a field's values.
    Emit { field: usize, from: Operand },
}

/// A column or a constant. During compilation each column has its own register; the finished program reuses them.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Register(usize),
    Constant(f64),
}

/// How a column is computed. Operations on constants alone are folded, so none of them has only constants.
#[derive(Clone, Debug)]
enum Operation {
    /// An input that is not text: as numbers, NaN where it is null.
    Load(usize),
    /// An input that is text: the number that a dictionary maps it to.
    Text {
        column: usize,
        dictionary: usize,
    },
    Unary(Unary, usize),
    Binary(Binary, Operand, Operand),
    /// One of two values, by a truth value.
    Select {
        condition: usize,
        yes: Operand,
        no: Operand,
    },
}

/// A function of one number.
#[derive(Clone, Copy, Debug)]
enum Unary {
    Function(Function),
    Part(Part),
    Not,
    IsNan,
    IsNegative,
    IsNotZero,
    IsNotFinite,
    /// Outside the years of the calendar, or NaN.
    IsNoTime,
    /// A whole number from 0 to below the count.
    IsIndex {
        count: f64,
    },
    /// The element of a list at an index, 0 if the index is invalid.
    Element {
        list: usize,
    },
    /// Clipped, shifted and scaled.
    Scale {
        low: f64,
        high: f64,
        shift: f64,
        factor: f64,
    },
    /// Distance from the first whole number, if it is an index below the count.
    Index {
        first: f64,
        count: f64,
        otherwise: f64,
    },
    /// Number of edges that are reached.
    Bucket {
        edges: usize,
        otherwise: f64,
    },
    Hash {
        key: [u64; 3],
        count: u32,
        otherwise: f64,
    },
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug)]
enum Binary {
    Arithmetic(Arithmetic),
    Compare(Comparison),
    And,
    Or,
    /// Whether a power is null: 0 to a negative power.
    IsNullPower,
}

/// A number for each listed text, and one for all others.
#[derive(PartialEq)]
struct Dictionary {
    numbers: HashMap<String, f64>,
    otherwise: f64,
}

impl Operand {
    const fn register(&mut self) -> Option<&mut usize> {
        match self {
            Self::Register(register) => Some(register),
            Self::Constant(_) => None,
        }
    }
}

impl Instruction {
    /// The registers that it reads.
    fn reads(&mut self) -> impl Iterator<Item = &mut usize> {
        let reads = match self {
            Self::Emit { from, .. } => [from.register(), None, None],
            Self::Compute { operation, .. } => match operation {
                Operation::Load(_) | Operation::Text { .. } => [None, None, None],
                Operation::Unary(_, of) => [Some(of), None, None],
                Operation::Binary(_, left, right) => [left.register(), right.register(), None],
                Operation::Select { condition, yes, no } => [Some(condition), yes.register(), no.register()],
            },
        };
        reads.into_iter().flatten()
    }
}
