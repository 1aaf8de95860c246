//! Evaluates a program on a batch of rows.
//!
//! Every function here returns a value or null for every row, and none returns a `Result`. A value is computed for
//! every row, even where it is then replaced by null or by another branch of a `CASE`, so that the contents of one row
//! neither cause a failure nor select a slower path for the others.

mod boolean;
mod number;
mod text;
mod time;
mod vector;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::{ArrowNativeType, DataType, TimeUnit};

pub(crate) use vector::{Booleans, Texts, Vector};

use crate::program::{Boolean, Choice, Extreme, Kind, Program, Tree};

impl Program {
    /// Computes the value of each row: `Boolean`, `Int64`, `Float64`, `Utf8View` or `Timestamp(Microsecond)`, depending
    /// on the kind of the program. A program that is null for every row returns `Float64`.
    ///
    /// The columns of the batch must be those of the schema that the program was planned with. If a bug makes an
    /// evaluation panic, the batch is evaluated row by row and the affected rows are null, so that even then a row
    /// influences only itself.
    pub fn evaluate(&self, batch: &RecordBatch) -> ArrayRef {
        self.try_evaluate(batch).unwrap_or_else(|| {
            let rows: Vec<ArrayRef> = (0..batch.num_rows())
                .map(|row| {
                    self.try_evaluate(&batch.slice(row, 1)).unwrap_or_else(|| new_null_array(&self.data_type(), 1))
                })
                .collect();
            let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
            concat(&rows).unwrap_or_else(|_| new_null_array(&self.data_type(), batch.num_rows()))
        })
    }

    /// The rows that a filter keeps: those for which it is true. A program of another kind keeps none.
    pub fn matches(&self, batch: &RecordBatch) -> BooleanArray {
        let found = self.evaluate(batch);
        match found.as_boolean_opt() {
            Some(booleans) => BooleanArray::new(Booleans::Rows(booleans.clone()).true_rows(booleans.len()), None),
            None => BooleanArray::new(BooleanBuffer::new_unset(batch.num_rows()), None),
        }
    }

    /// The type of the arrays that it returns.
    pub fn data_type(&self) -> DataType {
        match self.kind() {
            Kind::Boolean => DataType::Boolean,
            Kind::Integer => DataType::Int64,
            Kind::Float | Kind::Null => DataType::Float64,
            Kind::Text => DataType::Utf8View,
            Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// The values, or `None` if the evaluation panicked.
    pub(crate) fn try_evaluate(&self, batch: &RecordBatch) -> Option<ArrayRef> {
        let evaluated = catch_unwind(AssertUnwindSafe(|| self.compute(batch)));
        evaluated.ok().filter(|values| values.len() == batch.num_rows())
    }

    fn compute(&self, batch: &RecordBatch) -> ArrayRef {
        let rows = batch.num_rows();
        let nulls = |nulls: Option<NullBuffer>| nulls.filter(|nulls| nulls.null_count() > 0);
        match &self.root {
            Tree::Null => Arc::new(Float64Array::new_null(rows)),
            Tree::Boolean(boolean) => Arc::new(boolean.evaluate(batch).into_array(rows)),
            Tree::Integer(integer) => {
                let (values, own) = integer.evaluate(batch).into_rows(rows);
                Arc::new(Int64Array::new(values, nulls(own)))
            }
            Tree::Float(float) => {
                let (values, own) = float.evaluate(batch).into_rows(rows);
                Arc::new(Float64Array::new(values, nulls(own)))
            }
            Tree::Text(text) => Arc::new(text.evaluate(batch).into_array(rows)),
            Tree::Time(time) => {
                let (values, own) = time.evaluate(batch).into_rows(rows);
                Arc::new(TimestampMicrosecondArray::new(values, nulls(own)))
            }
        }
    }
}

impl Tree {
    /// The rows that are not null.
    fn known(&self, batch: &RecordBatch) -> Booleans {
        match self {
            Self::Null => Booleans::Constant(Some(false)),
            Self::Boolean(boolean) => boolean.evaluate(batch).known(),
            Self::Integer(integer) => integer.evaluate(batch).known(),
            Self::Float(float) => float.evaluate(batch).known(),
            Self::Text(text) => text.evaluate(batch).known(),
            Self::Time(time) => time.evaluate(batch).known(),
        }
    }
}

/// A tree that can be evaluated.
pub(crate) trait Evaluate {
    type Values: Select;

    fn evaluate(&self, batch: &RecordBatch) -> Self::Values;
}

/// Values that can be selected row by row.
pub(crate) trait Select: Sized {
    /// The first where the condition is true, and the second elsewhere.
    fn select(condition: &Booleans, then: Self, otherwise: Self, rows: usize) -> Self;

    /// The rows that are not null.
    fn known(&self) -> Booleans;
}

impl<T: Evaluate> Choice<T> {
    /// From the last branch to the first, so that the first true condition decides.
    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> T::Values {
        let mut result = self.otherwise.evaluate(batch);
        for (condition, then) in self.branches.iter().rev() {
            let (condition, then) = (Boolean::evaluate(condition, batch), then.evaluate(batch));
            result = Select::select(&condition, then, result, batch.num_rows());
        }
        result
    }
}

/// The greatest or least of several values; nulls are skipped.
pub(crate) fn extreme<T: ArrowNativeType>(
    which: Extreme, values: impl IntoIterator<Item = Vector<T>>, less: impl Fn(T, T) -> bool, rows: usize,
) -> Vector<T> {
    let mut values = values.into_iter();
    let first = values.next().unwrap_or(Vector::Constant(None));
    values.fold(first, |best, next| {
        let better = best.clone().compare(&next, |best, next| match which {
            Extreme::Greatest => less(best, next),
            Extreme::Least => less(next, best),
        });
        // The comparison is null where one of the two is; then the other one is taken.
        let missing = best.known().not();
        let replace = Booleans::either(better.null_as_false(rows), missing);
        let replace = Booleans::both(replace, next.known());
        Vector::select(&replace, next, best, rows)
    })
}

/// Builds an array of texts.
pub(crate) fn text_array<'text>(values: impl ExactSizeIterator<Item = Option<&'text str>>) -> StringViewArray {
    let mut builder = arrow::array::StringViewBuilder::with_capacity(values.len());
    for value in values {
        builder.append_option(value);
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::program::Float;
    use crate::synthetic::{Dice, rows};

    /// A bug affects only the row that triggers it.
    #[test]
    fn a_panic_makes_the_affected_rows_null() {
        let mut dice = Dice(3);
        let batch = rows(&mut dice, 200);
        let column = batch.column(0).as_primitive::<Float64Type>().clone();
        let faulty = Program { root: Tree::Float(Float::PanicsAt(Box::new(Float::Column(0)), 0.5)) };
        assert!(faulty.try_evaluate(&batch).is_none(), "the batch contains the value");
        let found = faulty.evaluate(&batch);
        let found = found.as_primitive::<Float64Type>();
        for row in 0..column.len() {
            let value = column.is_valid(row).then(|| column.value(row));
            let expected = value.filter(|value| *value != 0.5).map(f64::to_bits);
            let actual = found.is_valid(row).then(|| found.value(row)).map(f64::to_bits);
            assert_eq!(actual, expected, "row {row}");
        }
    }
}
