//! The reader computes the same values as a plain program, row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use sage_kernel::Lane;

use crate::yard::{Fixture, query};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("x", DataType::Float64, true),
        Field::new("n", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ])
}

/// One row of the plain program.
#[derive(Clone, Debug)]
struct Plain {
    time: i64,
    x: Option<f64>,
    n: Option<i64>,
    text: Option<&'static str>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn row(&mut self) -> Plain {
        const TEXTS: [&str; 6] = ["Ab", "xyz", "", "12", "-7.5", "a rather long text, longer than a view"];
        Plain {
            time: (self.below(4_000_000_000) as i64 - 1_000_000_000) * 1_000_000 + self.below(1_000_000) as i64,
            x: (self.below(10) > 0).then(|| self.below(2_001) as f64 / 8.0 - 125.0),
            n: (self.below(10) > 0).then(|| self.below(21) as i64 - 10),
            text: (self.below(10) > 0).then(|| TEXTS[self.below(6) as usize]),
        }
    }
}

fn batch(rows: &[Plain]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time))),
        Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.x))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.n))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.text))),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

const FILTER: &str = "x > n OR text LIKE '%x%'";
const COLUMNS: &[&str] = &[
    "x * n - 3",
    "CASE WHEN n > 0 THEN x / n ELSE coalesce(n, 99) END",
    "extract(hour from time)",
    "upper(text) || '!'",
    "x BETWEEN -10 AND 10 AND n NOT IN (1, 2)",
    "CAST(text AS DOUBLE)",
    "n",
];

/// SQL's three-valued OR.
fn either(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// The query's output for a row; `None` if the filter excludes it.
type Values = (Option<f64>, Option<f64>, Option<i64>, Option<String>, Option<bool>, Option<f64>, Option<i64>);

fn plain(row: &Plain) -> Option<Values> {
    let pair = row.x.zip(row.n.map(|n| n as f64));
    let kept = either(pair.map(|(x, n)| x > n), row.text.map(|text| text.contains('x')));
    let case = match row.n {
        Some(n) if n > 0 => row.x.map(|x| x / n as f64),
        Some(n) => Some(n as f64),
        None => Some(99.0),
    };
    let near = row.x.map(|x| (-10.0..=10.0).contains(&x));
    let other = row.n.map(|n| n != 1 && n != 2);
    let both = either(near.map(|near| !near), other.map(|other| !other)).map(|neither| !neither);
    (kept == Some(true)).then(|| {
        (
            pair.map(|(x, n)| x * n - 3.0),
            case,
            Some(row.time.div_euclid(3_600_000_000).rem_euclid(24)),
            row.text.map(|text| text.to_uppercase() + "!"),
            both,
            row.text.and_then(|text| text.parse().ok()),
            row.n,
        )
    })
}

#[test]
fn a_plain_program_computes_the_same() {
    let seed = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5a6e_0003);
    println!("SAGE_SEED={seed}");
    let mut random = Random(seed);
    for count in [0, 1, 7, 300, 20_000] {
        let rows: Vec<Plain> = (0..count).map(|_| random.row()).collect();
        let in_test_lane: Vec<bool> = (0..count).map(|_| random.below(10) == 0).collect();
        let mut fixture = Fixture::new(1);
        fixture.write(0, &batch(&rows), &in_test_lane);
        for lane in Lane::BOTH {
            let expected = rows.iter().zip(&in_test_lane).filter(|(_, test)| **test == (lane == Lane::Test));
            let expected: Vec<Values> = expected.filter_map(|(row, _)| plain(row)).collect();
            let found = fixture.records(&schema(), (0, 0), lane, &query(Some(FILTER), COLUMNS), |record| {
                let text = record.text(3).map(str::to_owned);
                let numbers = (record.number(0), record.number(1), record.integer(2));
                (numbers.0, numbers.1, numbers.2, text, record.boolean(4), record.number(5), record.integer(6))
            });
            assert_eq!(found.expect("reads"), expected, "{count} rows, {lane}");
        }
    }
}
