//! Synthetic taxi rides: ten context columns, two pairs of coordinates, and distance, duration and price.
//!
//! Rides are in order of time and follow daily and weekly patterns. The duration depends on the distance and on the
//! interaction of hour, weekday, location and weather: the centre is slow only in dense traffic, most of all in rain.
//! So a linear model explains most of it, and a model with interactions more. On rides within 2.5 hours, with the
//! duration normalised by those, the mean squared error is 0.0074 for the mean, 0.0031 for ridge regression on one-hot
//! features, and 0.0020 for a table of combinations, as `tests/generate` computes. On the real rides of 2023 it is
//! 0.0075 and 0.0032 for the first two.
//!
//! About one ride in a thousand each has no time, no passengers and payment, a negative duration, an absurd distance,
//! or a NaN price: [`DIRTY`] of 65,536 rides of each kind.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::city::{AIRPORTS, CORNER, City, SIDE, STEPS, WEATHER, WEEK, ZONE, demand, weather};
use super::random::{Random, scramble, unit};

/// Rides per chunk. Each chunk has its own random numbers.
pub const CHUNK: u64 = 65_536;
/// The default number of rides per hour: 37 million a year.
const RIDES_PER_HOUR: u64 = 4_224;
/// The number of rides of 65,536 that are dirty in each of five ways.
pub const DIRTY: u64 = 65;
const HOUR: i64 = 3_600_000_000;

const PAYMENT: [(&str, u8); 4] = [("card", 166), ("cash", 83), ("free", 4), ("dispute", 3)];
const PASSENGERS: [(i16, u8); 6] = [(1, 212), (2, 22), (5, 8), (3, 7), (6, 4), (4, 3)];

/// A calendar day, starting at midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(i32);

impl FromStr for Day {
    type Err = TaxiError;

    fn from_str(text: &str) -> Result<Self, TaxiError> {
        let date = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| TaxiError::Day)?;
        let days = date.signed_duration_since(chrono::NaiveDate::default()).num_days();
        // Years that every unit of time can represent.
        let days = i32::try_from(days).map_err(|_| TaxiError::Day)?;
        if (-36_524..84_006).contains(&days) { Ok(Self(days)) } else { Err(TaxiError::Day) }
    }
}

/// Why rides cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaxiError {
    /// The text is not a day in the allowed range.
    #[error("a day is written as 2026-11-01, between the years 1870 and 2199")]
    Day,
    /// The number of rows is zero or too large.
    #[error("the number of rows must be from 1 to 100,000,000,000")]
    Rows,
    /// The end is not after the start, or too far away.
    #[error("the end must be a day after the start, and at most 100 years after it")]
    End,
}

/// A synthetic stream of taxi rides.
pub struct Taxi {
    rows: u64,
    seed: u64,
    /// The hour of the first ride, counted from 1970.
    first_hour: i64,
    /// The cumulative demand of the hours.
    demands: Vec<f64>,
    city: City,
}

impl Taxi {
    /// `rows` rides from a day on, about 4,200 per hour.
    ///
    /// # Errors
    /// When the number is out of range.
    pub fn new(rows: u64, start: Day, seed: u64) -> Result<Self, TaxiError> {
        Self::over(rows, start, rows.div_ceil(RIDES_PER_HOUR), seed)
    }

    /// `rows` rides from the start of one day to the start of another.
    ///
    /// # Errors
    /// When the number is out of range or the end is not after the start.
    pub fn until(rows: u64, start: Day, end: Day, seed: u64) -> Result<Self, TaxiError> {
        let days = i64::from(end.0) - i64::from(start.0);
        let days = u64::try_from(days).ok().filter(|days| (1..=36_525).contains(days)).ok_or(TaxiError::End)?;
        Self::over(rows, start, days * 24, seed)
    }

