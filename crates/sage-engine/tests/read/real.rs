//! Real rows: what the reader makes of them is what plain DataFusion makes of them.

use arrow::array::AsArray;
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int64Type, Schema};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sage_kernel::Lane;

use crate::yard::{Yard, query};

const FILTER: &str = "trip_distance > 0 AND trip_distance < 100 AND payment_type IN (1, 2)";
const COLUMNS: [&str; 3] = [
    "extract(epoch from lpep_dropoff_datetime) - extract(epoch from lpep_pickup_datetime)",
    "CASE WHEN store_and_fwd_flag = 'Y' THEN 1 ELSE 0 END",
    "extract(hour from lpep_pickup_datetime)",
];

#[test]
fn the_green_taxis_of_2023() {
    let Some(folder) = std::env::var_os("SAGE_DATA") else {
        println!("SAGE_DATA is not set: the test on real taxi rides was left out");
        return;
    };
    let path = std::path::Path::new(&folder).join("taxi_green_2023.parquet");
    let file = std::fs::File::open(&path).expect("the rides are there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
    let batches: Vec<_> = reader.map(|batch| batch.expect("rows")).collect();
    let rows = concat_batches(&batches[0].schema(), &batches).expect("one schema");
    let schema: Schema = rows.schema().as_ref().clone();
    let mut yard = Yard::new(1);
    yard.write(0, &rows, &vec![false; rows.num_rows()]);
    let asked = query(Some(FILTER), &COLUMNS);
    let record = |record: sage_engine::read::Record<'_>| [0, 1, 2].map(|place| record.number(place).unwrap_or(0.0));
    let found = yard.records(&schema, (0, 0), Lane::Train, &asked, record).expect("reads");
    let sums = [0, 1, 2].map(|place| found.iter().map(|values| values[place]).sum::<f64>());

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let text = format!(
        "SELECT count(*), {} FROM rides WHERE {FILTER}",
        COLUMNS.map(|sql| format!("CAST(sum({sql}) AS DOUBLE)")).join(", ")
    );
    let expected = runtime.block_on(async {
        let context = SessionContext::new();
        let path = path.to_str().expect("a path");
        context.register_parquet("rides", path, ParquetReadOptions::default()).await?;
        context.sql(&text).await?.collect().await
    });
    let expected = &expected.expect("DataFusion answers")[0];
    assert_eq!(found.len() as i64, expected.column(0).as_primitive::<Int64Type>().value(0));
    for (place, sum) in sums.into_iter().enumerate() {
        let other = expected.column(place + 1).as_primitive::<Float64Type>().value(0);
        assert!((sum - other).abs() <= 1e-9 * other.abs(), "{}: {sum} and {other}", COLUMNS[place]);
    }
}
