//! A second line of defence: a program is evaluated on synthetic rows with extreme values before it may read real ones.
//!
//! Programs cannot return errors, so the only remaining failures are bugs in this crate, which panic. Every operand and
//! every branch is computed for every row, so one evaluation reaches every operator. The rows are the same for every
//! program, so the result reveals nothing.

use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field};

use crate::program::Program;
use crate::refusal::Refusal;
use crate::schema::Schema;

const FAILS: &str = "it cannot be evaluated for every row that the schema allows; please report this as a bug";

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

/// The number of rows: not a multiple of the lengths above, so that extreme values occur in varying combinations.
const ROWS: usize = 1_009;

/// Evaluates a program on rows with extreme values, on a row of nulls and on no rows.
///
/// # Errors
/// When an evaluation panics; `text` is the expression that the refusal names.
pub fn rehearse(program: &Program, schema: &Schema, text: &str) -> Result<(), Refusal> {
    let refused = || Refusal::part(text, FAILS);
    for batch in batches(schema).ok_or_else(refused)? {
        program.try_evaluate(&batch).ok_or_else(refused)?;
    }
    Ok(())
}

fn batches(schema: &Schema) -> Option<Vec<RecordBatch>> {
    let extremes = |rows: usize| {
        let columns = schema.types().enumerate().map(|(index, (_, kind))| column(kind, index, rows));
        batch(schema, columns.collect::<Option<Vec<ArrayRef>>>()?, rows)
    };
    let nulls = schema.types().map(|(_, kind)| new_null_array(kind, 1)).collect();
    Some(vec![extremes(ROWS)?, extremes(0)?, batch(schema, nulls, 1)?])
}

fn batch(schema: &Schema, columns: Vec<ArrayRef>, rows: usize) -> Option<RecordBatch> {
    let fields: Vec<Field> = schema.types().map(|(name, kind)| Field::new(name, kind.clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options).ok()
}

/// A column of extreme values and some nulls, in a different order for each column. A column of an unsupported type is
/// null.
fn column(kind: &DataType, index: usize, rows: usize) -> Option<ArrayRef> {
    let at = |row: usize, length: usize| {
        let step = (row / length).wrapping_mul(index + 1).wrapping_add(row);
        (row % 17 != index % 17).then_some(step % length)
    };
    let integers = || {
        let numbers = (0..rows).map(|row| at(row, INTEGERS.len()).map(|choice| INTEGERS[choice]));
        Arc::new(numbers.collect::<Int64Array>()) as ArrayRef
    };
    let seeds: ArrayRef = match kind {
        DataType::Boolean => {
            Arc::new((0..rows).map(|row| at(row, 2).map(|choice| choice == 0)).collect::<BooleanArray>())
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            let texts = (0..rows).map(|row| at(row, TEXTS.len()).map(|choice| TEXTS[choice]));
            Arc::new(texts.collect::<StringArray>())
        }
        other if other.is_floating() => {
            let numbers = (0..rows).map(|row| at(row, NUMBERS.len()).map(|choice| NUMBERS[choice]));
            Arc::new(numbers.collect::<Float64Array>())
        }
        _ => integers(),
    };
    // A value that does not fit into a narrow type becomes null.
    let safe = CastOptions { safe: true, ..CastOptions::default() };
    let cast = match kind {
        DataType::Date32 => {
            let days = cast_with_options(&seeds, &DataType::Int32, &safe).ok()?;
            cast_with_options(&days, kind, &safe)
        }
        _ => cast_with_options(&seeds, kind, &safe),
    };
    Some(cast.unwrap_or_else(|_| new_null_array(kind, rows)))
}
