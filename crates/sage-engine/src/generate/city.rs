//! The synthetic city: when and where rides begin, how far they go, and how long they take.
//!
//! The weekly pattern, the speeds and the distribution of distances follow the green taxis of New York in 2023. All
//! values come from lookup tables, which allows millions of rides per second.

use super::random::{scramble, unit};

/// Hours of a week, from Monday.
pub(super) const WEEK: usize = 168;
/// Zones along each side of the city.
pub(super) const SIDE: usize = 16;
/// The size of a zone in degrees of longitude and latitude.
pub(super) const ZONE: (f32, f32) = (0.024, 0.018_5);
/// The south-western corner.
pub(super) const CORNER: (f32, f32) = (-74.12, 40.58);
/// The two zones with an airport.
pub(super) const AIRPORTS: [usize; 2] = [4 * SIDE + 13, 11 * SIDE + 14];
/// The kinds of weather with their frequencies in percent.
pub(super) const WEATHER: [(&str, u64); 4] = [("clear", 70), ("rain", 20), ("snow", 5), ("fog", 5)];

/// The steps of a quantile table, which has one more entry for interpolation.
pub(super) const STEPS: usize = 4096;

const RIDES: [[f64; 24]; 2] = [
    [
        0.34, 0.21, 0.13, 0.10, 0.10, 0.14, 0.41, 1.04, 1.30, 1.38, 1.34, 1.30, 1.30, 1.29, 1.51, 1.67, 1.80, 1.91,
        1.88, 1.48, 1.11, 0.94, 0.75, 0.56,
    ],
    [
        0.81, 0.64, 0.52, 0.44, 0.32, 0.22, 0.25, 0.42, 0.58, 0.82, 1.06, 1.30, 1.45, 1.45, 1.59, 1.68, 1.63, 1.62,
        1.66, 1.45, 1.25, 1.12, 0.93, 0.81,
    ],
];
const DAYS: [f64; 7] = [0.97, 1.03, 1.09, 1.11, 1.09, 0.91, 0.81];
/// Miles an hour.
const SPEED: [[f64; 24]; 2] = [
    [
        13.2, 13.2, 13.1, 13.0, 16.0, 16.5, 13.4, 10.5, 9.6, 10.1, 10.2, 9.9, 10.0, 9.9, 9.2, 9.0, 9.1, 9.4, 10.0,
        10.9, 11.4, 12.1, 12.6, 12.8,
    ],
    [
        12.5, 12.7, 13.6, 14.1, 14.7, 17.0, 17.0, 16.4, 14.8, 13.1, 12.1, 11.4, 11.0, 10.6, 10.4, 10.3, 10.4, 10.5,
        10.7, 11.0, 11.4, 11.9, 12.2, 12.4,
    ],
];
/// The speed at which the duration depends on the distance only.
const COMMON_SPEED: f64 = 10.9;
/// The slowdown in dense traffic by ring, from the centre outwards.
const RINGS: [f64; 4] = [0.95, 0.475, 0.0, -0.12];
/// The slowdown by weather; stronger in dense traffic.
const SLIPPERY: [f64; 4] = [0.0, 0.33, 0.73, 0.17];
/// The mean and standard deviation of the logarithm of the distance in miles.
const DISTANCE: (f64, f64) = (0.72, 0.77);
/// The coefficients of the logarithm of the duration in seconds, a polynomial of the logarithm of the distance.
const DURATION: [f64; 3] = [5.80, 0.73, -0.021_5];
/// The standard deviation of the unexplained part of the logarithm of the duration.
const UNEXPLAINED: f64 = 0.35;

/// The lookup tables.
pub(super) struct City {
    /// Zones, repeated in proportion to the rides that begin there.
    pub(super) zones: Vec<u8>,
    /// The ring of each zone, from the centre outwards.
    pub(super) rings: Vec<u8>,
    /// Quantiles of the distance, and the durations at ordinary speed.
    pub(super) distances: Vec<f64>,
    pub(super) durations: Vec<f64>,
    /// Quantiles of the unexplained factor.
    pub(super) chances: Vec<f64>,
    /// Directions: degrees of longitude and latitude for a mile on the road.
    pub(super) directions: Vec<(f32, f32)>,
    /// The slowdown factor by hour of the week, ring and weather.
    slow: Vec<f64>,
}

