//! Integers and floating-point numbers.

use arrow::array::{Array, RecordBatch};

use super::{Evaluate, Vector, extreme};
use crate::program::{Arithmetic, Float, Function, Integer};
use crate::schema;

/// The floats that truncate to a 64-bit integer lie strictly between these.
const FLOAT_LOW: f64 = -9_223_372_036_854_777_856.0;
const FLOAT_HIGH: f64 = 9_223_372_036_854_775_808.0;

/// Whether a float truncates to an integer in the range.
fn truncates_into((low, high): (i64, i64), value: f64) -> bool {
    value > FLOAT_LOW && value < FLOAT_HIGH && (low..=high).contains(&(value as i64))
}

impl Evaluate for Integer {
    type Values = Vector<i64>;

    fn evaluate(&self, batch: &RecordBatch) -> Vector<i64> {
        match self {
            Self::Column(index) => schema::integers(batch.column(*index)),
            Self::Constant(value) => Vector::Constant(*value),
            Self::FromBoolean(of) => match of.evaluate(batch) {
                super::Booleans::Constant(value) => Vector::Constant(value.map(i64::from)),
                super::Booleans::Rows(array) => {
                    let values = array.values().iter().map(i64::from).collect();
                    Vector::Rows(values, array.nulls().cloned())
                }
            },
            Self::FromFloat(of, range) => {
                let inside = of.evaluate(batch).filter(|value| truncates_into(*range, value));
                inside.map(|value| value as i64)
            }
            Self::FromText(of, (low, high)) => {
                let range = *low..=*high;
                of.evaluate(batch).parsed(|text| text.trim().parse::<i64>().ok().filter(|value| range.contains(value)))
            }
            Self::Within(of, (low, high)) => {
                let range = *low..=*high;
                of.evaluate(batch).filter(|value| range.contains(&value))
            }
            Self::FromTime(of) => of.evaluate(batch),
            Self::Part(part, of) => super::time::part(*part, of.evaluate(batch)),
            Self::Characters(of) => of.evaluate(batch).map_to(|text| length_of(text.chars().count())),
            Self::Bytes(of) => of.evaluate(batch).map_to(|text| length_of(text.len())),
            Self::FirstCharacter(of) => of
                .evaluate(batch)
                .map_to(|text| text.chars().next().map_or(0, |character| i64::from(u32::from(character)))),
            Self::Position(of, wanted) => super::text::position(&of.evaluate(batch), &wanted.evaluate(batch), batch),
            Self::Extreme(which, all) => {
                let values = all.iter().map(|one| one.evaluate(batch));
                extreme(*which, values, |left, right| left < right, batch.num_rows())
            }
            Self::Choice(choice) => choice.evaluate(batch),
        }
    }
}

