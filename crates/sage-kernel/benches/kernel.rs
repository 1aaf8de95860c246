//! The kernel's measurements, for `cargo xtask bench kernel`, which prints them beside the peers'.
//!
//! A measurement is an entry of the table: a name, a unit, and a function that gives the number. One
//! JSON object a line is printed, `name`, `ours`, `unit`, and `value` where the work computes something
//! worth comparing with a peer. With names as arguments only those run. What a peer measures too has the
//! same name and unit in `xtask/peers/kernel_peers.py`.

use std::hint::black_box;
use std::time::Instant;

use sha2::{Digest, Sha256};

struct Measurement {
    name: &'static str,
    unit: &'static str,
    measure: fn() -> Outcome,
}

/// The number measured, and what the work computed.
struct Outcome {
    ours: f64,
    value: Option<f64>,
}

const MEASUREMENTS: &[Measurement] =
    &[Measurement { name: "hash_event", unit: "ns/event", measure: hash_event }];

/// The shortest time of `runs`, in seconds, with what the last run computed.
fn best_of<T>(runs: usize, mut work: impl FnMut() -> T) -> (f64, Option<T>) {
    let mut best = f64::INFINITY;
    let mut value = None;
    for _ in 0..runs {
        let start = Instant::now();
        value = Some(black_box(work()));
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best, value)
}

/// Nanoseconds for one of the `count` things that `work` does.
fn nanoseconds_each<T>(runs: usize, count: u32, work: impl FnMut() -> T) -> Outcome {
    let (seconds, _) = best_of(runs, work);
    Outcome { ours: seconds / f64::from(count) * 1e9, value: None }
}

/// The floor under every charge: one link of the hash chain over an event of common size.
fn hash_event() -> Outcome {
    let count = 10_000;
    nanoseconds_each(10, count, || {
        let mut head = [0_u8; 32];
        for _ in 0..count {
            let event = Sha256::new().chain_update(head).chain_update([7; 168]);
            head = event.finalize().into();
        }
        head
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    for measurement in MEASUREMENTS {
        if names.is_empty() || names.iter().any(|name| *name == measurement.name) {
            let Outcome { ours, value } = (measurement.measure)();
            let value = value.map_or(String::new(), |value| format!(r#", "value": {value:?}"#));
            let Measurement { name, unit, .. } = measurement;
            println!(r#"{{"name": "{name}", "ours": {ours:?}, "unit": "{unit}"{value}}}"#);
        }
    }
}
