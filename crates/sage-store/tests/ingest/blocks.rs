//! Blocks, lanes and late rows. A batch is all or nothing.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use sage_store::blocks::LANE_COLUMN;
use sage_store::ingest::{IngestError, Manifest, Source, file_name};

use crate::fixture::{Fixture, RIDES};

const HEADER: &str = "pickup,distance,people,paid,shared,note\n";

/// Rides that are spread evenly over a number of hours.
fn rides(rows: usize, hours: usize) -> String {
    let mut text = HEADER.to_owned();
    for row in 0..rows {
        let hour = row % hours;
        let (day, hour) = (1 + hour / 24 % 28, hour % 24);
        text.push_str(&format!("2026-11-{day:02} {hour:02}:10:00,{},{},card,true,row {row}\n", row % 90, row % 9));
    }
    text
}

#[test]
fn about_a_tenth_of_the_rows_are_in_the_test_lane() {
    let fixture = Fixture::new(RIDES);
    let file = fixture.file("rides.csv", rides(100_000, 48));
    let ingested = fixture.ingest(Source::path(file), "lanes").expect("rows");
    let stored = fixture.stored(&ingested.manifest.parts);
    assert_eq!(stored.len(), 48);
    let tests: usize =
        stored.iter().map(|part| part.rows.column_by_name(LANE_COLUMN).expect("lanes").as_boolean().true_count()).sum();
    // Five standard deviations of a hundred thousand draws are 474.
    assert!(tests.abs_diff(10_000) < 475, "{tests} of 100000 in the test lane");
    for part in &stored {
        assert_eq!(part.rows.num_columns(), 7);
        assert_eq!(part.rows.schema().field(6).name(), LANE_COLUMN);
        // Within a lane rows keep their order.
        let lanes = part.rows.column(6).as_boolean();
        let notes = part.rows.column(5).as_string::<i32>();
        let number = |row: usize| notes.value(row).trim_start_matches("row ").parse::<usize>().expect("a number");
        for row in 1..part.rows.num_rows() {
            assert!(lanes.value(row) != lanes.value(row - 1) || number(row - 1) < number(row));
        }
    }
}

#[test]
fn a_retried_batch_has_the_same_file_names_and_new_salts() {
    let fixture = Fixture::new(RIDES);
    let file = fixture.file("rides.csv", rides(1000, 5));
    let first = fixture.ingest(Source::path(&file), "again").expect("rows").manifest;
    let rows = fixture.texts(&first.parts);
    let second = fixture.ingest(Source::path(&file), "again").expect("rows").manifest;
    assert_eq!(fixture.texts(&second.parts), rows);
    let names = |manifest: &Manifest| manifest.parts.iter().map(|part| part.path("rides")).collect::<Vec<_>>();
    assert_eq!(names(&first), names(&second));
    assert_eq!(first.parts[0].file, file_name("again", 0));
    assert!(first.parts.iter().zip(&second.parts).all(|(one, other)| one.digest != other.digest), "salted");
    // The store has these files and no others.
    let mut expected: Vec<String> = names(&second);
    expected.extend(second.quarantine.iter().map(|part| part.path("rides")));
    expected.sort();
    assert_eq!(fixture.store.list("rides").expect("a list"), expected);
    let third = fixture.ingest(Source::path(&file), "another").expect("rows").manifest;
    assert!(names(&third).iter().all(|name| !expected.contains(name)));
    let bytes = third.to_bytes().expect("canonical");
    assert_eq!(Manifest::from_bytes(&bytes).as_ref(), Ok(&third));
}

#[test]
fn late_rows_are_treated_as_declared() {
    let closed = |key: &str| {
        key == "hour=2026-11-01T00" || key == "hour=2026-11-01T01/late=2026-11-16" || key == "hour=2026-11-01T01"
    };
    let late_block = RIDES.replace("unit = \"event\"", "unit = \"event\"\nlate = \"late-block\"");
    for (stream, expected, aside) in [
        (RIDES, &["hour=2026-11-01T02"][..], 20),
        (&late_block, &["hour=2026-11-01T00/late=2026-11-16", "hour=2026-11-01T02"], 10),
    ] {
        let fixture = Fixture::new(stream);
        let file = fixture.file("rides.csv", rides(30, 3));
        let ingested = fixture.ingest_with_closed(Source::path(file), "late", &closed).expect("rows");
        let blocks: Vec<&str> = ingested.manifest.parts.iter().map(|part| part.block.as_str()).collect();
        assert_eq!(blocks, expected);
        assert_eq!((ingested.report.quarantined, ingested.report.stored), (aside, 30 - aside));
        assert_eq!(fixture.texts(&ingested.manifest.quarantine).len() as u64, aside);
        assert_eq!(fixture.texts(&ingested.manifest.parts).len() as u64, 30 - aside);
    }
}

