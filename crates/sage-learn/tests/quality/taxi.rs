//! A year of green-taxi rides: the duration of a ride.

use std::collections::BTreeMap;
use std::path::Path;

use sage_learn::encode::{Categories, Encoding, Field, FieldKind, Key, KeyKind, Label, LabelKind, Scale, Span, Stated};

use crate::table::{Table, real};

/// The longest ride that counts: two and a half hours, in milliseconds.
const LONGEST: f64 = 2.5 * HOUR;
const HOUR: f64 = 3.6e6;
const DAY: f64 = 24.0 * HOUR;
/// The first moment of 2023 and of 2024, in milliseconds.
const YEAR: (f64, f64) = (1_672_531_200e3, 1_704_067_200e3);
const PICKUP: &str = "lpep_pickup_datetime";

/// Edges between lengths of rides in miles, closer where there are more rides.
const MILES: [f64; 19] =
    [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.5, 10.0, 12.5, 16.0, 22.0];

/// The time of day as an angle.
fn time_of_day(table: &Table, row: usize) -> f64 {
    table.numbers(PICKUP)[row] % DAY / DAY * std::f64::consts::TAU
}

/// The zones of the city: longitude and latitude by number.
struct Zones(BTreeMap<u32, (f64, f64)>);

impl Zones {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a table");
        let zone = |line: &str| {
            let (number, rest) = line.split_once(',')?;
            // The names in between may contain commas.
            let mut rest = rest.rsplit(',').map(|part| part.parse::<f64>().ok());
            let (latitude, longitude) = (rest.next()??, rest.next()??);
            Some((number.parse().ok()?, (longitude, latitude)))
        };
        Self(text.lines().filter_map(zone).collect())
    }

    fn at(&self, number: f64) -> (f64, f64) {
        self.0.get(&(number as u32)).copied().unwrap_or((f64::NAN, f64::NAN))
    }
}

/// Rides in the order of time, and the number of those in the training period.
pub(crate) struct Rides {
    pub(crate) table: Table,
    pub(crate) training: usize,
}

impl Rides {
    /// The rides, if the file is available.
    pub(crate) fn read() -> Option<Self> {
        let path = real("taxi_green_2023.parquet")?;
        let zones = Zones::read(&real("taxi_zone_centroids.csv")?);
        let names = [
            PICKUP,
            "lpep_dropoff_datetime",
            "trip_distance",
            "payment_type",
            "trip_type",
            "PULocationID",
            "DOLocationID",
        ];
        let table = Table::read(&path, &names);
        let table = table
            .with("duration", |table, row| table.numbers("lpep_dropoff_datetime")[row] - table.numbers(PICKUP)[row])
            .sorted(PICKUP, |table, row| {
                let at = |name| table.numbers(name)[row];
                let short = at("duration") > 0.0 && at("duration") <= LONGEST;
                (YEAR.0..YEAR.1).contains(&at(PICKUP))
                    && short
                    && at("trip_distance") > 0.0
                    && at("trip_distance") < 100.0
            })
            .with("label", |table, row| table.numbers("duration")[row] / LONGEST)
            .with("hour", |table, row| (table.numbers(PICKUP)[row] % DAY / HOUR).floor())
            .with("day", |table, row| (table.numbers(PICKUP)[row] / DAY).floor() % 7.0)
            .with("log distance", |table, row| table.numbers("trip_distance")[row].ln())
            .with("sine of time", |table, row| time_of_day(table, row).sin())
            .with("cosine of time", |table, row| time_of_day(table, row).cos())
            .with("pickup longitude", |table, row| zones.at(table.numbers("PULocationID")[row]).0)
            .with("pickup latitude", |table, row| zones.at(table.numbers("PULocationID")[row]).1)
            .with("dropoff longitude", |table, row| zones.at(table.numbers("DOLocationID")[row]).0)
            .with("dropoff latitude", |table, row| zones.at(table.numbers("DOLocationID")[row]).1);
        let training = table.held_out_from(PICKUP);
        Some(Self { table, training })
    }

    fn one_of(&self, name: &str, values: std::ops::Range<i64>) -> Field {
        let kind = KeyKind::OneOf(Categories::Integers(values.collect()));
        Field { name: name.to_owned(), kind: FieldKind::Category(Key { column: self.table.column_index(name), kind }) }
    }

    fn miles(&self) -> Field {
        let key = Key { column: self.table.column_index("trip_distance"), kind: KeyKind::Bucket(MILES.to_vec()) };
        Field { name: "miles".to_owned(), kind: FieldKind::Category(key) }
    }

    fn label(&self) -> Label {
        Label { column: self.table.column_index("label"), kind: LabelKind::Number { low: 0.0, high: 1.0 } }
    }

    fn number(&self, name: &str, low: f64, high: f64) -> Field {
        let scale = Scale { low, high, span: Span::Signed, missing: Some(0.0) };
        Field { name: name.to_owned(), kind: FieldKind::Number { column: self.table.column_index(name), scale } }
    }

    fn encoding(&self, fields: Vec<Field>) -> Encoding {
        Encoding::new(Stated { fields, label: self.label() }).expect("an encoding")
    }

    /// For linear models: 61 one-hot columns, and the distance and its logarithm as numbers.
    ///
    /// Without the two numbers the longest rides have few rows, and the ridge that the noise requires pulls their
    /// predictions to the middle: the loss is then 4 % above that of ridge regression, not 0.3 %.
    pub(crate) fn for_lines(&self) -> Encoding {
        let mut fields = vec![self.number("trip_distance", 0.0, 20.0), self.number("log distance", -2.0, 3.0)];
        fields.extend([self.one_of("hour", 0..24), self.one_of("day", 0..7), self.miles()]);
        fields.extend([self.one_of("payment_type", 1..4), self.one_of("trip_type", 1..3)]);
        self.encoding(fields)
    }

    /// For the paper's network: the 61 one-hot columns alone.
    pub(crate) fn for_the_paper(&self) -> Encoding {
        let categories = [self.one_of("hour", 0..24), self.one_of("day", 0..7), self.miles()];
        let others = [self.one_of("payment_type", 1..4), self.one_of("trip_type", 1..3)];
        self.encoding(categories.into_iter().chain(others).collect())
    }

    /// All features of a ride, for the linear baseline of the network.
    pub(crate) fn for_the_best_line(&self) -> Encoding {
        let mut fields = self.numbers();
        fields.extend([self.one_of("hour", 0..24), self.one_of("day", 0..7), self.miles()]);
        fields.extend([self.one_of("payment_type", 1..4), self.one_of("trip_type", 1..3)]);
        self.encoding(fields)
    }

    /// For networks: the distance, the time of day and the two locations as numbers, and few categories; every
    /// additional input adds noise.
    pub(crate) fn for_networks(&self) -> Encoding {
        let mut fields = self.numbers();
        fields.extend([self.one_of("day", 0..7), self.one_of("payment_type", 1..4), self.one_of("trip_type", 1..3)]);
        self.encoding(fields)
    }

    fn numbers(&self) -> Vec<Field> {
        vec![
            self.number("trip_distance", 0.0, 20.0),
            self.number("log distance", -2.0, 3.0),
            self.number("sine of time", -1.0, 1.0),
            self.number("cosine of time", -1.0, 1.0),
            self.number("pickup longitude", -74.05, -73.75),
            self.number("pickup latitude", 40.6, 40.9),
            self.number("dropoff longitude", -74.05, -73.75),
            self.number("dropoff latitude", 40.6, 40.9),
        ]
    }
}
