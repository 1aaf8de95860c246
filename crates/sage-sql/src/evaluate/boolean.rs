//! Booleans, comparisons and predicates.

use std::cmp::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::ArrowNativeType;

use super::number::{equal, less};
use super::{Booleans, Evaluate, Select, Texts, Vector};
use crate::program::{Boolean, Comparison, Pair};
use crate::schema;

impl Evaluate for Boolean {
    type Values = Booleans;

    fn evaluate(&self, batch: &RecordBatch) -> Booleans {
        match self {
            Self::Column(index) => schema::booleans(batch.column(*index)),
            Self::Constant(value) => Booleans::Constant(*value),
            Self::Not(of) => of.evaluate(batch).not(),
            Self::All(parts) => {
                let parts = parts.iter().map(|part| part.evaluate(batch));
                parts.reduce(Booleans::both).unwrap_or(Booleans::Constant(Some(true)))
            }
            Self::Any(parts) => {
                let parts = parts.iter().map(|part| part.evaluate(batch));
                parts.reduce(Booleans::either).unwrap_or(Booleans::Constant(Some(false)))
            }
            Self::IsNull(of) => of.known(batch).not(),
            Self::Is(true, of) => of.evaluate(batch).null_as_false(batch.num_rows()),
            Self::Is(false, of) => of.evaluate(batch).not().null_as_false(batch.num_rows()),
            Self::Compare(operator, pair) => compare(*operator, pair, batch),
            Self::Distinct(pair) => distinct(pair, batch),
            Self::FloatIn(of, list) => {
                let of = of.evaluate(batch);
                let found = list.iter().map(|one| of.test(|value| equal(value, *one)));
                found.reduce(Booleans::either).unwrap_or(Booleans::Constant(Some(false)))
            }
            Self::TextIn(of, list) => {
                of.evaluate(batch).test(|text| list.binary_search_by(|one| one.as_str().cmp(text)).is_ok())
            }
            Self::Like(of, pattern) => of.evaluate(batch).test(|text| pattern.matches(text)),
            Self::StartsWith(of, with) => compare_texts(of, with, batch, |of, with| of.starts_with(with)),
            Self::EndsWith(of, with) => compare_texts(of, with, batch, |of, with| of.ends_with(with)),
            Self::Contains(of, with) => compare_texts(of, with, batch, |of, with| of.contains(with)),
            Self::IsNan(of) => of.evaluate(batch).test(f64::is_nan),
            Self::FromFloat(of) => of.evaluate(batch).test(|value| value != 0.0),
            Self::FromText(of) => super::text::boolean(&of.evaluate(batch)),
            Self::Choice(choice) => choice.evaluate(batch),
        }
    }
}

fn compare_texts(
    of: &crate::program::Text, with: &crate::program::Text, batch: &RecordBatch, holds: impl Fn(&str, &str) -> bool,
) -> Booleans {
    of.evaluate(batch).compare(&with.evaluate(batch), batch.num_rows(), holds)
}

fn compare(operator: Comparison, pair: &Pair, batch: &RecordBatch) -> Booleans {
    match pair {
        Pair::Float(left, right) => compare_floats(operator, &left.evaluate(batch), &right.evaluate(batch)),
        Pair::Integer(left, right) => compare_ordered(operator, &left.evaluate(batch), &right.evaluate(batch)),
        Pair::Time(left, right) => compare_ordered(operator, &left.evaluate(batch), &right.evaluate(batch)),
        Pair::Text(left, right) => {
            let (left, right) = (left.evaluate(batch), right.evaluate(batch));
            left.compare(&right, batch.num_rows(), |left, right| holds(operator, left.cmp(right)))
        }
    }
}

const fn holds(operator: Comparison, found: Ordering) -> bool {
    match operator {
        Comparison::Equal => found.is_eq(),
        Comparison::NotEqual => found.is_ne(),
        Comparison::Less => found.is_lt(),
        Comparison::LessOrEqual => found.is_le(),
        Comparison::Greater => found.is_gt(),
        Comparison::GreaterOrEqual => found.is_ge(),
    }
}

fn compare_floats(operator: Comparison, left: &Vector<f64>, right: &Vector<f64>) -> Booleans {
    match operator {
        Comparison::Equal => left.compare(right, equal),
        Comparison::NotEqual => left.compare(right, |x, y| !equal(x, y)),
        Comparison::Less => left.compare(right, less),
        Comparison::LessOrEqual => left.compare(right, |x, y| !less(y, x)),
        Comparison::Greater => left.compare(right, |x, y| less(y, x)),
        Comparison::GreaterOrEqual => left.compare(right, |x, y| !less(x, y)),
    }
}

fn compare_ordered<T: ArrowNativeType + Ord>(operator: Comparison, left: &Vector<T>, right: &Vector<T>) -> Booleans {
    match operator {
        Comparison::Equal => left.compare(right, |x, y| x == y),
        Comparison::NotEqual => left.compare(right, |x, y| x != y),
        Comparison::Less => left.compare(right, |x, y| x < y),
        Comparison::LessOrEqual => left.compare(right, |x, y| x <= y),
        Comparison::Greater => left.compare(right, |x, y| x > y),
        Comparison::GreaterOrEqual => left.compare(right, |x, y| x >= y),
    }
}

/// Whether two values differ; two nulls do not.
fn distinct(pair: &Pair, batch: &RecordBatch) -> Booleans {
    let rows = batch.num_rows();
    let differ = |different: Booleans, left: Booleans, right: Booleans| {
        let both = Booleans::both(left.clone(), right.clone());
        let one = Booleans::both(Booleans::either(left.clone(), right.clone()), both.not());
        Booleans::either(different.null_as_false(rows), one)
    };
    match pair {
        Pair::Float(left, right) => {
            let (left, right) = (left.evaluate(batch), right.evaluate(batch));
            differ(compare_floats(Comparison::NotEqual, &left, &right), left.known(), right.known())
        }
        Pair::Integer(left, right) => {
            let (left, right) = (left.evaluate(batch), right.evaluate(batch));
            differ(compare_ordered(Comparison::NotEqual, &left, &right), left.known(), right.known())
        }
        Pair::Time(left, right) => {
            let (left, right) = (left.evaluate(batch), right.evaluate(batch));
            differ(compare_ordered(Comparison::NotEqual, &left, &right), left.known(), right.known())
        }
        Pair::Text(left, right) => {
            let (left, right): (Texts, Texts) = (left.evaluate(batch), right.evaluate(batch));
            let different = left.compare(&right, rows, |left, right| left != right);
            differ(different, left.known(), right.known())
        }
    }
}
