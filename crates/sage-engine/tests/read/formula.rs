//! A model's graph computes the same values as the reader, and refuses expressions that it cannot contain.

use std::sync::Arc;

use arrow::array::TimestampMicrosecondArray;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use sage_engine::read::{Expression, QueryRefusal, formula};
use sage_kernel::Lane;
use sage_model::formula as graph;
use sage_model::formula::{Cell, Domain, Formula, Missing};

use crate::yard::{Fixture, query};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("x", DataType::Float64, true),
        Field::new("n", DataType::Int64, true),
        Field::new("b", DataType::Boolean, true),
        Field::new("kind", DataType::Utf8, true),
    ])
}

fn columns() -> graph::Schema {
    let column = |name: &str, domain, missing| graph::Column { name: name.to_owned(), domain, missing };
    let kinds = vec!["red".to_owned(), "green".to_owned(), "blue".to_owned()];
    let columns = vec![
        column("at", Domain::Time { first: -9_000_000_000, last: 9_000_000_000 }, Missing::Never),
        column("x", Domain::Number { low: -200.0, high: 200.0 }, Missing::Possible),
        column("n", Domain::Whole { low: -10, high: 10 }, Missing::Possible),
        column("b", Domain::Truth, Missing::Possible),
        column("kind", Domain::Text { categories: kinds }, Missing::Possible),
    ];
    graph::Schema::new(columns, Vec::new()).expect("columns")
}

/// A row as cells: time, number, integer, boolean, text.
fn row(seed: &mut u64) -> Vec<Cell> {
    let mut below = |bound: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % bound
    };
    let maybe = |there: bool, cell: Cell| if there { cell } else { Cell::Null };
    vec![
        Cell::Whole(below(8_000_000_000) as i64 - 4_000_000_000),
        maybe(below(9) > 0, Cell::Number(below(2_001) as f64 / 8.0 - 125.0)),
        maybe(below(9) > 0, Cell::Whole(below(21) as i64 - 10)),
        maybe(below(9) > 0, Cell::Truth(below(2) == 1)),
        maybe(below(9) > 0, Cell::Text(["red", "green", "blue", "grey"][below(4) as usize].to_owned())),
    ]
}

fn batch(rows: &[Vec<Cell>]) -> RecordBatch {
    let whole = |index: usize| rows.iter().map(move |row| if let Cell::Whole(n) = row[index] { Some(n) } else { None });
    let number = rows.iter().map(|row| if let Cell::Number(x) = row[1] { Some(x) } else { None });
    let truth = rows.iter().map(|row| if let Cell::Truth(b) = row[3] { Some(b) } else { None });
    let text = rows.iter().map(|row| if let Cell::Text(text) = &row[4] { Some(text.as_str()) } else { None });
    let times = whole(0).map(|time| time.map(|seconds| seconds * 1_000_000));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from_iter(times)),
        Arc::new(Float64Array::from_iter(number)),
        Arc::new(Int64Array::from_iter(whole(2))),
        Arc::new(BooleanArray::from_iter(truth)),
        Arc::new(StringArray::from_iter(text)),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

const NUMBERS: &[&str] = &[
    "x * 2 + n",
    "x / n",
    "n % 3 - x",
    "-x + abs(n)",
    "floor(x / 7) * 7",
    "ceil(x) + round(x) + trunc(x) + signum(x)",
    "sqrt(x)",
    "power(x, 2)",
    "power(n, -1)",
    "CASE WHEN x > 0 AND n <= 3 THEN x WHEN b THEN 1 ELSE n END",
    "CASE n WHEN 1 THEN 10 WHEN 2 THEN 20 END",
    "CASE kind WHEN 'red' THEN 1 WHEN 'green' THEN 2 ELSE 3 END",
    "coalesce(x, n, 0.5)",
    "nullif(n, 3)",
    "CAST(b AS DOUBLE) + 1",
    "extract(hour from at)",
    "extract(dow from at)",
    "extract(year from at) * 12 + extract(month from at)",
    "extract(day from at) + extract(minute from at) / 60 + extract(second from at) + extract(quarter from at)",
    "extract(epoch from at)",
    "n",
    "x",
];

const TRUTHS: &[&str] = &[
    "x > n",
    "x >= 5 OR b",
    "NOT b AND x <> 3",
    "x BETWEEN -10 AND n",
    "n NOT BETWEEN 1 AND 5",
    "n IN (1, 2, 7)",
    "n NOT IN (1, 2)",
    "kind = 'red'",
    "kind <> 'red'",
    "'blue' = kind",
    "kind IN ('red', 'blue')",
    "kind NOT IN ('red', 'blue')",
    "x IS NULL",
    "kind IS NOT NULL",
    "b IS TRUE",
    "b IS NOT FALSE",
    "b IS UNKNOWN",
    "b",
];

fn translated(sql: &str) -> Result<Formula, QueryRefusal> {
    formula(&schema(), &Expression { name: "feature".to_owned(), sql: sql.to_owned() })
}

#[test]
fn the_reader_and_the_graph_agree() {
    let mut seed = 20_261_116;
    println!("seed {seed}");
    let rows: Vec<Vec<Cell>> = (0..600).map(|_| row(&mut seed)).collect();
    let mut fixture = Fixture::new(1);
    fixture.write(0, &batch(&rows), &vec![false; rows.len()]);
    let columns = columns();
    for (sqls, truths) in [(NUMBERS, false), (TRUTHS, true)] {
        let read = fixture.records(&schema(), (0, 0), Lane::Train, &query(None, sqls), |record| {
            (0..sqls.len()).map(|index| record.number(index)).collect::<Vec<Option<f64>>>()
        });
        let read = read.expect("rows");
        for (index, sql) in sqls.iter().enumerate() {
            let formula = translated(sql).expect("a formula");
            let kind = formula.check(&columns).expect("a valid formula");
            assert_eq!(kind == graph::Kind::Truth, truths, "{sql}");
            for (row, read) in rows.iter().zip(&read) {
                let found = match formula.evaluate(&columns, row) {
                    Cell::Number(number) => Some(number),
                    Cell::Truth(truth) => Some(f64::from(u8::from(truth))),
                    _ => None,
                };
                let same = match (found, read[index]) {
                    (Some(one), Some(other)) => one == other || (one.is_nan() && other.is_nan()),
                    (one, other) => one == other,
                };
                assert!(same, "{sql} of {row:?}: {found:?} in the graph, {:?} by the reader", read[index]);
            }
        }
    }
}

/// A refusal names the unsupported part and the alternatives.
#[test]
fn unsupported_expressions_are_refused_by_name() {
    for (sql, part) in [
        ("upper(kind) = 'RED'", "upper"),
        ("length(kind)", "length"),
        ("x + log10(n)", "log10"),
        ("kind || 'x' = 'redx'", "||"),
        ("kind LIKE 'r%'", "LIKE"),
        ("date_trunc('day', at) = at", "date_trunc"),
        ("extract(week from at)", "date_part"),
        ("CAST(x AS BIGINT)", "CAST"),
        ("round(x, 2)", "round"),
        ("greatest(x, n)", "greatest"),
    ] {
        let refusal = translated(sql).expect_err(sql);
        let QueryRefusal::Part { part: named, why, .. } = &refusal else { panic!("{sql}: {refusal}") };
        assert!(named.to_lowercase().contains(&part.to_lowercase()), "{sql}: {refusal}");
        assert!(why.contains("graph"), "{sql}: {refusal}");
    }
    // Invalid expressions are refused as everywhere.
    assert!(translated("sum(x)").is_err() && translated("nothing + 1").is_err());
}
