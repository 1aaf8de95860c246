//! Tests of the noise module, and their shared parts: seeds, test sources, goodness-of-fit tests.
//!
//! Every randomised test prints its seed; `SAGE_SEED=<seed>` replays it. Statistical tests have a
//! false-alarm rate near 1e-6, and each also shows that a wrong distribution is rejected.

mod exact;
mod failing;
mod gaussian;
mod laplace;
mod poisson;
mod rounded;
mod source;

use super::SeededNoise;
use super::source::KeyStream;
use super::source::sealed::Sealed;

/// The seed of a test: from `SAGE_SEED`, or fresh; printed either way.
fn fresh_seed(test: &str) -> u64 {
    let given = std::env::var("SAGE_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| getrandom::u64().expect("a seed"));
    println!("{test}: SAGE_SEED={seed}");
    seed
}

fn seeded(test: &str) -> SeededNoise {
    SeededNoise::new(fresh_seed(test))
}

/// Returns the listed words first, then seeded ones; keeps only the bits of `mask`.
struct Scripted {
    words: std::collections::VecDeque<u64>,
    then: SeededNoise,
    mask: u64,
}

impl Scripted {
    fn new(words: &[u64], seed: u64) -> Self {
        Self { words: words.iter().copied().collect(), then: SeededNoise::new(seed), mask: u64::MAX }
    }
}

impl Sealed for Scripted {
    fn fork(&mut self) -> Result<Self, super::NoiseError> {
        Err(super::NoiseError::EntropyUnavailable)
    }

    fn stream(&mut self) -> &mut KeyStream {
        self.then.stream()
    }

    fn next_u64(&mut self) -> u64 {
        let word = self.words.pop_front();
        word.unwrap_or_else(|| self.then.next_u64()) & self.mask
    }
}

/// Whether a count of successes is within five standard deviations (one in 1.7 million) of its mean.
fn count_fits(count: u64, trials: u64, probability: f64) -> bool {
    let mean = trials as f64 * probability;
    let deviation = (mean * (1.0 - probability)).sqrt();
    // The addition covers the skew of small counts.
    (count as f64 - mean).abs() <= 5.0 * deviation + if mean < 100.0 { 6.0 } else { 0.0 }
}

/// Chi-square test at 1e-6 by the Wilson-Hilferty quantile; bins that expect less than 20 are merged.
fn chi_square_fits(counts: &[u64], probabilities: &[f64]) -> bool {
    assert_eq!(counts.len(), probabilities.len());
    let total: u64 = counts.iter().sum();
    let (mut statistic, mut bins) = (0.0, 0.0);
    let (mut observed, mut expected) = (0.0, 0.0);
    let mut left = total as f64;
    for (&count, &probability) in counts.iter().zip(probabilities) {
        observed += count as f64;
        expected += probability * total as f64;
        left -= probability * total as f64;
        if expected >= 20.0 && left >= 20.0 {
            statistic += (observed - expected) * (observed - expected) / expected;
            bins += 1.0;
            (observed, expected) = (0.0, 0.0);
        }
    }
    if expected > 1e-9 {
        statistic += (observed - expected) * (observed - expected) / expected;
        bins += 1.0;
    }
    let freedom: f64 = bins - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    statistic <= freedom * (1.0 - spread + 4.7534 * spread.sqrt()).powi(3)
}

/// Counts of `values` in the cells `..=edges[0]`, `edges[0]+1..=edges[1]`, and so on.
fn counts_by_edge(values: impl Iterator<Item = i128>, edges: &[i128]) -> Vec<u64> {
    let mut counts = vec![0; edges.len() + 1];
    for value in values {
        counts[edges.partition_point(|&edge| edge < value)] += 1;
    }
    counts
}

/// Probabilities of the same cells, from `P(X <= edge)`.
fn cells(edges: &[i128], cumulative: impl Fn(i128) -> f64) -> Vec<f64> {
    let mut below = 0.0;
    let mut cells = Vec::new();
    for &edge in edges {
        cells.push(cumulative(edge) - below);
        below = cumulative(edge);
    }
    cells.push(1.0 - below);
    cells
}

/// Edges at `scale` times -6 to 6 in steps of a tenth, without repeats.
fn edges_for(scale: f64) -> Vec<i128> {
    let mut edges: Vec<i128> = (-60..=60).map(|step| (scale * f64::from(step) / 10.0).floor() as i128).collect();
    edges.extend([-1, 0]);
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn normal_cumulative(value: f64) -> f64 {
    libm::erfc(-value / std::f64::consts::SQRT_2) / 2.0
}