/// A length as an integer; lengths are far below the maximum.
fn length_of(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

impl Evaluate for Float {
    type Values = Vector<f64>;

    fn evaluate(&self, batch: &RecordBatch) -> Vector<f64> {
        match self {
            Self::Column(index) => schema::floats(batch.column(*index)),
            Self::Constant(value) => Vector::Constant(*value),
            Self::FromInteger(of) => of.evaluate(batch).map(|value| value as f64),
            Self::FromText(of) => of.evaluate(batch).parsed(|text| text.trim().parse::<f64>().ok()),
            Self::Epoch(of) => of.evaluate(batch).map(|time| time as f64 / 1_000_000.0),
            Self::Function(function, of) => apply(*function, of.evaluate(batch)),
            Self::Arithmetic(operation, left, right) => {
                combine(*operation, left.evaluate(batch), right.evaluate(batch))
            }
            Self::Rounded(of, digits) => with_digits(of.evaluate(batch), *digits, f64::round),
            Self::Truncated(of, digits) => with_digits(of.evaluate(batch), *digits, f64::trunc),
            Self::Extreme(which, all) => {
                extreme(*which, all.iter().map(|one| one.evaluate(batch)), less, batch.num_rows())
            }
            Self::Choice(choice) => choice.evaluate(batch),
            #[cfg(test)]
            Self::PanicsAt(of, value) => of.evaluate(batch).map(|found| {
                assert!(found != *value, "injected fault");
                found
            }),
        }
    }
}

/// Whether one number is less than another: NaN is greater than all others, and the two zeros are equal.
#[inline]
pub(super) fn less(left: f64, right: f64) -> bool {
    left < right || (right.is_nan() && !left.is_nan())
}

/// Whether two numbers are equal in the same ordering.
#[inline]
pub(super) fn equal(left: f64, right: f64) -> bool {
    left == right || (left.is_nan() && right.is_nan())
}

fn combine(operation: Arithmetic, left: Vector<f64>, right: Vector<f64>) -> Vector<f64> {
    match operation {
        Arithmetic::Add => left.zip(right, |x, y| x + y),
        Arithmetic::Subtract => left.zip(right, |x, y| x - y),
        Arithmetic::Multiply => left.zip(right, |x, y| x * y),
        // A negative zero divisor becomes positive, because ONNX runtimes disagree about the sign of zero.
        Arithmetic::Divide => left.zip(right, |x, y| x / (y + 0.0)),
        Arithmetic::Remainder => left.zip(right, |x, y| x % y),
        Arithmetic::Power => {
            let defined = left.compare(&right, |x, y| !(x == 0.0 && y < 0.0));
            null_unless(left.zip(right, f64::powf), defined)
        }
        Arithmetic::Atan2 => left.zip(right, f64::atan2),
    }
}

/// The values where the condition is true, null elsewhere.
fn null_unless(values: Vector<f64>, condition: super::Booleans) -> Vector<f64> {
    use super::Select;
    match &values {
        Vector::Constant(_) => match condition {
            super::Booleans::Constant(Some(true)) => values,
            _ => Vector::Constant(None),
        },
        Vector::Rows(own, _) => {
            let rows = own.len();
            Vector::select(&condition, values, Vector::Constant(None), rows)
        }
    }
}

fn apply(function: Function, of: Vector<f64>) -> Vector<f64> {
    match function {
        Function::Negate => of.map(|x| -x),
        Function::Abs => of.map(f64::abs),
        Function::Acos => of.map(f64::acos),
        Function::Asin => of.map(f64::asin),
        Function::Atan => of.map(f64::atan),
        Function::Cbrt => of.map(f64::cbrt),
        Function::Ceil => of.map(f64::ceil),
        Function::Cos => of.map(f64::cos),
        Function::Cosh => of.map(f64::cosh),
        Function::Degrees => of.map(f64::to_degrees),
        Function::Exp => of.map(f64::exp),
        Function::Floor => of.map(f64::floor),
        Function::Ln => of.map(f64::ln),
        Function::Log10 => of.map(f64::log10),
        Function::Log2 => of.map(f64::log2),
        Function::Radians => of.map(f64::to_radians),
        Function::Round => of.map(f64::round),
        // Zeros and NaN are unchanged.
        Function::Sign => of.map(|x| {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        }),
        Function::Sin => of.map(f64::sin),
        Function::Single => of.map(|x| f64::from(x as f32)),
        Function::Sinh => of.map(f64::sinh),
        Function::Sqrt => of.filter(|x| x >= 0.0 || x.is_nan()).map(f64::sqrt),
        // The same formula as in an exported ONNX graph.
        Function::Tan => of.map(|x| x.sin() / x.cos()),
        Function::Tanh => of.map(f64::tanh),
        Function::Truncate => of.map(f64::trunc),
    }
}

/// Rounds to `digits` decimal places. A number for which that overflows is unchanged.
fn with_digits(of: Vector<f64>, digits: u32, round: impl Fn(f64) -> f64) -> Vector<f64> {
    let factor = 10_f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    of.map(|value| {
        let rounded = round(value * factor) / factor;
        if rounded.is_finite() { rounded } else { value }
    })
}
