//! How well the duration can be predicted: by its mean, by a linear model, and by a table of combinations.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int16Type, Int32Type, TimestampMicrosecondType};
use sage_engine::generate::Taxi;

/// The numbers of categories of the features.
const BOUNDS: [usize; 5] = [24, 7, 15, 4, 4];
const DISTANCES: [f64; 14] = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0];

/// A ride: hour, weekday, bucket of the distance, ring around the centre, weather; and its label.
type Ride = ([usize; 5], f64);

/// The rides that are not dirty. The label is the duration as a share of 2.5 hours.
fn rides(batch: &RecordBatch) -> Vec<Ride> {
    let column = |name: &str| batch.column_by_name(name).expect("a column");
    let times = column("pickup").as_primitive::<TimestampMicrosecondType>();
    let distances = column("distance").as_primitive::<Float64Type>();
    let durations = column("duration").as_primitive::<Int32Type>();
    let zones = column("pickup_zone").as_primitive::<Int16Type>();
    let weather = column("weather").as_string::<i32>();
    let clean = (0..batch.num_rows()).filter(|&row| {
        times.is_valid(row) && durations.value(row) > 0 && durations.value(row) <= 9_000 && distances.value(row) < 500.0
    });
    let ride = |row: usize| {
        let hour = times.value(row).div_euclid(3_600_000_000) as usize;
        let miles = distances.value(row);
        let bucket = DISTANCES.iter().filter(|&&limit| miles >= limit).count();
        let zone = zones.value(row);
        let away = (f64::from(zone / 16) - 7.5).hypot(f64::from(zone % 16) - 7.5);
        let ring = [2.5, 4.5, 6.5].iter().filter(|&&limit| away >= limit).count();
        let sky = ["clear", "rain", "snow", "fog"].iter().position(|name| *name == weather.value(row));
        let seen = [hour % 24, (hour / 24 + 3) % 7, bucket, ring, sky.expect("a weather")];
        (seen, f64::from(durations.value(row)) / 9_000.0)
    };
    clean.map(ride).collect()
}

fn mean_squared_error(rides: &[Ride], predict: impl Fn(&[usize; 5]) -> f64) -> f64 {
    rides.iter().map(|(seen, label)| (predict(seen) - label).powi(2)).sum::<f64>() / rides.len() as f64
}

/// Ridge regression on one-hot features: the weights of all categories, feature by feature.
fn ridge(rides: &[Ride]) -> Vec<f64> {
    let width: usize = BOUNDS.iter().sum();
    let mut system = vec![vec![0.0; width + 1]; width];
    for (seen, label) in rides {
        for row in columns(seen) {
            for column in columns(seen) {
                system[row][column] += 1.0;
            }
            system[row][width] += label;
        }
    }
    (0..width).for_each(|column| system[column][column] += 1.0);
    for pivot in 0..width {
        let row = system[pivot].clone();
        for (_, other) in system.iter_mut().enumerate().filter(|(column, _)| *column != pivot) {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(&row).for_each(|(to, from)| *to -= factor * from);
        }
    }
    (0..width).map(|column| system[column][width] / system[column][column]).collect()
}

fn columns(seen: &[usize; 5]) -> [usize; 5] {
    let mut first = 0;
    let mut columns = [0; 5];
    for ((column, value), bound) in columns.iter_mut().zip(seen).zip(BOUNDS) {
        *column = first + value;
        first += bound;
    }
    columns
}

/// A table of combinations: hour, weekend or not, distance, ring and weather. Rare ones are smoothed by the other
/// model.
fn combinations(rides: &[Ride], lean: impl Fn(&[usize; 5]) -> f64) -> impl Fn(&[usize; 5]) -> f64 {
    let cell = |seen: &[usize; 5]| (((seen[0] * 2 + seen[1] / 5) * 15 + seen[2]) * 4 + seen[3]) * 4 + seen[4];
    let mut table = vec![(0.0, 0.0); 24 * 2 * 15 * 4 * 4];
    for (seen, label) in rides {
        let entry: &mut (f64, f64) = &mut table[cell(seen)];
        entry.0 += label - lean(seen);
        entry.1 += 1.0;
    }
    move |seen| lean(seen) + table[cell(seen)].0 / (table[cell(seen)].1 + 5.0)
}

#[test]
fn a_linear_model_is_good_and_a_better_one_is_better() {
    let days = ["2023-01-01".parse().expect("a day"), "2024-01-01".parse().expect("a day")];
    let taxi = Taxi::until(1_500_000, days[0], days[1], 11).expect("a stream");
    let (mut learnt, mut held) = (Vec::new(), Vec::new());
    for (chunk, batch) in taxi.batches().enumerate() {
        if chunk % 4 == 3 { held.extend(rides(&batch)) } else { learnt.extend(rides(&batch)) }
    }
    let mean = learnt.iter().map(|(_, label)| label).sum::<f64>() / learnt.len() as f64;
    let weights = ridge(&learnt);
    let linear = |seen: &[usize; 5]| columns(seen).iter().map(|&column| weights[column]).sum::<f64>();
    let table = combinations(&learnt, linear);
    let errors =
        [mean_squared_error(&held, |_| mean), mean_squared_error(&held, linear), mean_squared_error(&held, table)];
    println!("mean squared errors: {errors:?}");
    for (found, expected) in errors.into_iter().zip([0.0074, 0.0031, 0.0020]) {
        assert!((found / expected - 1.0).abs() < 0.05, "{errors:?}");
    }
}