impl City {
    pub(super) fn new() -> Self {
        let rings: Vec<u8> = (0..SIDE * SIDE).map(ring).collect();
        let quantiles = normal_quantiles();
        let logarithm = |z: &f64| DISTANCE.0 + DISTANCE.1 * z;
        let duration = |z: &f64| {
            let log = logarithm(z);
            (DURATION[0] + DURATION[1] * log + DURATION[2] * log * log).exp()
        };
        let direction = |step: usize| {
            let angle = step as f64 / 256.0 * std::f64::consts::TAU;
            // A mile is 1/52.4 degrees of longitude here and 1/69 of latitude; roads are 1.3 times as long.
            ((angle.cos() / 52.4 / 1.3) as f32, (angle.sin() / 69.0 / 1.3) as f32)
        };
        Self {
            zones: zone_table(&rings),
            distances: quantiles.iter().map(|z| logarithm(z).exp()).collect(),
            durations: quantiles.iter().map(duration).collect(),
            chances: quantiles.iter().map(|z| (UNEXPLAINED * z - UNEXPLAINED * UNEXPLAINED / 2.0).exp()).collect(),
            directions: (0..256).map(direction).collect(),
            slow: slowdown_table(),
            rings,
        }
    }

    /// The factor by which a ride takes longer than its distance implies.
    pub(super) fn slowdown(&self, hour_of_week: usize, ring: u8, weather: u8) -> f64 {
        self.slow[(hour_of_week * RINGS.len() + usize::from(ring)) * WEATHER.len() + usize::from(weather)]
    }
}

/// The relative demand in an hour, by the hour of the week, the weather and a random factor.
pub(super) fn demand(hour_of_week: usize, weather: u8, luck: f64) -> f64 {
    let day = hour_of_week / 24;
    let wet = [1.0, 1.12, 0.8, 1.0][usize::from(weather)];
    RIDES[usize::from(day >= 5)][hour_of_week % 24] * DAYS[day] * wet * (0.85 + 0.3 * luck)
}

/// The weather of an hour. It changes every three hours.
pub(super) fn weather(seed: u64, hour: i64) -> u8 {
    let mut drawn = (unit(scramble(seed ^ scramble(hour.div_euclid(3) as u64 ^ 0x77e4))) * 100.0) as u64;
    for (index, (_, weight)) in WEATHER.iter().enumerate() {
        if drawn < *weight {
            return index as u8;
        }
        drawn -= weight;
    }
    0
}

fn ring(zone: usize) -> u8 {
    let middle = (SIDE as f64 - 1.0) / 2.0;
    let away = ((zone / SIDE) as f64 - middle).hypot((zone % SIDE) as f64 - middle);
    [2.5, 4.5, 6.5].iter().filter(|&&limit| away >= limit).count() as u8
}

/// Zones in proportion to their demand.
fn zone_table(rings: &[u8]) -> Vec<u8> {
    let weight = |zone: usize| {
        let airport = if AIRPORTS.contains(&zone) { 6.0 } else { 0.0 };
        [8.0, 5.0, 2.0, 1.0][usize::from(rings[zone])] + airport
    };
    let total: f64 = (0..rings.len()).map(weight).sum();
    let mut zones = Vec::with_capacity(STEPS);
    let mut reached = 0.0;
    for zone in 0..rings.len() {
        reached += weight(zone);
        zones.resize((reached / total * STEPS as f64).round() as usize, zone as u8);
    }
    zones
}

fn slowdown_table() -> Vec<f64> {
    let mut table = Vec::with_capacity(WEEK * RINGS.len() * WEATHER.len());
    for hour in 0..WEEK {
        let traffic = COMMON_SPEED / SPEED[usize::from(hour / 24 >= 5)][hour % 24];
        let dense = traffic > 1.05;
        for (ring, slower) in RINGS.into_iter().enumerate() {
            // The centre is slow when traffic is dense; the outskirts are always fast.
            let location = if dense || ring == 3 { slower } else { 0.0 };
            for slippery in SLIPPERY {
                let wet = slippery * if dense { 1.5 } else { 0.6 };
                table.push(traffic * (1.0 + location) * (1.0 + wet));
            }
        }
    }
    table
}

/// The quantiles of the normal distribution at every step, by integrating its density; the tails are cut off.
fn normal_quantiles() -> Vec<f64> {
    const WIDTH: f64 = 1e-3;
    let density = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let mut quantiles = Vec::with_capacity(STEPS + 1);
    let mut below = 0.0;
    let mut z = -6.0;
    for step in 0..=STEPS {
        let wanted = (step as f64 / STEPS as f64).clamp(1e-4, 1.0 - 1e-4);
        while below < wanted {
            below += density(z + WIDTH / 2.0) * WIDTH;
            z += WIDTH;
        }
        quantiles.push(z);
    }
    quantiles
}
