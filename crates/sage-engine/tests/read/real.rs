//! Real rows: the reader computes the same values as a plain loop over the file.

use arrow::array::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type, Int64Type, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sage_kernel::Lane;

use crate::yard::{Fixture, query};

const FILTER: &str = "trip_distance > 0 AND trip_distance < 100 AND payment_type IN (1, 2)";
const COLUMNS: [&str; 3] = [
    "extract(epoch from lpep_dropoff_datetime) - extract(epoch from lpep_pickup_datetime)",
    "CASE WHEN store_and_fwd_flag = 'Y' THEN 1 ELSE 0 END",
    "extract(hour from lpep_pickup_datetime)",
];

#[test]
fn the_green_taxis_of_2023() {
    let Some(folder) = std::env::var_os("SAGE_DATA") else {
        println!("SAGE_DATA is not set: the test on real taxi rides is skipped");
        return;
    };
    let path = std::path::Path::new(&folder).join("taxi_green_2023.parquet");
    let file = std::fs::File::open(&path).expect("the rides are there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
    let batches: Vec<_> = reader.map(|batch| batch.expect("rows")).collect();
    let rows = concat_batches(&batches[0].schema(), &batches).expect("one schema");
    let schema: Schema = rows.schema().as_ref().clone();
    let mut fixture = Fixture::new(1);
    fixture.write(0, &rows, &vec![false; rows.num_rows()]);
    let selected = query(Some(FILTER), &COLUMNS);
    let record = |record: sage_engine::read::Record<'_>| [0, 1, 2].map(|index| record.number(index).unwrap_or(0.0));
    let found = fixture.records(&schema, (0, 0), Lane::Train, &selected, record).expect("reads");
    let sums = [0, 1, 2].map(|index| found.iter().map(|values| values[index]).sum::<f64>());

    let expected = plain(&rows);
    assert_eq!(found.len(), expected.len());
    for (index, sum) in sums.into_iter().enumerate() {
        let other: f64 = expected.iter().map(|values| values[index]).sum();
        assert!((sum - other).abs() <= 1e-9 * other.abs(), "{}: {sum} and {other}", COLUMNS[index]);
    }
}

/// The filter and the columns, row by row.
fn plain(rows: &RecordBatch) -> Vec<[f64; 3]> {
    let column = |name: &str| rows.column_by_name(name).expect("a column of the file");
    let real = |name: &str| cast(column(name), &DataType::Float64).expect("numbers");
    let seconds = |name: &str| {
        let micros = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
        let times = cast(column(name), &micros).expect("times");
        cast(&times, &DataType::Int64).expect("integers")
    };
    let flag = cast(column("store_and_fwd_flag"), &DataType::Utf8).expect("texts");
    let (distance, payment) = (real("trip_distance"), real("payment_type"));
    let (from, to) = (seconds("lpep_pickup_datetime"), seconds("lpep_dropoff_datetime"));
    let mut kept = Vec::new();
    for row in 0..rows.num_rows() {
        let number =
            |of: &arrow::array::ArrayRef| of.is_valid(row).then(|| of.as_primitive::<Float64Type>().value(row));
        let micros = |of: &arrow::array::ArrayRef| of.is_valid(row).then(|| of.as_primitive::<Int64Type>().value(row));
        let near = number(&distance).is_some_and(|distance| distance > 0.0 && distance < 100.0);
        if !near || !number(&payment).is_some_and(|payment| payment == 1.0 || payment == 2.0) {
            continue;
        }
        let forwarded = flag.is_valid(row) && flag.as_string::<i32>().value(row) == "Y";
        let lasted = micros(&to).zip(micros(&from)).map_or(0.0, |(to, from)| (to as f64 - from as f64) / 1e6);
        let hour = micros(&from).map_or(0, |from| from.div_euclid(3_600_000_000).rem_euclid(24));
        kept.push([lasted, f64::from(u8::from(forwarded)), hour as f64]);
    }
    kept
}
