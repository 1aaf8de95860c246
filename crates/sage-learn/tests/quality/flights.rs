//! Five months of flights: which will be late by more than a quarter of an hour?

use sage_learn::encode::{Categories, Encoding, Field, FieldKind, Key, KeyKind, Label, LabelKind, Stated};

use crate::table::{Table, real};

const HOUR: f64 = 3.6e9;
const DAY: f64 = 24.0 * HOUR;

/// Edges between lengths of flights in miles.
const MILES: [f64; 9] = [150.0, 250.0, 350.0, 500.0, 700.0, 900.0, 1200.0, 1700.0, 2300.0];

/// The busiest airports of the country, a public list; all others share a category.
const AIRPORTS: &str = "ATL ORD DFW LAX PHX DEN DTW IAH LAS STL MSP SFO EWR MCO CLT PHL BOS PIT LGA SEA CVG BWI SLC SAN \
    DCA IAD MIA TPA CLE MDW PDX OAK MCI FLL SJC HOU BNA SMF RDU IND SNA MSY DAL CMH AUS SAT ABQ MKE JFK BDL PBI ONT BUF \
    JAX MEM OMA TUS OKC BUR RNO PVD SDF ORF TUL ANC MHT RIC ROC ELP SYR BHM LIT RSW HNL GSO ALB GEG BOI DSM ICT";

/// Flights in the order of time, and the number of those in the training period.
pub(crate) struct Flights {
    pub(crate) table: Table,
    pub(crate) training: usize,
}

impl Flights {
    /// The flights, if the file is available.
    pub(crate) fn read() -> Option<Self> {
        let path = real("flights_2001_01_05.parquet")?;
        let table = Table::read(&path, &["date", "delay", "distance", "origin", "destination"]);
        let table = table
            .sorted("date", |table, row| !table.numbers("delay")[row].is_nan())
            .with("late", |table, row| f64::from(table.numbers("delay")[row] > 15.0))
            .with("hour", |table, row| (table.numbers("date")[row] % DAY / HOUR).floor())
            .with("day of week", |table, row| (table.numbers("date")[row] / DAY).floor() % 7.0);
        let training = table.held_out_from("date");
        Some(Self { table, training })
    }

    fn field(&self, name: &str, kind: KeyKind) -> Field {
        Field { name: name.to_owned(), kind: FieldKind::Category(Key { column: self.table.column_index(name), kind }) }
    }

    /// Origin, destination, hour, day of the week and distance.
    ///
    /// The month is left out: the first half of May is not representative of the second, and models that use it lose
    /// half of their gain there, with or without privacy.
    pub(crate) fn encoding(&self) -> Encoding {
        let airports = || KeyKind::OneOf(Categories::Texts(AIRPORTS.split_whitespace().map(str::to_owned).collect()));
        let integers = |values: std::ops::Range<i64>| KeyKind::OneOf(Categories::Integers(values.collect()));
        let fields = vec![
            self.field("origin", airports()),
            self.field("destination", airports()),
            self.field("hour", integers(0..24)),
            self.field("day of week", integers(0..7)),
            self.field("distance", KeyKind::Bucket(MILES.to_vec())),
        ];
        let label = Label { column: self.table.column_index("late"), kind: LabelKind::Truth };
        Encoding::new(Stated { fields, label }).expect("an encoding")
    }
}
