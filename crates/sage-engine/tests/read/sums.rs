//! Sessions on block summaries: they give the same results as sessions on rows, and nothing else.

use std::sync::Arc;

use crate::yard::{Fixture, by_user, query};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use sage_engine::read::{
    Batch, ReadError, Row, SummaryFunction, SummaryPlan, SummaryRetention, Unit, open, open_summed, prepare,
};
use sage_kernel::noise::SecureNoise;
use sage_kernel::{AccessMode, Contribution, Epsilon, Lane, SessionError, TableNoise};
use sage_learn::statistics::{GroupBy, StatisticError};

/// An ε so large that one row would be visible: the noise exceeds 0.05 rows with probability e^-50.
const LARGE_EPSILON: &str = "1000";
const TOLERANCE: f64 = 0.05;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("user", DataType::Int64, true),
        Field::new("value", DataType::Float64, true),
    ])
}

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let odd = [f64::NAN, f64::INFINITY, -1e300, 3.25, -0.0];
    let value =
        |number: i64| (number % 11 != 0).then(|| odd.get(number as usize % 40).copied().unwrap_or(number as f64));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers.clone())),
        Arc::new(Int64Array::from_iter(numbers.clone().map(|number| (number % 17 != 0).then_some(number % 90)))),
        Arc::new(Float64Array::from_iter(numbers.map(value))),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

/// Five blocks, one of them in two parts, one of them larger than a batch, one empty of test rows, one without a file.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new(6);
    let mut first = 0;
    for (block, count) in [(0, 700), (0, 300), (1, 40_000), (2, 1), (3, 500), (5, 900)] {
        let in_test_lane: Vec<bool> = (0..count).map(|index| block != 3 && index % 7 == 0).collect();
        fixture.write(block, &rows(first..first + count), &in_test_lane);
        first += count;
    }
    fixture
}

fn value(row: Row<'_>) -> Option<(u32, f64)> {
    Some((u32::try_from(row.integer(0)?).ok()?, row.number(1)?))
}

/// The identity conversion.
const fn same(batch: Batch) -> Batch {
    batch
}

/// Summarises both lanes for one session.
const fn once<'a>(sum: &'a SummaryFunction<'a, Batch>) -> SummaryPlan<'a, Batch> {
    SummaryPlan { lanes: &Lane::BOTH, sum, keep: SummaryRetention::Discard }
}

#[test]
fn summaries_give_the_results_of_rows() {
    let mut fixture = fixture();
    let noise = TableNoise::Laplace(Epsilon::cost(LARGE_EPSILON).expect("a loss"));
    let group = GroupBy { keys: 5, bounds: (-100.0, 5_000.0), noise };
    let of_rows = ["number % 6", "CASE WHEN value <> 5 THEN value * 2 END"];
    // Every grant samples the records of a user anew, so the records of a user are equal here.
    let of_users = ["user % 6", "CASE WHEN user <> 5 THEN user * 20 END"];
    for filter in [None, Some("number % 3 > 0")] {
        for (unit, columns) in [(Unit::Row, of_rows), (by_user("user", 3), of_users)] {
            let filtered = query(filter, &columns);
            for blocks in [(0, 5), (2, 3), (4, 4)] {
                let prepared = prepare(&schema(), &filtered).expect("allowed");
                let source = fixture.source();
                let mut lanes = Vec::new();
                for lane in Lane::BOTH {
                    let noise = || SecureNoise::new().expect("randomness");
                    let permit = fixture.permit_at(LARGE_EPSILON, blocks, &[lane], AccessMode::Enforced);
                    let mut from_rows = open(permit, noise(), &source, &prepared, &unit).expect("reads");
                    let permit = fixture.permit_at(LARGE_EPSILON, blocks, &[lane], AccessMode::Enforced);
                    let sum = |permit: &_, part, rows: &[Batch]| {
                        Ok(group.summarise(Contribution::ONE, permit, part, rows, value)?.into_iter().collect())
                    };
                    let opened = open_summed(permit, noise(), &source, &prepared, &unit, &same, &once(&sum));
                    let mut from_sums = opened.expect("reads");
                    let rows = group.run(&mut from_rows, lane, 0.05, value).expect("covered");
                    let sums = group.run(&mut from_sums, lane, 0.05, value).expect("covered");
                    for (one, other) in rows.iter().zip(&sums) {
                        let near = (one.count - other.count).abs() < TOLERANCE;
                        assert!(near && (one.sum - other.sum).abs() < 5_100.0 * TOLERANCE, "{one:?} {other:?}");
                    }
                    // The charge is for one table, from summaries as from rows.
                    let again = group.run(&mut from_sums, lane, 0.05, value).err();
                    assert_eq!(again, Some(StatisticError::Session(SessionError::NotCovered)));
                    lanes.push(rows.iter().map(|group| group.count).sum::<f64>());
                }
                assert!(blocks != (0, 5) || lanes.iter().all(|&rows| rows > 50.0), "{lanes:?}");
            }
        }
    }
}

/// Without rows, a session computes nothing else and shows no rows.
#[test]
fn summaries_serve_their_computation_only() {
    let mut fixture = fixture();
    let noise = TableNoise::Laplace(Epsilon::cost(LARGE_EPSILON).expect("a loss"));
    let group = GroupBy { keys: 5, bounds: (0.0, 1.0), noise };
    let prepared = prepare(&schema(), &query(None, &["number", "value"])).expect("allowed");
    let source = fixture.source();
    let sum = |permit: &_, part, rows: &[Batch]| {
        Ok(group.summarise(Contribution::ONE, permit, part, rows, value)?.into_iter().collect())
    };
    for other in [GroupBy { keys: 4, ..group }, GroupBy { bounds: (0.0, 2.0), ..group }] {
        let permit = fixture.permit_at(LARGE_EPSILON, (0, 1), &[Lane::Train], AccessMode::Enforced);
        let random = SecureNoise::new().expect("randomness");
        let mut session =
            open_summed(permit, random, &source, &prepared, &Unit::Row, &same, &once(&sum)).expect("reads");
        let answer = other.run(&mut session, Lane::Train, 0.05, value).err();
        assert!(matches!(answer, Some(StatisticError::Session(SessionError::Parameter(_)))), "{answer:?}");
    }
    let permit = fixture.permit_at(LARGE_EPSILON, (0, 1), &Lane::BOTH, crate::yard::attested_access());
    let random = SecureNoise::new().expect("randomness");
    let session = open_summed(permit, random, &source, &prepared, &Unit::Row, &same, &once(&sum)).expect("reads");
    assert!(session.into_attested().is_err());
    // A summary function that fails makes the read fail.
    let wrong = GroupBy { keys: 0, ..group };
    let sum = |permit: &_, part, rows: &[Batch]| {
        Ok(wrong.summarise(Contribution::ONE, permit, part, rows, value)?.into_iter().collect())
    };
    let permit = fixture.permit_at(LARGE_EPSILON, (0, 1), &[Lane::Train], AccessMode::Enforced);
    let random = SecureNoise::new().expect("randomness");
    let opened = open_summed(permit, random, &source, &prepared, &Unit::Row, &same, &once(&sum));
    assert_eq!(opened.err(), Some(ReadError::Failed));
}