    fn over(rows: u64, start: Day, hours: u64, seed: u64) -> Result<Self, TaxiError> {
        if !(1..=100_000_000_000).contains(&rows) {
            return Err(TaxiError::Rows);
        }
        let first_hour = i64::from(start.0) * 24;
        let mut demands = vec![0.0];
        let mut reached = 0.0;
        for hour in first_hour..first_hour + hours as i64 {
            let luck = unit(scramble(seed ^ scramble(hour as u64)));
            reached += demand(hour_of_week(hour), weather(seed, hour), luck);
            demands.push(reached);
        }
        Ok(Self { rows, seed, first_hour, demands, city: City::new() })
    }

    /// The number of rides.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// The full hour, in microseconds since 1970, before which every ride is in the first `chunks` chunks.
    pub fn complete_until(&self, chunks: u64) -> i64 {
        let hours = self.demands.len() - 1;
        let rows = chunks.saturating_mul(CHUNK);
        let over = if rows >= self.rows {
            hours
        } else {
            // Rounded as the rides are, so that no ride of a later chunk is earlier.
            let reached = rows as f64 * (self.demands[hours] / self.rows as f64);
            self.demands.partition_point(|&demand| demand <= reached).saturating_sub(1)
        };
        (self.first_hour + over as i64) * HOUR
    }

    /// The number of chunks.
    pub const fn chunks(&self) -> u64 {
        self.rows.div_ceil(CHUNK)
    }

    /// All rides, chunk by chunk.
    pub fn batches(&self) -> impl Iterator<Item = RecordBatch> + '_ {
        (0..self.chunks()).map(|chunk| self.chunk(chunk))
    }

    /// The columns.
    pub fn schema() -> SchemaRef {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        Arc::new(Schema::new(vec![
            Field::new("pickup", time, true),
            Field::new("vendor", DataType::Int16, false),
            Field::new("passengers", DataType::Int16, true),
            Field::new("payment", DataType::Utf8, true),
            Field::new("rate_code", DataType::Int16, false),
            Field::new("weather", DataType::Utf8, false),
            Field::new("airport", DataType::Boolean, false),
            Field::new("held", DataType::Boolean, false),
            Field::new("pickup_zone", DataType::Int16, false),
            Field::new("dropoff_zone", DataType::Int16, false),
            Field::new("pickup_longitude", DataType::Float32, false),
            Field::new("pickup_latitude", DataType::Float32, false),
            Field::new("dropoff_longitude", DataType::Float32, false),
            Field::new("dropoff_latitude", DataType::Float32, false),
            Field::new("distance", DataType::Float64, false),
            Field::new("duration", DataType::Int32, false),
            Field::new("price", DataType::Float64, false),
        ]))
    }

    /// Generates the rides of one chunk, deterministically.
    ///
    /// # Panics
    /// Never: the columns match the schema.
    pub fn chunk(&self, chunk: u64) -> RecordBatch {
        let first = chunk * CHUNK;
        let count = self.rows.saturating_sub(first).min(CHUNK);
        let mut random = Random::new(self.seed, chunk);
        let mut rides = Rides::with_capacity(count as usize);
        let total = self.demands[self.demands.len() - 1];
        let scale = total / self.rows as f64;
        let mut hour = self.demands.partition_point(|&demand| demand <= first as f64 * scale).saturating_sub(1);
        let last = self.demands.len() - 2;
        let weather_at = |hour: usize| weather(self.seed, self.first_hour + hour as i64);
        let mut sky = weather_at(hour);
        for row in first..first + count {
            // One ride per equal share of the demand, so that rides are generated in order.
            let reached = (row as f64 + unit(random.word())) * scale;
            while hour < last && self.demands[hour + 1] <= reached {
                hour += 1;
                sky = weather_at(hour);
            }
            let (from, to) = (self.demands[hour], self.demands[hour + 1]);
            let within = ((reached - from) / (to - from) * HOUR as f64) as i64;
            let absolute = self.first_hour + hour as i64;
            rides.times.push(absolute * HOUR + within.clamp(0, HOUR - 1));
            rides.add_ride(&self.city, &mut random, hour_of_week(absolute), sky);
        }
        rides.finish()
    }
}

/// The hour of the week, from Monday, of an hour since 1970, which began on a Thursday.
const fn hour_of_week(hour: i64) -> usize {
    (hour + 72).rem_euclid(WEEK as i64) as usize
}

