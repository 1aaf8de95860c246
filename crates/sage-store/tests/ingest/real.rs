//! Real rows, if they are available: a year of taxi rides, five months of flights, and sales of a shop.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use sage_store::ingest::{Reason, Source};

use crate::fixture::{Fixture, real};

const TAXI: &str = include_str!("taxi.toml");
const FLIGHTS: &str = include_str!("flights.toml");
const RETAIL: &str = include_str!("retail.toml");

#[test]
fn taxi_rides_are_stored_by_hour() {
    let Some(file) = real("taxi_green_2023.parquet") else { return };
    let fixture = Fixture::new(TAXI);
    let ingested = fixture.ingest(Source::path(file), "2023").expect("rides");
    let report = &ingested.report;
    assert_eq!(report.read, 787_060);
    // The clocks of a few cabs are wrong by years, so their rides are in no hour of 2023.
    assert!((1..1000).contains(&report.quarantined), "{}", report.quarantined);
    assert!(report.stored > 780_000, "{report:?}");
    assert!(report.changed.contains_key(&("trip_distance".to_owned(), Reason::Outside)));
    let hours: BTreeSet<&str> = ingested.manifest.parts.iter().map(|part| part.block.as_str()).collect();
    assert!((8_700..=8_784).contains(&hours.len()), "{} hours", hours.len());
    let rows: usize = fixture.stored(&ingested.manifest.parts).iter().map(|part| part.rows.num_rows()).sum();
    assert_eq!(rows as u64, report.stored);
    assert!(ingested.manifest.to_bytes().expect("canonical").len() < 42 * ingested.manifest.parts.len() + 200);
}

#[test]
fn flights_are_stored_by_day_and_declared_airport() {
    let Some(file) = real("flights_2001_01_05.parquet") else { return };
    let fixture = Fixture::new(FLIGHTS);
    let ingested = fixture.ingest(Source::path(file), "flights").expect("flights");
    assert_eq!(ingested.report.read, 2_497_772);
    assert!(ingested.report.stored > 2_400_000, "{:?}", ingested.report);
    let days: BTreeSet<&str> = ingested.manifest.parts.iter().filter_map(|part| part.block.split('/').next()).collect();
    assert_eq!(days.len(), 151, "January to May");
    let airports: BTreeSet<&str> =
        ingested.manifest.parts.iter().filter_map(|part| part.block.split('/').nth(1)).collect();
    assert_eq!(airports.into_iter().collect::<Vec<_>>(), ["origin=ATL", "origin=ORD", "origin=elsewhere"]);
}

#[test]
fn a_customer_of_the_shop_is_in_one_lane() {
    let Some(file) = real("online_retail_2009_2010.parquet") else { return };
    let fixture = Fixture::new(RETAIL);
    let ingested = fixture.ingest(Source::path(file), "2009 to 2010").expect("sales");
    assert_eq!(ingested.report.read, 525_461);
    assert!(ingested.report.dropped.contains_key(&("CustomerID".to_owned(), Reason::Absent)));
    let mut lanes: BTreeMap<i64, BTreeSet<bool>> = BTreeMap::new();
    for part in fixture.stored(&ingested.manifest.parts) {
        let levels = fixture.stream.blocks.parse(&part.block).expect("a key");
        let users = part.rows.column_by_name("CustomerID").expect("users").as_primitive::<Int64Type>();
        let lane = part.rows.column_by_name("_lane").expect("lanes").as_boolean();
        for row in 0..part.rows.num_rows() {
            assert_eq!(levels.users, Some(users.value(row) / 1000 * 1000));
            lanes.entry(users.value(row)).or_default().insert(lane.value(row));
        }
    }
    assert!(lanes.len() > 4000 && lanes.values().all(|lanes| lanes.len() == 1));
}
