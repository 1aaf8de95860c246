//! The distribution of the rides, and writing them to files.

use std::path::PathBuf;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int32Type, TimestampMicrosecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sage_engine::generate::{CHUNK, DIRTY, Day, Taxi, TaxiError, WriteError, WrittenFiles, write};
use tempfile::TempDir;

fn day(text: &str) -> Day {
    text.parse().expect("a day")
}

fn whole(taxi: &Taxi) -> RecordBatch {
    concat_batches(&Taxi::schema(), &taxi.batches().collect::<Vec<_>>()).expect("one schema")
}

fn read_back(written: &WrittenFiles) -> RecordBatch {
    let mut batches = Vec::new();
    for path in &written.files {
        let file = std::fs::File::open(path).expect("the file is there");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
        batches.extend(reader.map(|batch| batch.expect("rows")));
    }
    concat_batches(&Taxi::schema(), &batches).expect("one schema")
}

#[test]
fn a_seed_gives_the_same_rides_whatever_the_files() {
    let rows = 3 * CHUNK + 1_234;
    let taxi = |seed| Taxi::new(rows, day("2026-03-02"), seed).expect("a stream");
    let expected = whole(&taxi(7));
    assert_eq!(expected.num_rows() as u64, rows);
    for files in [None, Some(1), Some(3), Some(4)] {
        let folder = TempDir::new().expect("a folder");
        let written = write(&taxi(7), &folder.path().join("new"), files).expect("written");
        assert_eq!(written.files.len() as u64, files.unwrap_or(2));
        assert!(written.bytes > 0);
        assert!(read_back(&written) == expected, "{files:?} files");
    }
    assert!(whole(&taxi(8)) != expected);
    let chunk = taxi(7).chunk(2);
    let slice = expected.slice(2 * CHUNK as usize, CHUNK as usize);
    assert!(chunk == slice, "a chunk needs no other");
}

/// A day can be sealed once no later chunk has a ride of it.
#[test]
fn complete_hours_stay_complete() {
    for seed in [1, 2, 3] {
        let taxi = Taxi::until(5 * CHUNK + 77, day("2026-01-01"), day("2026-03-01"), seed).expect("a stream");
        let mut before = i64::MIN;
        for chunks in 0..=taxi.chunks() {
            let complete = taxi.complete_until(chunks);
            assert!(complete > before, "seed {seed}: {chunks} chunks complete nothing");
            let later = (chunks..taxi.chunks()).flat_map(|number| {
                let rides = taxi.chunk(number);
                let times = rides.column(0).as_primitive::<TimestampMicrosecondType>();
                times.iter().flatten().collect::<Vec<i64>>()
            });
            assert!(later.min().is_none_or(|first| first >= complete), "seed {seed}, {chunks} chunks");
            before = complete;
        }
        assert_eq!(before, 1_772_323_200_000_000, "seed {seed}: the first of March");
    }
}

#[test]
fn rides_are_in_order_and_follow_daily_patterns() {
    let taxi = Taxi::until(1_000_000, day("2026-03-02"), day("2026-04-27"), 1).expect("a stream");
    let rides = whole(&taxi);
    let times = rides.column(0).as_primitive::<TimestampMicrosecondType>();
    let known: Vec<i64> = times.iter().flatten().collect();
    assert!(known.is_sorted());
    let hours: Vec<i64> = known.iter().map(|time| time.div_euclid(3_600_000_000)).collect();
    let (first, last) = (hours[0], hours[hours.len() - 1]);
    // Eight weeks from a Monday on.
    assert_eq!((first, last - first + 1), (492_336, 8 * 168));
    let share = |wanted: &dyn Fn(i64) -> bool| {
        hours.iter().filter(|&&hour| wanted(hour - first)).count() as f64 / hours.len() as f64
    };
    let (evening, night) = (share(&|hour| hour % 24 == 17), share(&|hour| hour % 24 == 4));
    assert!(evening > 0.065 && night < 0.012, "{evening} in the evening, {night} at night");
    let (thursday, sunday) = (share(&|hour| hour / 24 % 7 == 3), share(&|hour| hour / 24 % 7 == 6));
    assert!(thursday > 1.2 * sunday, "{thursday} on Thursdays, {sunday} on Sundays");
    let taxi = Taxi::new(42_240, day("2026-03-02"), 1).expect("a stream");
    let span = whole(&taxi).column(0).as_primitive::<TimestampMicrosecondType>().iter().flatten().max();
    assert_eq!(span.expect("a time") / 3_600_000_000 - first, 9, "about 4,200 an hour");
}

#[test]
fn rides_are_dirty_as_documented() {
    let rides = whole(&Taxi::new(1_000_000, day("2026-03-02"), 3).expect("a stream"));
    let column = |name: &str| rides.column_by_name(name).expect("a column");
    let distances = column("distance").as_primitive::<Float64Type>();
    let prices = column("price").as_primitive::<Float64Type>();
    let durations = column("duration").as_primitive::<Int32Type>();
    let expected = rides.num_rows() as f64 * DIRTY as f64 / 65_536.0;
    for (what, found) in [
        ("no time", column("pickup").null_count()),
        ("no passengers", column("passengers").null_count()),
        ("no payment", column("payment").null_count()),
        ("negative duration", durations.values().iter().filter(|&&seconds| seconds <= 0).count()),
        ("absurd distance", distances.values().iter().filter(|&&miles| miles > 500.0).count()),
        ("no price", prices.values().iter().filter(|price| price.is_nan()).count()),
    ] {
        assert!((found as f64 - expected).abs() < 0.2 * expected, "{what}: {found}, expected {expected}");
    }
}

#[test]
fn nothing_is_overwritten() {
    let taxi = Taxi::new(1_000, day("2026-03-02"), 3).expect("a stream");
    let folder = TempDir::new().expect("a folder");
    assert_eq!(write(&taxi, folder.path(), None).expect("an empty folder will do").files.len(), 1);
    let again = write(&taxi, folder.path(), None);
    assert!(matches!(again, Err(WriteError::NotEmpty { .. })));
    let file = folder.path().join("taxi-00000.parquet");
    let through: PathBuf = file.join("below");
    assert!(matches!(write(&taxi, &through, None), Err(WriteError::Unwritable { .. })));
    for files in [0, 2, u64::MAX] {
        let folder = TempDir::new().expect("a folder");
        assert!(matches!(write(&taxi, folder.path(), Some(files)), Err(WriteError::Files)), "{files}");
    }
}

#[test]
fn invalid_arguments_are_refused() {
    for text in ["", "2026-02-30", "26-01-01", "2026-01-01T00:00:00", "1066-10-14", "9999-01-01"] {
        assert_eq!(text.parse::<Day>(), Err(TaxiError::Day), "{text}");
    }
    let monday = day("2026-03-02");
    for (rows, end, expected) in [
        (0, "2026-03-03", TaxiError::Rows),
        (u64::MAX, "2026-03-03", TaxiError::Rows),
        (1, "2026-03-02", TaxiError::End),
        (1, "2026-03-01", TaxiError::End),
        (1, "2199-01-01", TaxiError::End),
    ] {
        assert_eq!(Taxi::until(rows, monday, day(end), 1).err(), Some(expected), "{rows} until {end}");
    }
    assert_eq!(Taxi::new(0, monday, 1).err(), Some(TaxiError::Rows));
}
