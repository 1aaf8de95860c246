//! User-level units: a user's records in a block are one row of the session, and their selection does not depend on
//! other users.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::yard::{Fixture, by_user, query};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use sage_kernel::{Lane, Rows};

fn schema() -> Schema {
    Schema::new(vec![Field::new("rider", DataType::Utf8, true), Field::new("value", DataType::Int64, false)])
}

type Records<'a> = &'a [(Option<&'a str>, i64)];

fn rows(records: Records<'_>) -> RecordBatch {
    let riders = StringArray::from_iter(records.iter().map(|(rider, _)| *rider));
    let values = Int64Array::from_iter_values(records.iter().map(|(_, value)| *value));
    let columns: Vec<ArrayRef> = vec![Arc::new(riders), Arc::new(values)];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

/// The selected values of each rider, by the parts of one block.
fn kept(parts: &[Records<'_>], most: usize, filter: Option<&str>) -> Vec<(String, Vec<i64>)> {
    let mut fixture = Fixture::new(1);
    for part in parts {
        fixture.write(0, &rows(part), &vec![false; part.len()]);
    }
    let selected = query(filter, &["value", "rider"]);
    let read = fixture.declared(&schema(), (0, 0), &selected, &by_user("rider", most)).expect("reads");
    let mut units = Vec::new();
    for batch in read.lane(Lane::Train) {
        for index in 0..batch.count() {
            let row = batch.row(index);
            let values: Vec<i64> = row.records().map(|record| record.integer(0).expect("a value")).collect();
            assert_eq!(row.integer(0), values.first().copied(), "a row's values are its first record's");
            let riders: Vec<&str> = row.records().map(|record| record.text(1).expect("a rider")).collect();
            assert!(riders.iter().all(|rider| *rider == riders[0]));
            units.push((riders[0].to_owned(), values));
        }
    }
    units
}

#[test]
fn a_user_is_one_row_whatever_the_parts() {
    let whole: Records<'_> =
        &[(Some("a"), 1), (Some("b"), 2), (Some("a"), 3), (None, 4), (Some("a"), 5), (Some("b"), 6), (None, 7)];
    let mut expected = BTreeMap::from([("a".to_owned(), vec![1, 3, 5]), ("b".to_owned(), vec![2, 6])]);
    for split in [vec![whole], vec![&whole[..3], &whole[3..]], vec![&whole[3..], &whole[..3]]] {
        let mut units = BTreeMap::from_iter(kept(&split, 10, None));
        units.values_mut().for_each(|values| values.sort_unstable());
        assert_eq!(units, expected);
    }
    expected.insert("a".to_owned(), vec![3, 5]);
    let mut units = BTreeMap::from_iter(kept(&[whole], 10, Some("value > 1")));
    units.values_mut().for_each(|values| values.sort_unstable());
    assert_eq!(units, expected, "filtered before they are grouped");
}

/// The sensitivity: adding or removing one user changes nothing about the others.
#[test]
fn other_users_do_not_change_the_selection() {
    let mut records: Vec<(Option<&str>, i64)> = Vec::new();
    for value in 0..200 {
        records.push((Some(["a", "b", "c", "d"][value as usize % 4]), value / 3));
    }
    let with = kept(&[&records], 5, None);
    let without: Vec<_> = records.iter().copied().filter(|(rider, _)| *rider != Some("b")).collect();
    let expected: Vec<_> = with.iter().filter(|(rider, _)| rider != "b").cloned().collect();
    assert_eq!(kept(&[&without], 5, None), expected);
    let backwards: Vec<_> = records.iter().copied().rev().collect();
    assert_eq!(kept(&[&backwards[..77], &backwards[77..]], 5, None), with, "nor does the location of the records");
    assert!(with.iter().all(|(_, values)| values.len() == 5));
}

/// The selection does not favour values, large or small, rare or frequent.
#[test]
fn records_are_drawn_fairly() {
    let riders: Vec<String> = (0..4_000).map(|rider| format!("rider {rider}")).collect();
    // Of the five records of each rider, three are equal.
    let records: Vec<(Option<&str>, i64)> =
        riders.iter().flat_map(|rider| [1, 7, 7, 7, 9].map(|value| (Some(rider.as_str()), value))).collect();
    let mut drawn = BTreeMap::new();
    for (_, values) in kept(&[&records], 1, None) {
        *drawn.entry(values[0]).or_insert(0) += 1;
    }
    // Expected 800, 2400, 800; the standard deviations are below 31.
    for (value, expected) in [(1, 800), (7, 2_400), (9, 800)] {
        let found: i64 = drawn[&value];
        assert!((found - expected).abs() < 200, "{value}: {found}, expected about {expected}");
    }
}
