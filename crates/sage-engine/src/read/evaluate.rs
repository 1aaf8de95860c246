//! Evaluates planned expressions on a batch of rows.
//!
//! Should one fail after all, nothing is said but that it failed: what the libraries below would say could
//! quote a row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow::array::{ArrowPrimitiveType, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion::physical_expr::PhysicalExpr;

use super::total::{DAYS, in_a_day};

/// Something failed; there is nothing more to say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed;

/// The values of an expression for each row.
pub(super) fn values(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef, Failed> {
    let value = expression.evaluate(batch).map_err(|_| Failed)?;
    value.into_array(batch.num_rows()).map_err(|_| Failed)
}

/// The same for an expression that is true or false.
pub(super) fn truths(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray, Failed> {
    values(expression, batch)?.as_boolean_opt().cloned().ok_or(Failed)
}

/// The same rows, with times that are too far away to be computed with made null.
pub(super) fn within_years(batch: &RecordBatch) -> Result<RecordBatch, Failed> {
    let columns = batch.columns().iter().map(time_within_years).collect();
    let fields = batch.schema();
    // A column that was declared without nulls may have some now.
    let fields = fields.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(|_| Failed)
}

fn time_within_years(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Date32 => within::<Date32Type>(column, |day| DAYS.contains(&i64::from(day))),
        DataType::Timestamp(unit, _) => {
            let years = DAYS.start * in_a_day(*unit)..DAYS.end * in_a_day(*unit);
            match unit {
                TimeUnit::Second => within::<TimestampSecondType>(column, |time| years.contains(&time)),
                TimeUnit::Millisecond => within::<TimestampMillisecondType>(column, |time| years.contains(&time)),
                TimeUnit::Microsecond => within::<TimestampMicrosecondType>(column, |time| years.contains(&time)),
                TimeUnit::Nanosecond => within::<TimestampNanosecondType>(column, |time| years.contains(&time)),
            }
        }
        _ => Arc::clone(column),
    }
}

fn within<T: ArrowPrimitiveType>(column: &ArrayRef, inside: impl Fn(T::Native) -> bool) -> ArrayRef {
    let times = column.as_primitive::<T>();
    if times.values().iter().all(|&time| inside(time)) {
        return Arc::clone(column);
    }
    let tamed: PrimitiveArray<T> = times.unary_opt(|time| inside(time).then_some(time));
    Arc::new(tamed.with_data_type(column.data_type().clone()))
}
