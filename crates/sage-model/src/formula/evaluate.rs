//! The value of a formula for one row; the graph lowered from it must return the same.

use serde::{Deserialize, Serialize};

use super::calendar;
use super::schema::{Domain, Keys, Missing, Schema};
use super::tree::{Arithmetic, Case, Comparison, Formula, Function, Lookup};

/// A value of a row, or of a formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Null.
    Null,
    /// A number. In a row, NaN is null.
    Number(f64),
    /// A whole number, or a time in seconds from 1970. Formulas give numbers instead.
    Whole(i64),
    /// A truth value.
    Truth(bool),
    /// A text.
    Text(String),
}

impl Formula {
    /// Its value for a row that has a cell for each column of the schema. A cell that is not of its column's type
    /// counts as null; `check` decides whether the formula is valid.
    pub fn evaluate(&self, schema: &Schema, row: &[Cell]) -> Cell {
        match self {
            Self::Column(name) => column(schema, name, row),
            Self::Number(number) => Cell::Number(*number),
            Self::Truth(truth) => Cell::Truth(*truth),
            Self::Null => Cell::Null,
            Self::Function(function, of) => match of.evaluate(schema, row) {
                Cell::Number(x) if *function == Function::Sqrt && x < 0.0 => Cell::Null,
                Cell::Number(x) => Cell::Number(apply(*function, x)),
                _ => Cell::Null,
            },
            Self::Arithmetic(operation, left, right) => {
                match (left.evaluate(schema, row), right.evaluate(schema, row)) {
                    (Cell::Number(x), Cell::Number(y)) if *operation == Arithmetic::Power && x == 0.0 && y < 0.0 => {
                        Cell::Null
                    }
                    (Cell::Number(x), Cell::Number(y)) => Cell::Number(combine(*operation, x, y)),
                    _ => Cell::Null,
                }
            }
            Self::Compare(comparison, left, right) => match (left.evaluate(schema, row), right.evaluate(schema, row)) {
                (Cell::Number(x), Cell::Number(y)) => Cell::Truth(compare(*comparison, x, y)),
                _ => Cell::Null,
            },
            Self::Both(left, right) => match (left.truth(schema, row), right.truth(schema, row)) {
                (Some(false), _) | (_, Some(false)) => Cell::Truth(false),
                (Some(true), Some(true)) => Cell::Truth(true),
                _ => Cell::Null,
            },
            Self::Either(left, right) => match (left.truth(schema, row), right.truth(schema, row)) {
                (Some(true), _) | (_, Some(true)) => Cell::Truth(true),
                (Some(false), Some(false)) => Cell::Truth(false),
                _ => Cell::Null,
            },
            Self::Not(of) => of.truth(schema, row).map_or(Cell::Null, |truth| Cell::Truth(!truth)),
            Self::IsNull(of) => Cell::Truth(of.evaluate(schema, row) == Cell::Null),
            Self::Finite(of) => match of.evaluate(schema, row) {
                Cell::Number(x) if x.is_finite() => Cell::Number(x),
                _ => Cell::Null,
            },
            Self::Coalesce(all) => {
                let values = all.iter().map(|part| part.evaluate(schema, row));
                values.into_iter().find(|value| *value != Cell::Null).unwrap_or(Cell::Null)
            }
            Self::Case(case) => choose(case, schema, row),
            Self::AsNumber(of) => {
                of.truth(schema, row).map_or(Cell::Null, |truth| Cell::Number(f64::from(u8::from(truth))))
            }
            Self::Part(part, of) => match of.evaluate(schema, row) {
                Cell::Number(seconds) => calendar::part(*part, seconds).map_or(Cell::Null, Cell::Number),
                _ => Cell::Null,
            },
            Self::Among(of, texts) => match of.evaluate(schema, row) {
                Cell::Text(text) => Cell::Truth(texts.contains(&text)),
                _ => Cell::Null,
            },
            Self::Lookup(lookup) => look_up(lookup, schema, row),
        }
    }

    fn truth(&self, schema: &Schema, row: &[Cell]) -> Option<bool> {
        match self.evaluate(schema, row) {
            Cell::Truth(truth) => Some(truth),
            _ => None,
        }
    }
}