#[test]
fn the_manifest_does_not_reveal_whether_rows_were_quarantined() {
    let fixture = Fixture::new(RIDES);
    let clean = fixture.file("clean.csv", rides(10, 1));
    let dirty = fixture.file("dirty.csv", format!("{}soon,1,1,card,true,x\n", rides(10, 1)));
    let shape = |manifest: &Manifest| (manifest.parts.len(), manifest.quarantine.len());
    let clean = fixture.ingest(Source::path(clean), "clean").expect("rows").manifest;
    let dirty = fixture.ingest(Source::path(dirty), "dirty").expect("rows").manifest;
    assert_eq!(shape(&clean), shape(&dirty));
}

const USERS: &str = r#"
[stream]
name = "users"
unit = "user"
user = "who"
contribution = 5
time = "at"
blocks = { user_range = 100, time = "7d", attribute = "country" }
test_share = 0.3
[policy]
epsilon = 1
delta = 0
filter = "basic"
[[columns]]
name = "who"
type = "integer"
min = 0
max = 100_000
outside = "drop"
[[columns]]
name = "at"
type = "time"
[[columns]]
name = "country"
type = "category"
categories = ["FR", "D/E"]
"#;

#[test]
fn a_user_is_in_one_lane_in_all_batches() {
    let fixture = Fixture::new(USERS);
    let mut lanes: BTreeMap<i64, BTreeSet<bool>> = BTreeMap::new();
    for batch in 0..3 {
        let mut text = "who,at,country\n".to_owned();
        for row in 0..5000 {
            let country = ["FR", "D/E"][row % 2];
            text.push_str(&format!("{},2026-11-{:02},{country}\n", row * 7 % 1000, 1 + (row + batch) % 28));
        }
        let file = fixture.file("users.csv", text);
        let ingested = fixture.ingest(Source::path(file), &format!("batch {batch}")).expect("rows");
        for part in fixture.stored(&ingested.manifest.parts) {
            let levels = fixture.stream.blocks.parse(&part.block).expect("a key");
            let users = part.rows.column(0).as_primitive::<Int64Type>();
            let drawn = part.rows.column(3).as_boolean();
            for row in 0..part.rows.num_rows() {
                let user = users.value(row);
                assert_eq!(levels.users, Some(user / 100 * 100));
                lanes.entry(user).or_default().insert(drawn.value(row));
            }
        }
    }
    assert!(lanes.values().all(|lanes| lanes.len() == 1), "a user is in both lanes");
    let tests = lanes.values().filter(|lanes| lanes.contains(&true)).count();
    // Five standard deviations of a thousand users are 73.
    assert!(tests.abs_diff(300) < 73, "{tests} of {} users in the test lane", lanes.len());
}

#[test]
fn a_failed_batch_leaves_no_files() {
    let fixture = Fixture::new(RIDES);
    let broken = format!("{}2026-11-01,1\n", rides(200_000, 400));
    let file = fixture.file("rides.csv", broken);
    let error = fixture.ingest(Source::path(file), "broken").expect_err("a short row");
    assert!(matches!(error, IngestError::Malformed { line: Some(_), .. }), "{error}");
    fixture.assert_empty();
    for id in ["", "a\nb", &"x".repeat(257)] {
        let file = fixture.file("fine.csv", rides(10, 1));
        assert_eq!(fixture.ingest(Source::path(file), id), Err(IngestError::BatchId));
    }
    // A file in place of a folder makes the store fail in the middle of the batch.
    fixture.store.put("rides/hour=2026-11-01T03", bytes::Bytes::from_static(b"in the way")).expect("written");
    let file = fixture.file("fine.csv", rides(1000, 5));
    let error = fixture.ingest(Source::path(file), "in the way").expect_err("no folder");
    assert!(matches!(error, IngestError::Store(_)), "{error}");
    assert_eq!(fixture.store.list("rides").expect("a list"), ["rides/hour=2026-11-01T03"]);
}
