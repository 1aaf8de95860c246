//! The accountant's and the planner's measurements, for `cargo xtask bench kernel`, which prints them
//! beside the peers'. As in the kernel's own bench program, one JSON object per line is printed.

use std::hint::black_box;
use std::time::Instant;

use sage_kernel::accountant::{self, Composition, Loss};
use sage_learn::plan::{DENSE_ORDERS, calibrate_sigma, laplace, sampled_gaussian_epsilon};

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

const fn entry(name: &'static str, unit: &'static str, measure: fn() -> Outcome) -> Measurement {
    Measurement { name, unit, measure }
}

const MEASUREMENTS: &[Measurement] = &[
    entry("pld_epsilon", "s", pld_epsilon),
    entry("pld_calibrate", "s", pld_calibrate),
    entry("pld_hetero", "s", pld_hetero),
    entry("rdp_epsilon", "s", rdp_epsilon),
    entry("rdp_hetero", "s", rdp_hetero),
];

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

/// The training run that the peers are measured on.
fn training() -> Composition {
    Composition::new(&[(Loss::SampledGaussian { q: 1024.0 / 5e6, sigma: 1.0 }, 15_000)]).expect("a composition")
}

fn timed(runs: usize, work: impl FnMut() -> f64) -> Outcome {
    let (ours, value) = best_of(runs, work);
    Outcome { ours, value }
}

fn pld_epsilon() -> Outcome {
    timed(20, || training().epsilon(1e-6).expect("an epsilon"))
}

fn pld_calibrate() -> Outcome {
    timed(5, || {
        calibrate_sigma(1.0, 1e-6, |sigma| {
            Composition::new(&[(Loss::SampledGaussian { q: 1024.0 / 5e6, sigma }, 15_000)])
        })
        .expect("a sigma")
    })
}

/// A thousand mechanisms, three kinds, the list of `xtask/peers/kernel_peers.py`.
fn mixture() -> Vec<(Loss, u64)> {
    let mechanism = |index: u32| match index % 4 {
        0 | 1 => {
            Loss::SampledGaussian { q: 0.001 * f64::from(1 + index % 7), sigma: 1.0 + 0.01 * f64::from(index % 50) }
        }
        2 => Loss::Gaussian { mu: 1.0 / f64::from(40 + index % 20) },
        _ => Loss::DiscreteLaplace { epsilon: 1.0 / f64::from(60 + index % 30), units: 1 << 20 },
    };
    (0..1000).map(|index| (mechanism(index), 1)).collect()
}

fn pld_hetero() -> Outcome {
    timed(3, || Composition::new(&mixture()).expect("a composition").epsilon(1e-6).expect("an epsilon"))
}

fn rdp_epsilon() -> Outcome {
    timed(50, || sampled_gaussian_epsilon(1024.0 / 5e6, 1.0, 15_000, 1e-6).expect("an epsilon"))
}

fn rdp_hetero() -> Outcome {
    let orders = DENSE_ORDERS;
    timed(10, || {
        let mut total = vec![0.0; orders.len()];
        for (loss, _) in mixture() {
            let curve: Vec<f64> = match loss {
                Loss::SampledGaussian { q, sigma } => {
                    accountant::sampled_gaussian_curve(&orders, q, sigma).expect("a curve")
                }
                Loss::Gaussian { mu } => {
                    orders.iter().map(|&order| accountant::gaussian(order, 1.0 / mu).expect("a cost")).collect()
                }
                Loss::DiscreteLaplace { epsilon, .. } => {
                    orders.iter().map(|&order| laplace(order, epsilon).expect("a cost")).collect()
                }
                _ => Vec::new(),
            };
            total.iter_mut().zip(curve).for_each(|(total, value)| *total += value);
        }
        accountant::epsilon_from_curve(&orders, &total, 1e-6).expect("an epsilon")
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
