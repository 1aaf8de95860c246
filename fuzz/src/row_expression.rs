//! Row expressions: an expression that is accepted has a value, or null, on every row.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};

const EXPRESSIONS: [&str; 8] = [
    "distance / 100 + passengers * 2",
    "CASE WHEN payment = 'card' THEN 1 ELSE 0 END",
    "extract(hour from pickup)",
    "payment LIKE 'c%' AND NOT tipped OR distance IS NULL",
    "coalesce(distance, 0) BETWEEN 1 AND 4",
    "cast(payment AS double)",
    "upper(payment) IN ('CARD', 'CASH')",
    "date_trunc('day', pickup) < timestamp '2026-01-01 00:00:00'",
];

/// Plans an expression and evaluates it on rows with nulls and extreme values.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let rows = rows();
    let schema = sage_sql::Schema::new(&rows.schema());
    match sage_sql::parse(text).and_then(|expression| sage_sql::plan(&expression, &schema)) {
        Ok(program) => assert_eq!(program.evaluate(&rows).len(), rows.num_rows(), "one value for each row"),
        Err(refusal) => drop(refusal.to_string()),
    }
}

/// Expressions of several kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    EXPRESSIONS.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Rows of the stream in `fixtures/stream.toml`, with nulls and extreme values.
pub(crate) fn rows() -> RecordBatch {
    let pickup = TimestampMicrosecondArray::from(vec![Some(1_767_254_400_000_000), Some(0), None]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 5] = [
        ("pickup", Arc::new(pickup)),
        ("distance", Arc::new(Float64Array::from(vec![Some(4.5), Some(f64::MAX), None]))),
        ("passengers", Arc::new(Int64Array::from(vec![Some(1), Some(i64::MIN), None]))),
        ("tipped", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("payment", Arc::new(StringArray::from(vec![Some("card"), Some("\u{1f695}%_"), None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("rows")
}
