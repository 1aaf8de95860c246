//! Draws for simulations: binomial numbers and the kernel's own noise, from a seed that is printed.

use sage_kernel::SCALE;
use sage_kernel::noise::{DiscreteGaussian, DiscreteLaplace, SeededNoise, uniform_below};
use sage_learn::validate::clopper_pearson;

/// The seed of this run: from `SAGE_SEED` if it is set, and printed so that a run can be repeated.
pub fn run_seed(test: &str) -> u64 {
    let given = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(0x5a6e_0003);
    println!("{test}: SAGE_SEED={seed}");
    seed
}

/// Runs at each point: ten thousand in CI, a hundred thousand with `SAGE_SOAK=1`.
pub fn runs() -> usize {
    if std::env::var("SAGE_SOAK").is_ok_and(|text| text == "1") { 100_000 } else { 10_000 }
}

/// Uniform numbers.
pub struct Dice(SeededNoise);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SeededNoise::new(seed ^ 0xd1ce))
    }

    pub fn unit(&mut self) -> f64 {
        (uniform_below(&mut self.0, 1 << 53).unwrap()) as f64 / (1u64 << 53) as f64
    }
}

/// A binomial distribution, as a table of its distribution around the mean.
pub struct Binomial {
    first: u64,
    cumulative: Vec<f64>,
}

impl Binomial {
    /// Both tails beyond the table together have a probability of about 1e-20.
    pub fn new(trials: u64, rate: f64) -> Self {
        let (n, deviation) = (trials as f64, (trials as f64 * rate * (1.0 - rate)).sqrt());
        let centre = (n * rate).floor();
        let first = (centre - 10.0 * deviation - 30.0).max(0.0) as u64;
        let last = ((centre + 10.0 * deviation + 30.0) as u64).min(trials);
        let ratio = |k: u64| (trials - k) as f64 / (k + 1) as f64 * rate / (1.0 - rate);
        // Unnormalised masses, outward from the centre, so that none of the relevant ones underflows.
        let centre = centre as u64;
        let mut masses = vec![1.0; (last - first + 1) as usize];
        for k in centre..last {
            masses[(k + 1 - first) as usize] = masses[(k - first) as usize] * ratio(k);
        }
        for k in (first..centre).rev() {
            masses[(k - first) as usize] = masses[(k + 1 - first) as usize] / ratio(k);
        }
        let total: f64 = masses.iter().sum();
        let mut sum = 0.0;
        let cumulative = masses.iter().map(|mass| {
            sum += mass / total;
            sum
        });
        Self { first, cumulative: cumulative.collect() }
    }

    pub fn draw(&self, dice: &mut Dice) -> f64 {
        let unit = dice.unit();
        let index = self.cumulative.partition_point(|&below| below <= unit).min(self.cumulative.len() - 1);
        (self.first + index as u64) as f64
    }
}

/// Noise as a session draws it, in rows.
pub enum Source {
    Laplace(DiscreteLaplace),
    Gaussian(DiscreteGaussian),
}

impl Source {
    /// The Laplace noise of a table, for ε in units of 10^-12.
    pub fn laplace(units: u64) -> Self {
        Self::with_sensitivity(SCALE, units)
    }

    /// Laplace noise where one row moves the sums by this many steps.
    pub fn with_sensitivity(steps: u64, units: u64) -> Self {
        Self::Laplace(DiscreteLaplace::new(steps * 1_000_000_000_000, units).unwrap())
    }

    /// The Gaussian noise of a table, for a whole multiplier.
    pub fn gaussian(sigma: u64) -> Self {
        Self::Gaussian(DiscreteGaussian::new(sigma * SCALE, 1).unwrap())
    }

    /// `count` draws.
    pub fn draws(&self, seed: u64, count: usize) -> Vec<f64> {
        let mut noise = vec![0i128; count];
        let mut source = SeededNoise::new(seed);
        match self {
            Self::Laplace(distribution) => distribution.fill(&mut source, &mut noise).unwrap(),
            Self::Gaussian(distribution) => distribution.fill(&mut source, &mut noise).unwrap(),
        }
        noise.into_iter().map(|units| units as f64 / SCALE as f64).collect()
    }
}

/// One seed from several numbers.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |seed, &part| {
        let word = (seed ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 29
    })
}

/// Whether the error rate is within the risk: its upper limit at 99 % confidence is at most the risk.
pub fn within(errors: usize, runs: usize, risk: f64) -> bool {
    clopper_pearson(errors as f64, runs as f64, 0.01).1 <= risk
}

#[test]
fn binomial_numbers_have_their_mean_and_variance() {
    let mut dice = Dice::new(7);
    for (trials, rate) in [(1, 0.5), (20, 0.05), (1000, 0.9), (10_000, 0.001)] {
        let distribution = Binomial::new(trials, rate);
        let draws: Vec<f64> = (0..40_000).map(|_| distribution.draw(&mut dice)).collect();
        let mean = draws.iter().sum::<f64>() / 40_000.0;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 40_000.0;
        let (exact_mean, exact) = (trials as f64 * rate, trials as f64 * rate * (1.0 - rate));
        assert!((mean - exact_mean).abs() < 5.0 * (exact / 40_000.0).sqrt(), "{trials} {rate}: {mean}");
        assert!((variance / exact - 1.0).abs() < 0.08, "{trials} {rate}: {variance}, not {exact}");
    }
}

#[test]
fn rates_above_the_risk_are_detected() {
    assert!(within(30, 10_000, 0.01) && within(0, 10_000, 0.01));
    assert!(!within(100, 10_000, 0.01) && !within(150, 10_000, 0.01) && !within(10_000, 10_000, 0.5));
}
