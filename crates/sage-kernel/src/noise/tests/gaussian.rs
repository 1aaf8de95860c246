//! Discrete Gaussian noise.

use super::super::{DiscreteGaussian, NoiseError};
use super::{cells, chi_square_fits, count_fits, counts_by_edge, edges_for, normal_cumulative, seeded};

/// Summed for small parameters; for large ones the discrete and the rounded distribution agree to 1e-9.
fn cumulative(sigma: f64) -> Box<dyn Fn(i128) -> f64> {
    if sigma > 1000.0 {
        return Box::new(move |edge| normal_cumulative((edge as f64 + 0.5) / sigma));
    }
    let reach = (12.0 * sigma).ceil() as i128 + 2;
    let weight = move |value: i128| (-(value as f64 / sigma).powi(2) / 2.0).exp();
    let mut sums = vec![0.0];
    for value in -reach..=reach {
        sums.push(sums[sums.len() - 1] + weight(value));
    }
    let total = sums[sums.len() - 1];
    Box::new(move |edge| sums[(edge + reach + 1).clamp(0, 2 * reach + 1) as usize] / total)
}

const SIGMAS: [(u64, u64); 8] = [
    (2, 5),
    (1, 1),
    (33, 10),
    (200, 7),
    (5 << 20, 1),
    (4_224_678_890, 1000),
    (1_000_000_007, 300_000_001),
    (1 << 40, 1),
];

#[test]
fn gaussian_has_its_distribution_and_no_other_sigma() {
    let mut source = seeded("gaussian_has_its_distribution_and_no_other_sigma");
    for (numerator, denominator) in SIGMAS {
        let sampler = DiscreteGaussian::new(numerator, denominator).expect("in range");
        let sigma = numerator as f64 / denominator as f64;
        let mut noise = vec![0; 300_000];
        sampler.fill(&mut source, &mut noise).expect("noise");
        let edges = edges_for(sigma);
        let counts = counts_by_edge(noise.iter().copied(), &edges);
        let fits = |factor: f64| chi_square_fits(&counts, &cells(&edges, cumulative(sigma * factor)));
        assert!(fits(1.0), "sigma {sigma}");
        assert!(!fits(1.05) && !fits(0.95), "sigma {sigma} is not distinguished from its neighbours");
    }
}

#[test]
fn gaussian_is_symmetric_with_the_right_spread() {
    let mut source = seeded("gaussian_is_symmetric_with_the_right_spread");
    let trials = 400_000u64;
    for (numerator, denominator) in [(33u64, 10u64), (5 << 20, 1)] {
        let sampler = DiscreteGaussian::new(numerator, denominator).expect("in range");
        let variance = (numerator as f64 / denominator as f64).powi(2);
        let (mut sum, mut squares, mut positive, mut negative) = (0.0, 0.0, 0, 0);
        let mut noise = vec![0; trials as usize];
        sampler.fill(&mut source, &mut noise).expect("noise");
        for value in noise {
            sum += value as f64;
            squares += (value as f64).powi(2);
            positive += u64::from(value > 0);
            negative += u64::from(value < 0);
        }
        let count = trials as f64;
        assert!(sum.abs() < 5.0 * (variance * count).sqrt());
        assert!(count_fits(positive, positive + negative, 0.5));
        assert!((squares / count - variance).abs() < 5.0 * variance * (2.0 / count).sqrt());
    }
}

#[test]
fn gaussian_refuses_degenerate_parameters() {
    let refused = Err(NoiseError::ParameterOutOfRange);
    for (numerator, denominator) in
        [(0, 0), (0, 1), (1, 0), (1, 1025), ((1 << 40) + 1, 1), ((1 << 60) + 1, 1 << 20), (u64::MAX, u64::MAX - 1)]
    {
        assert_eq!(DiscreteGaussian::new(numerator, denominator), refused);
    }
    assert!(DiscreteGaussian::new(1 << 40, 1).is_ok());
    assert!(DiscreteGaussian::new((1 << 58) + 1, 1 << 19).is_ok());
}

/// At the smallest parameter every draw is zero, and the sampler terminates.
#[test]
fn the_narrowest_gaussian_is_zero() {
    let mut source = seeded("the_narrowest_gaussian_is_zero");
    let sampler = DiscreteGaussian::new(1, 1024).expect("in range");
    let mut noise = [1; 10_000];
    sampler.fill(&mut source, &mut noise).expect("noise");
    assert_eq!(noise, [0; 10_000]);
}