/// Builders of the columns.
struct Rides {
    times: Vec<i64>,
    vendors: Vec<i16>,
    passengers: Vec<i16>,
    payments: Vec<u8>,
    rates: Vec<i16>,
    weather: Vec<u8>,
    airports: Vec<bool>,
    held: Vec<bool>,
    zones: [Vec<i16>; 2],
    longitudes: [Vec<f32>; 2],
    latitudes: [Vec<f32>; 2],
    distances: Vec<f64>,
    durations: Vec<i32>,
    prices: Vec<f64>,
    /// The indices of rides without a time, and of rides without passengers and payment.
    timeless: Vec<usize>,
    empty: Vec<usize>,
}

impl Rides {
    fn with_capacity(count: usize) -> Self {
        Self {
            times: Vec::with_capacity(count),
            vendors: Vec::with_capacity(count),
            passengers: Vec::with_capacity(count),
            payments: Vec::with_capacity(count),
            rates: Vec::with_capacity(count),
            weather: Vec::with_capacity(count),
            airports: Vec::with_capacity(count),
            held: Vec::with_capacity(count),
            zones: [Vec::with_capacity(count), Vec::with_capacity(count)],
            longitudes: [Vec::with_capacity(count), Vec::with_capacity(count)],
            latitudes: [Vec::with_capacity(count), Vec::with_capacity(count)],
            distances: Vec::with_capacity(count),
            durations: Vec::with_capacity(count),
            prices: Vec::with_capacity(count),
            timeless: Vec::new(),
            empty: Vec::new(),
        }
    }

    /// Adds a ride that begins in this hour of the week, in this weather.
    fn add_ride(&mut self, city: &City, random: &mut Random, hour: usize, sky: u8) {
        let [pickup, road, small] = [random.word(), random.word(), random.word()];
        let zone = usize::from(city.zones[(pickup & 0xfff) as usize]);
        let begin = (
            CORNER.0 + ((zone % SIDE) as f32 + fraction(pickup >> 12)) * ZONE.0,
            CORNER.1 + ((zone / SIDE) as f32 + fraction(pickup >> 28)) * ZONE.1,
        );
        let from_airport = AIRPORTS.contains(&zone);
        let mut step = (road & 0xfff) as usize;
        if from_airport {
            // Rides from an airport are never short.
            step = STEPS / 2 + step / 2;
        }
        let between = f64::from(fraction(road >> 12));
        let miles = interpolate(&city.distances, step, between);
        let direction = city.directions[(pickup >> 44 & 0xff) as usize];
        let (end, other) = dropoff(begin, direction, miles as f32);
        let airport = from_airport || AIRPORTS.contains(&other);
        let luck = interpolate(&city.chances, (road >> 28 & 0xfff) as usize, f64::from(fraction(road >> 40)));
        let usual = interpolate(&city.durations, step, between);
        let seconds = usual * city.slowdown(hour, city.rings[zone], sky) * luck;
        let toll = if airport { 5.0 } else { 0.0 };
        let price = 3.46 + 2.78 * miles + 0.395 / 60.0 * seconds + toll;

        self.vendors.push(1 + i16::from((small & 0xff) >= 33));
        self.passengers.push(choose(&PASSENGERS, (small >> 8) as u8));
        self.payments.push(choose_index(&PAYMENT, (small >> 16) as u8));
        let unusual = (small >> 24 & 0xff) < 9;
        self.rates.push(if airport { 2 } else { 1 + 4 * i16::from(unusual) });
        self.held.push((small >> 32 & 0xff) == 0);
        self.weather.push(sky);
        self.airports.push(airport);
        for (column, value) in self.zones.iter_mut().zip([zone, other]) {
            column.push(value as i16);
        }
        for (column, value) in self.longitudes.iter_mut().zip([begin.0, end.0]) {
            column.push(value);
        }
        for (column, value) in self.latitudes.iter_mut().zip([begin.1, end.1]) {
            column.push(value);
        }
        self.distances.push(f64::from((miles * 100.0 + 0.5) as i32) / 100.0);
        self.durations.push(seconds as i32 + 1);
        self.prices.push(f64::from((price * 100.0 + 0.5) as i32) / 100.0);
        if small >> 48 < 5 * DIRTY {
            self.corrupt_last((small >> 48) / DIRTY);
        }
    }

