//! How often do loss tests accept a model whose mean loss is exactly at its target?
//!
//! Compares our test with three that look correct: a mean with Bernstein's bound from a noisy sum and a noisy
//! count, without a guard against a negative count; the same with the guard, but without the loss's range in the
//! last term, at a range of 100; and the same with both. Then repeats tests over twelve attempts, with the whole
//! risk for each attempt and with our schedule.
//! `cargo run --release --manifest-path experiments/Cargo.toml --bin validators [seed]`.

use std::num::NonZeroU32;

use sage_kernel::noise::{DiscreteLaplace, SeededNoise, uniform_below};
use sage_kernel::{Epsilon, Pair, SCALE, TableNoise};
use sage_learn::validate::decide::{Tail, accepts, accepts_accuracy};
use sage_learn::validate::{Margin, Risk};

const ROWS: [u64; 4] = [1, 20, 100, 1000];
/// ε in thousandths.
const EPSILONS: [u64; 4] = [10, 100, 1000, 10_000_000];
const MEANS: [f64; 3] = [0.05, 0.5, 0.9];
const RISK: f64 = 0.01;
const RUNS: usize = 20_000;

/// The sum of a Bernoulli loss over the rows, and two draws of noise, all in rows.
struct Sums {
    rows: f64,
    loss: f64,
    noise: [f64; 2],
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("seed {seed}, {RUNS} runs a setting, risk {RISK}; the mean loss is exactly at the target");
    println!(
        "\n{:>6} {:>8} {:>6} {:>12} {:>12} {:>12} {:>12}",
        "rows", "epsilon", "mean", "no guard", "no range", "guarded", "kl"
    );
    let mut worst = [0.0f64; 4];
    let mut over = [0; 4];
    for (rows, thousandths) in ROWS.into_iter().flat_map(|rows| EPSILONS.map(|epsilon| (rows, epsilon))) {
        for mean in MEANS {
            let rates = rates(seed, rows, thousandths, mean);
            for (index, rate) in rates.into_iter().enumerate() {
                worst[index] = worst[index].max(rate);
                over[index] += usize::from(rate > RISK + 4.0 * (RISK / RUNS as f64).sqrt());
            }
            let epsilon = thousandths as f64 / 1000.0;
            let [one, two, three, four] = rates;
            println!("{rows:>6} {epsilon:>8} {mean:>6} {one:>12.5} {two:>12.5} {three:>12.5} {four:>12.5}");
        }
    }
    println!("\nworst rate {worst:?}\nsettings above the risk {over:?}");
    attempts(seed);
}

/// The rates of wrong acceptance: without a guard, without the range, with both, ours.
fn rates(seed: u64, rows: u64, thousandths: u64, mean: f64) -> [f64; 4] {
    let epsilon = thousandths as f64 / 1000.0;
    let noise = TableNoise::Laplace(Epsilon::from_units(thousandths * 1_000_000_000).expect("a loss"));
    let margin = Margin::one_sided(noise.into(), Risk::new(RISK).expect("a risk"));
    let mut counts = [0usize; 4];
    for sums in draws(seed ^ rows ^ (thousandths << 20) ^ mean.to_bits(), rows, thousandths, mean) {
        let pair = Pair { above: sums.loss + sums.noise[0], below: sums.rows - sums.loss + sums.noise[1] };
        let made = [
            by_mean(&sums, epsilon, mean, 1.0, 1.0, f64::NEG_INFINITY),
            by_mean(&sums, epsilon, mean, 100.0, 1.0, 0.0),
            by_mean(&sums, epsilon, mean, 100.0, 100.0, 0.0),
            accepts(pair, mean, margin, Tail::KullbackLeibler),
        ];
        counts.iter_mut().zip(made).for_each(|(count, made)| *count += usize::from(made));
    }
    counts.map(|count| count as f64 / RUNS as f64)
}

/// A sum and a count at half of ε each, and Bernstein's bound on their ratio.
fn by_mean(sums: &Sums, epsilon: f64, mean: f64, bound: f64, last: f64, least_rows: f64) -> bool {
    let reach = 2.0 / epsilon * (1.5 / RISK).ln();
    let rows = sums.rows + 2.0 * sums.noise[1] - reach;
    let loss = (sums.loss + 2.0 * sums.noise[0] + reach) * bound / rows;
    let exponent = (3.0 / RISK).ln();
    rows > least_rows
        && loss + (2.0 * bound * loss * exponent / rows).sqrt() + 4.0 * last * exponent / rows <= mean * bound
}

/// Twelve attempts at an accuracy, each with a new model exactly at the target.
fn attempts(seed: u64) {
    let (rows, thousandths, mean) = (1000, 10_000, 0.75);
    let noise = TableNoise::Laplace(Epsilon::from_units(thousandths * 1_000_000_000).expect("a loss"));
    println!("\nany of 12 attempts accepted, {rows} rows, epsilon {}", thousandths / 1000);
    for risk in [0.05, 0.01] {
        let whole = Risk::new(risk).expect("a risk");
        let mut accepted = [vec![false; RUNS], vec![false; RUNS]];
        for attempt in 1..=12 {
            let share = whole.at_attempt(NonZeroU32::new(attempt).expect("not zero"));
            let margins = [whole, share].map(|risk| Margin::one_sided(noise.into(), risk));
            for (run, sums) in draws(seed + u64::from(attempt), rows, thousandths, mean).enumerate() {
                let (right, wrong) = (sums.loss + sums.noise[0], sums.rows - sums.loss + sums.noise[1]);
                for (accepted, margin) in accepted.iter_mut().zip(margins) {
                    accepted[run] |= accepts_accuracy(right, wrong, mean, margin);
                }
            }
        }
        let rates = accepted.map(|runs| runs.iter().filter(|&&one| one).count() as f64 / RUNS as f64);
        println!("risk {risk}: the whole risk each time {:.4}, the schedule {:.4}", rates[0], rates[1]);
    }
}

/// The sums and the noise of every run.
fn draws(seed: u64, rows: u64, thousandths: u64, mean: f64) -> impl Iterator<Item = Sums> {
    let distribution = DiscreteLaplace::new(SCALE * 1000, thousandths).expect("a distribution");
    let mut source = SeededNoise::new(seed);
    let cumulative = binomial(rows, mean);
    (0..RUNS).map(move |_| {
        let unit = uniform_below(&mut source, 1 << 53).expect("seeded words") as f64 / (1u64 << 53) as f64;
        let loss = cumulative.partition_point(|&below| below <= unit).min(rows as usize);
        let mut noise = [0i128; 2];
        distribution.fill(&mut source, &mut noise).expect("seeded words");
        Sums { rows: rows as f64, loss: loss as f64, noise: noise.map(|units| units as f64 / SCALE as f64) }
    })
}

/// The probabilities of a binomial distribution; those below the smallest float are zero.
fn binomial(trials: u64, rate: f64) -> Vec<f64> {
    let centre = (trials as f64 * rate) as u64;
    let ratio = |k: u64| (trials - k) as f64 / (k + 1) as f64 * rate / (1.0 - rate);
    let mut masses = vec![1.0; trials as usize + 1];
    for k in centre..trials {
        masses[k as usize + 1] = masses[k as usize] * ratio(k);
    }
    for k in (0..centre).rev() {
        masses[k as usize] = masses[k as usize + 1] / ratio(k);
    }
    let total: f64 = masses.iter().sum();
    let mut sum = 0.0;
    masses.iter().map(|mass| (sum += mass / total, sum).1).collect()
}
