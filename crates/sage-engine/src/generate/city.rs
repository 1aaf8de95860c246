//! The made-up city: when people ride, where, how far, and how long it takes.
//!
//! The rhythm of the week, the speeds, and the spread of distances follow the green taxis of New York in
//! 2023. Everything a ride needs is looked up in tables, which makes millions of rides a second possible.

use super::random::{scramble, unit};

/// Hours of a week, from Monday.
pub(super) const WEEK: usize = 168;
/// Zones along each side of the city.
pub(super) const SIDE: usize = 16;
/// How far a zone reaches, in degrees of longitude and latitude.
pub(super) const ZONE: (f32, f32) = (0.024, 0.018_5);
/// The south-western corner.
pub(super) const CORNER: (f32, f32) = (-74.12, 40.58);
/// Two zones with an airport.
pub(super) const AIRPORTS: [usize; 2] = [4 * SIDE + 13, 11 * SIDE + 14];
/// The weather, and how often it is so, in hundredths.
pub(super) const WEATHER: [(&str, u64); 4] = [("clear", 70), ("rain", 20), ("snow", 5), ("fog", 5)];

/// Steps of a table that is looked up with a random number; it has one entry more, to look between.
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
/// The speed at which a ride takes as long as its distance alone says.
const COMMON_SPEED: f64 = 10.9;
/// By how much the middle of the city slows down in dense traffic, from the centre outwards.
const RINGS: [f64; 4] = [0.95, 0.475, 0.0, -0.12];
/// By how much each weather does; more so in dense traffic.
const SLIPPERY: [f64; 4] = [0.0, 0.33, 0.73, 0.17];
/// The logarithm of a distance in miles has this mean and this standard deviation.
const DISTANCE: (f64, f64) = (0.72, 0.77);
/// The logarithm of a duration in seconds is this polynomial of that of the distance, but for the rest.
const DURATION: [f64; 3] = [5.80, 0.73, -0.021_5];
/// What nothing explains: the standard deviation of the logarithm.
const UNEXPLAINED: f64 = 0.35;

/// The tables.
pub(super) struct City {
    /// Zones, each as often as rides begin there.
    pub(super) zones: Vec<u8>,
    /// Each zone's ring, from the centre outwards.
    pub(super) rings: Vec<u8>,
    /// Distance, and how long it takes in common traffic, by the quantile of the distance.
    pub(super) distances: Vec<f64>,
    pub(super) durations: Vec<f64>,
    /// A factor for what nothing explains, by its quantile.
    pub(super) chances: Vec<f64>,
    /// Directions: degrees of longitude and latitude for a mile on the road.
    pub(super) directions: Vec<(f32, f32)>,
    /// How much longer a ride takes, by hour of the week, ring and weather.
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
            zones: zones(&rings),
            distances: quantiles.iter().map(|z| logarithm(z).exp()).collect(),
            durations: quantiles.iter().map(duration).collect(),
            chances: quantiles.iter().map(|z| (UNEXPLAINED * z - UNEXPLAINED * UNEXPLAINED / 2.0).exp()).collect(),
            directions: (0..256).map(direction).collect(),
            slow: slow(),
            rings,
        }
    }

    /// How much longer a ride takes than its distance alone says.
    pub(super) fn slow(&self, hour_of_week: usize, ring: u8, weather: u8) -> f64 {
        self.slow[(hour_of_week * RINGS.len() + usize::from(ring)) * WEATHER.len() + usize::from(weather)]
    }
}

/// How many rides begin in an hour, in some unit: by the hour of the week, the weather, and luck.
pub(super) fn demand(hour_of_week: usize, weather: u8, luck: f64) -> f64 {
    let day = hour_of_week / 24;
    let wet = [1.0, 1.12, 0.8, 1.0][usize::from(weather)];
    RIDES[usize::from(day >= 5)][hour_of_week % 24] * DAYS[day] * wet * (0.85 + 0.3 * luck)
}

/// The weather of an hour: it lasts for three.
pub(super) fn weather(seed: u64, hour: i64) -> u8 {
    let mut drawn = (unit(scramble(seed ^ scramble(hour.div_euclid(3) as u64 ^ 0x77e4))) * 100.0) as u64;
    for (place, (_, often)) in WEATHER.iter().enumerate() {
        if drawn < *often {
            return place as u8;
        }
        drawn -= often;
    }
    0
}

fn ring(zone: usize) -> u8 {
    let middle = (SIDE as f64 - 1.0) / 2.0;
    let away = ((zone / SIDE) as f64 - middle).hypot((zone % SIDE) as f64 - middle);
    [2.5, 4.5, 6.5].iter().filter(|&&limit| away >= limit).count() as u8
}

/// Busy zones more often than quiet ones.
fn zones(rings: &[u8]) -> Vec<u8> {
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

fn slow() -> Vec<f64> {
    let mut table = Vec::with_capacity(WEEK * RINGS.len() * WEATHER.len());
    for hour in 0..WEEK {
        let traffic = COMMON_SPEED / SPEED[usize::from(hour / 24 >= 5)][hour % 24];
        let dense = traffic > 1.05;
        for (ring, slower) in RINGS.into_iter().enumerate() {
            // The centre is slow when traffic is dense; the outskirts are always fast.
            let place = if dense || ring == 3 { slower } else { 0.0 };
            for slippery in SLIPPERY {
                let wet = slippery * if dense { 1.5 } else { 0.6 };
                table.push(traffic * (1.0 + place) * (1.0 + wet));
            }
        }
    }
    table
}

/// The quantiles of the normal law at every step, by adding up its density; the ends are cut off.
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
