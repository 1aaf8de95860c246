//! For every row a query gives a value or null: no row can make a read fail.

use std::sync::Arc;

use crate::yard::{Fixture, query};
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use sage_engine::read::prepare;
use sage_kernel::Lane;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("x", DataType::Float64, true),
        Field::new("y", DataType::Float64, true),
        Field::new("i", DataType::Int64, true),
        Field::new("j", DataType::Int64, true),
        Field::new("s", DataType::Int16, true),
        Field::new("u", DataType::UInt64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("z", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), true),
        Field::new("d", DataType::Date32, true),
        Field::new("a", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
    ])
}

const NUMBERS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    -2.5,
];
const INTEGERS: [i64; 9] = [0, -1, 1, i64::MIN, i64::MAX, i64::MIN + 1, 1 << 53, -7, 86_400_000_000];
const TEXTS: [&str; 10] = [
    "",
    "not a number",
    "1e999",
    "-0",
    "9223372036854775808",
    "1677-09-21T00:12:43",
    "2262-04-11T23:47:17",
    "-290308-12-21",
    "\u{fffd}\u{202e}\0",
    "true",
];

/// Every pair of extremes, nulls among them.
fn extremes() -> RecordBatch {
    let count = 1_200;
    let pick = |row: usize, of: usize| (row % (of + 1) < of).then_some(row % (of + 1));
    let slow = |row: usize, of: usize| pick(row / 13, of);
    let integer = |row| pick(row, INTEGERS.len()).map(|index| INTEGERS[index]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from_iter((0..count).map(|row| pick(row, NUMBERS.len()).map(|index| NUMBERS[index])))),
        Arc::new(Float64Array::from_iter((0..count).map(|row| slow(row, NUMBERS.len()).map(|index| NUMBERS[index])))),
        Arc::new(Int64Array::from_iter((0..count).map(integer))),
        Arc::new(Int64Array::from_iter((0..count).map(|row| slow(row, INTEGERS.len()).map(|at| INTEGERS[at])))),
        Arc::new(Int16Array::from_iter((0..count).map(|row| pick(row, 3).map(|at| [0, i16::MIN, i16::MAX][at])))),
        Arc::new(UInt64Array::from_iter((0..count).map(|row| pick(row, 3).map(|at| [0, 1, u64::MAX][at])))),
        Arc::new(TimestampMicrosecondArray::from_iter((0..count).map(integer))),
        Arc::new(TimestampSecondArray::from_iter((0..count).map(integer)).with_timezone("UTC")),
        Arc::new(Date32Array::from_iter((0..count).map(|row| pick(row, 4).map(|at| [0, i32::MIN, i32::MAX, -1][at])))),
        Arc::new(StringArray::from_iter((0..count).map(|row| pick(row, TEXTS.len()).map(|index| TEXTS[index])))),
        Arc::new(BooleanArray::from_iter((0..count).map(|row| pick(row, 2).map(|index| index == 0)))),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

const EXPRESSIONS: &[&str] = &[
    "x / y",
    "x % y",
    "i / j",
    "i % j",
    "i * j - s",
    "-i",
    "-s",
    "u - i",
    "s / 0",
    "abs(i)",
    "abs(s)",
    "power(x, y)",
    "power(i, j)",
    "sqrt(x)",
    "ln(y)",
    "asin(x) + acos(y) + tan(x) + atan2(x, y)",
    "exp(x) * exp(y)",
    "round(x, 15)",
    "round(x, 400)",
    "trunc(x, 15)",
    "floor(i) + ceil(u)",
    "signum(i) + cbrt(y)",
    "CAST(x AS INT)",
    "CAST(x AS SMALLINT)",
    "CAST(i AS INT)",
    "CAST(u AS BIGINT)",
    "CAST(a AS DOUBLE)",
    "CAST(a AS BOOLEAN)",
    "CAST(a AS TINYINT)",
    "CAST(t AS BIGINT)",
    "extract(epoch from t)",
    "extract(microsecond from t)",
    "extract(nanosecond from z)",
    "extract(week from z)",
    "extract(doy from d)",
    "extract(epoch from d)",
    "extract(year from CAST(a AS DATE))",
    "extract(epoch from CAST(a AS TIMESTAMP))",
    "extract(epoch from date_trunc('year', CAST(a AS TIMESTAMP)))",
    "extract(epoch from date_trunc('week', t))",
    "extract(epoch from date_trunc('quarter', z))",
    "extract(epoch from date_trunc('microsecond', d))",
    "extract(epoch from CAST(d AS TIMESTAMP))",
    "extract(epoch from CAST(t AS DATE))",
    "extract(epoch from CAST(z AS TIMESTAMP))",
    "CASE WHEN t > z THEN 1 ELSE 0 END",
    "CASE WHEN d = t THEN 1 ELSE 0 END",
    "t BETWEEN TIMESTAMP '1999-01-01' AND z",
    "i = u",
    "i > x",
    "a = i",
    "a < x",
    "u IN (i, j, 3)",
    "a LIKE '%\u{fffd}%'",
    "substr(a, 3, 1000000)",
    "substr(a, 0)",
    "left(a, 0) || right(a, 1000)",
    "upper(a) || lower(a) || trim(a)",
    "length(a) + octet_length(a) + ascii(a) + strpos(a, a)",
    "concat(a, x, i, b)",
    "coalesce(x, y, i)",
    "nullif(i, j)",
    "greatest(x, y, i)",
    "CASE i WHEN j THEN x ELSE y END",
    "isnan(x / x)",
];

#[test]
fn no_value_makes_a_query_fail() {
    let mut fixture = Fixture::new(1);
    let rows = extremes();
    fixture.write(0, &rows, &vec![false; rows.num_rows()]);
    for sql in EXPRESSIONS {
        let read = fixture.records(&schema(), (0, 0), Lane::Train, &query(None, &[sql]), |_| ());
        assert_eq!(read.map(|rows| rows.len()), Ok(rows.num_rows()), "{sql}");
    }
    // All of them at once, behind filters.
    for filter in ["x > y", "i / j > 1", "CAST(a AS DOUBLE) < x OR b", "t < z", "NOT b AND extract(year from t) > 1990"]
    {
        let read = fixture.records(&schema(), (0, 0), Lane::Train, &query(Some(filter), EXPRESSIONS), |_| ());
        assert!(read.is_ok(), "{filter}");
    }
}

/// An expression that could fail for some row is refused for its text, whatever condition precedes it: a failure behind
/// a condition would reveal whether a row meets the condition.
#[test]
fn a_condition_hides_nothing_from_the_planner() {
    for failing in ["date_part('foo', t) > 0", "CAST('none' AS INT) > 0", "date_trunc('fortnight', t) = t", "a LIKE a"]
    {
        for sql in [
            format!("CASE WHEN a = 'Bob' THEN {failing} WHEN a = 'Zed' THEN b ELSE TRUE END"),
            format!("a <> 'Bob' OR {failing}"),
            format!("a = 'Bob' AND {failing}"),
        ] {
            assert!(prepare(&schema(), &query(Some(&sql), &["x"])).is_err(), "{sql}");
        }
    }
}

/// The values of operations that are errors or integers in other SQL engines.
#[test]
fn the_values_are_those_of_real_numbers() {
    let rows = {
        let whole = extremes();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Float64Array::from(vec![Some(-4.0), Some(0.0), None])),
            Arc::new(Float64Array::from(vec![Some(2.0), Some(-1.0), Some(1.0)])),
            Arc::new(Int64Array::from(vec![Some(7), Some(i64::MIN), None])),
            Arc::new(Int64Array::from(vec![Some(2), Some(-1), Some(0)])),
        ];
        let columns = columns.into_iter().chain(whole.columns()[4..].iter().map(|column| column.slice(0, 3)));
        RecordBatch::try_new(Arc::new(schema()), columns.collect()).expect("rows")
    };
    let mut fixture = Fixture::new(1);
    fixture.write(0, &rows, &[false; 3]);
    for (sql, expected) in [
        ("i / j", [Some(3.5), Some(9_223_372_036_854_775_808.0), None]),
        ("i % j", [Some(1.0), Some(0.0), None]),
        ("x / j", [Some(-2.0), Some(0.0), None]),
        ("y / 0", [Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(f64::INFINITY)]),
        ("sqrt(x)", [None, Some(0.0), None]),
        ("power(x, y)", [Some(16.0), None, None]),
        ("-i", [Some(-7.0), Some(9_223_372_036_854_775_808.0), None]),
        ("coalesce(x, y)", [Some(-4.0), Some(0.0), Some(1.0)]),
        ("CAST(CAST(i AS INT) AS DOUBLE)", [Some(7.0), None, None]),
    ] {
        let found = fixture.records(&schema(), (0, 0), Lane::Train, &query(None, &[sql]), |record| record.number(0));
        assert_eq!(found, Ok(expected.to_vec()), "{sql}");
    }
}