fn column(schema: &Schema, name: &str, row: &[Cell]) -> Cell {
    let Some((index, column)) = schema.column(name) else {
        return Cell::Null;
    };
    let number = match row.get(index) {
        Some(Cell::Number(x)) if !x.is_nan() => Some(*x),
        Some(Cell::Whole(x)) => Some(*x as f64),
        _ => None,
    };
    match (&column.domain, row.get(index)) {
        (Domain::Number { .. } | Domain::Whole { .. } | Domain::Hashed, _) => number.map_or(Cell::Null, Cell::Number),
        (Domain::Time { .. }, _) => {
            let seconds = number.and_then(|seconds| calendar::part(super::tree::Part::Epoch, seconds));
            seconds.map_or(Cell::Null, Cell::Number)
        }
        (Domain::Truth, Some(Cell::Truth(truth))) => Cell::Truth(*truth),
        (Domain::Text { .. }, Some(Cell::Text(text))) => {
            // In the columns of a batch the empty text represents null.
            let null = text.is_empty() && column.missing == Missing::Possible;
            if null { Cell::Null } else { Cell::Text(text.clone()) }
        }
        _ => Cell::Null,
    }
}

/// A function of a number; NaN for the root of a negative number, which is null.
#[inline]
pub(crate) fn apply(function: Function, x: f64) -> f64 {
    match function {
        Function::Negate => -x,
        Function::Abs => x.abs(),
        Function::Ceil => x.ceil(),
        Function::Floor => x.floor(),
        Function::Round => x.round(),
        Function::Truncate => x.trunc(),
        Function::Sign if x > 0.0 => 1.0,
        Function::Sign if x < 0.0 => -1.0,
        Function::Sign => x,
        Function::Sqrt => x.sqrt(),
        Function::Exp => x.exp(),
        Function::Ln => x.ln(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tan => x.sin() / x.cos(),
        Function::Tanh => x.tanh(),
    }
}

/// The result of an operation on two numbers; infinite for 0 to a negative power, which is null.
#[inline]
pub(crate) fn combine(operation: Arithmetic, x: f64, y: f64) -> f64 {
    match operation {
        Arithmetic::Add => x + y,
        Arithmetic::Subtract => x - y,
        Arithmetic::Multiply => x * y,
        // A negative zero divides like zero: runtimes do not agree on when a zero is negative.
        Arithmetic::Divide if y == 0.0 => x / 0.0,
        Arithmetic::Divide => x / y,
        Arithmetic::Remainder => x % y,
        Arithmetic::Power => x.powf(y),
    }
}

/// Whether two numbers compare like this: NaN equals itself and is greater than every number.
#[inline]
pub(crate) fn compare(comparison: Comparison, x: f64, y: f64) -> bool {
    let less = |x: f64, y: f64| x < y || (!x.is_nan() && y.is_nan());
    let equal = x == y || (x.is_nan() && y.is_nan());
    match comparison {
        Comparison::Equal => equal,
        Comparison::Different => !equal,
        Comparison::Less => less(x, y),
        Comparison::AtMost => !less(y, x),
        Comparison::Greater => less(y, x),
        Comparison::AtLeast => !less(x, y),
    }
}

fn choose(case: &Case, schema: &Schema, row: &[Cell]) -> Cell {
    let chosen = case.branches.iter().find(|(condition, _)| condition.truth(schema, row) == Some(true));
    let result = chosen.map(|(_, result)| result).or(case.otherwise.as_deref());
    result.map_or(Cell::Null, |result| result.evaluate(schema, row))
}

fn look_up(lookup: &Lookup, schema: &Schema, row: &[Cell]) -> Cell {
    let Some((table, column)) = schema.table(&lookup.table, &lookup.column) else {
        return Cell::Null;
    };
    let index = match (&table.keys, lookup.key.evaluate(schema, row)) {
        (Keys::From { first, .. }, Cell::Number(key)) => {
            let index = key - *first as f64;
            (index >= 0.0 && index < table.keys.count() as f64 && index.floor() == index).then_some(index as usize)
        }
        (Keys::Texts(texts), Cell::Text(key)) => texts.iter().position(|text| *text == key),
        _ => None,
    };
    index.and_then(|index| column.values.get(index)).map_or(Cell::Null, |value| Cell::Number(*value))
}
