//! Synthetic rows of a stream's schema, for rehearsals: no row is read for them.
//!
//! Values are spread over the declared bounds, categories and times, so that every formula and encoder has work to do.
//! They are the same for every run, so what a rehearsal returns reveals nothing about rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};

use sage_model::formula::GREATEST_HASH;

use super::query::PreparedQuery;
use super::rows::Batch;
use crate::stream::{Column, Kind, StreamFile};

/// Evaluates a query on synthetic rows, without its filter. `None` if the query is of another stream.
pub(crate) fn synthetic_batch(file: &StreamFile, prepared: &PreparedQuery, rows: usize) -> Option<Batch> {
    let mut fields: Vec<Field> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for &index in &prepared.columns {
        let field = prepared.schema.field(index);
        let (position, column) = file.column(field.name())?;
        columns.push(values(column, position, rows, field.data_type())?);
        fields.push(Field::new(field.name(), field.data_type().clone(), true));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).ok()?;
    // The rows that it selects may be rare among the declared values; only its evaluation is rehearsed.
    prepared.filter_mask(&batch);
    Batch::from_records(&prepared.outputs(&batch), rows).ok()
}

/// Every tenth value of a nullable column is missing.
const MISSING_EVERY: usize = 10;

/// Values of one column, in an order that differs between columns.
fn values(column: &Column, position: usize, rows: usize, kind: &DataType) -> Option<ArrayRef> {
    // The fractional parts of multiples of an irrational number are spread evenly over [0, 1).
    let step = (position as f64 + 1.0).sqrt() * 0.618_033_988_749_894_9;
    let share = |row: usize| ((row as f64 + 1.0) * step).fract();
    let present = |row: usize| !column.nullable || row % MISSING_EVERY != position % MISSING_EVERY;
    let all = || (0..rows).map(|row| present(row).then(|| share(row)));
    let between = |low: i64, high: i64| {
        let width = high.saturating_sub(low) as f64;
        let at = move |share: f64| low.saturating_add((share * width) as i64).clamp(low, high);
        Arc::new(all().map(|share| share.map(at)).collect::<Int64Array>()) as ArrayRef
    };
    let array: ArrayRef = match &column.kind {
        Kind::Number { min, max, .. } => {
            let at = |share: f64| min + share * (max - min);
            Arc::new(all().map(|share| share.map(at)).collect::<Float64Array>())
        }
        Kind::Integer { min, max, .. } => between(*min, *max),
        Kind::Hashed => between(0, GREATEST_HASH),
        Kind::Boolean => Arc::new(all().map(|share| share.map(|share| share < 0.5)).collect::<BooleanArray>()),
        Kind::Time { span } => between(span.0, span.1 - 1),
        Kind::Category { categories, .. } => {
            let at = |share: f64| categories.get((share * categories.len() as f64) as usize).map(String::as_str);
            Arc::new(all().map(|share| share.and_then(at)).collect::<StringArray>())
        }
        Kind::Text { longest } => {
            let at = |share: f64| "abcdefgh"[..1 + (share * 7.0) as usize].chars().take(*longest as usize).collect();
            Arc::new(
                all().map(|share| share.map(at)).collect::<Vec<Option<String>>>().into_iter().collect::<StringArray>(),
            )
        }
    };
    cast(&array, kind).ok()
}