    /// Corrupts the last ride in one of five ways.
    fn corrupt_last(&mut self, way: u64) {
        let last = self.durations.len() - 1;
        match way {
            0 => self.timeless.push(last),
            1 => self.empty.push(last),
            2 => self.durations[last] = -self.durations[last],
            3 => self.distances[last] *= 10_000.0,
            _ => self.prices[last] = f64::NAN,
        }
    }

    fn finish(self) -> RecordBatch {
        let count = self.times.len();
        let without = |missing: &[usize]| {
            (!missing.is_empty()).then(|| {
                let mut there = vec![true; count];
                missing.iter().for_each(|&index| there[index] = false);
                NullBuffer::new(BooleanBuffer::from(there))
            })
        };
        let payments = {
            let mut there = vec![true; count];
            self.empty.iter().for_each(|&index| there[index] = false);
            let named = self.payments.iter().zip(there);
            StringArray::from_iter(named.map(|(&payment, there)| there.then(|| PAYMENT[usize::from(payment)].0)))
        };
        let weather = StringArray::from_iter_values(self.weather.iter().map(|&sky| WEATHER[usize::from(sky)].0));
        let [pickup_zones, dropoff_zones] = self.zones;
        let [pickup_longitudes, dropoff_longitudes] = self.longitudes;
        let [pickup_latitudes, dropoff_latitudes] = self.latitudes;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMicrosecondArray::new(self.times.into(), without(&self.timeless))),
            Arc::new(Int16Array::from(self.vendors)),
            Arc::new(Int16Array::new(self.passengers.into(), without(&self.empty))),
            Arc::new(payments),
            Arc::new(Int16Array::from(self.rates)),
            Arc::new(weather),
            Arc::new(BooleanArray::from(self.airports)),
            Arc::new(BooleanArray::from(self.held)),
            Arc::new(Int16Array::from(pickup_zones)),
            Arc::new(Int16Array::from(dropoff_zones)),
            Arc::new(Float32Array::from(pickup_longitudes)),
            Arc::new(Float32Array::from(pickup_latitudes)),
            Arc::new(Float32Array::from(dropoff_longitudes)),
            Arc::new(Float32Array::from(dropoff_latitudes)),
            Arc::new(Float64Array::from(self.distances)),
            Arc::new(Int32Array::from(self.durations)),
            Arc::new(Float64Array::from(self.prices)),
        ];
        RecordBatch::try_new(Taxi::schema(), columns).expect("the columns match the schema")
    }
}

/// A number in [0, 1) from the lowest sixteen bits.
fn fraction(word: u64) -> f32 {
    f32::from(word as u16) * (1.0 / 65_536.0)
}

fn interpolate(table: &[f64], step: usize, between: f64) -> f64 {
    table[step] + (table[step + 1] - table[step]) * between
}

/// The end of a ride and its zone. Coordinates are clamped to the city.
fn dropoff(begin: (f32, f32), direction: (f32, f32), miles: f32) -> ((f32, f32), usize) {
    let side = SIDE as f32;
    let east = ((begin.0 + direction.0 * miles - CORNER.0) / ZONE.0).clamp(0.0, side - 0.001);
    let north = ((begin.1 + direction.1 * miles - CORNER.1) / ZONE.1).clamp(0.0, side - 0.001);
    let end = (CORNER.0 + east * ZONE.0, CORNER.1 + north * ZONE.1);
    (end, north as usize * SIDE + east as usize)
}

/// A weighted choice, with weights in 256ths.
fn choose<T: Copy>(of: &[(T, u8)], drawn: u8) -> T {
    of[usize::from(choose_index(of, drawn))].0
}

fn choose_index<T>(of: &[(T, u8)], mut drawn: u8) -> u8 {
    for (index, (_, weight)) in of.iter().enumerate() {
        if drawn < *weight {
            return index as u8;
        }
        drawn -= weight;
    }
    0
}
