//! Made-up rows of the worst kind, on which a query is tried before it may see real ones.
//!
//! Every column gets the extremes of its type, each beside extremes of the others. The rows are the same
//! for everybody, so whatever a query does on them tells nothing.

use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::evaluate::{Failed, within_years};

const NUMBERS: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -7.25,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    9_007_199_254_740_993.0,
    1e-300,
    123_456.789,
    -3.0,
];
const INTEGERS: [i64; 11] = [0, 1, -1, 2, i64::MIN, i64::MAX, i32::MIN as i64, i32::MAX as i64, 255, -128, 86_399_999];
const TEXTS: [&str; 13] = [
    "",
    " ",
    "0",
    "-1",
    "1e400",
    "nan",
    "true",
    "2023-02-29",
    "1677-09-22T00:00:00",
    "2262-04-11 23:47:16",
    "99999-12-31",
    "\u{1f695}\u{301}\0%_\\",
    "a long text that does not fit into a view of its own",
];

/// How many rows: no multiple of the lengths above, so that extremes meet in changing pairs.
const ROWS: usize = 1_009;

/// Rows of extremes, one row of nulls, and none at all.
pub(super) fn batches(schema: &SchemaRef) -> Result<Vec<RecordBatch>, Failed> {
    let nullable = |field: &Arc<arrow::datatypes::Field>| field.as_ref().clone().with_nullable(true);
    let schema = Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Vec<_>>()));
    let mut batches = Vec::new();
    for rows in [ROWS, 0] {
        let extremes = schema.fields().iter().enumerate().map(|(place, field)| column(field.data_type(), place, rows));
        let extremes = extremes.collect::<Result<Vec<ArrayRef>, _>>().map_err(|_| Failed)?;
        batches.push(within_years(&batch(&schema, extremes, rows)?)?);
    }
    let nulls = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1));
    batches.push(batch(&schema, nulls.collect(), 1)?);
    Ok(batches)
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, Failed> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|_| Failed)
}

/// A column of extremes, a null now and then, in a rhythm of its own.
fn column(of: &DataType, place: usize, rows: usize) -> Result<ArrayRef, ArrowError> {
    let at = |row: usize, length: usize| {
        let step = (row / length).wrapping_mul(place + 1).wrapping_add(row);
        (row % 17 != place % 17).then_some(step % length)
    };
    let seeds: ArrayRef = match of {
        DataType::Boolean => {
            Arc::new((0..rows).map(|row| at(row, 2).map(|choice| choice == 0)).collect::<BooleanArray>())
        }
        DataType::Utf8View => {
            let texts = (0..rows).map(|row| at(row, TEXTS.len()).map(|choice| TEXTS[choice]));
            Arc::new(texts.collect::<StringArray>())
        }
        other if other.is_floating() => {
            let numbers = (0..rows).map(|row| at(row, NUMBERS.len()).map(|choice| NUMBERS[choice]));
            Arc::new(numbers.collect::<Float64Array>())
        }
        _ => {
            let numbers = (0..rows).map(|row| at(row, INTEGERS.len()).map(|choice| INTEGERS[choice]));
            Arc::new(numbers.collect::<Int64Array>())
        }
    };
    // What does not fit into a narrow type becomes null.
    let safe = CastOptions { safe: true, ..CastOptions::default() };
    match of {
        DataType::Date32 => {
            let days = cast_with_options(&seeds, &DataType::Int32, &safe)?;
            cast_with_options(&days, of, &safe)
        }
        _ => cast_with_options(&seeds, of, &safe),
    }
}
