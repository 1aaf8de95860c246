//! Discrete Laplace noise.

use super::super::laplace::Exponential;
use super::super::{DiscreteLaplace, NoiseError};
use super::{Scripted, cells, chi_square_fits, count_fits, counts_by_edge, edges_for, fresh_seed, seeded};

fn cumulative(scale: f64) -> impl Fn(i128) -> f64 {
    move |edge| {
        let ratio = (-1.0 / scale).exp();
        if edge >= 0 {
            1.0 - (-((edge + 1) as f64) / scale).exp() / (1.0 + ratio)
        } else {
            (edge as f64 / scale).exp() / (1.0 + ratio)
        }
    }
}

const SCALES: [(u64, u64); 8] = [
    (1, 3),
    (1, 1),
    (7, 2),
    (1000, 1),
    (1 << 20, 1),
    ((1 << 20) * 1_000_000_000_000, 123_456_789_012),
    (1 << 50, 1),
    (1 << 60, 1),
];

#[test]
fn laplace_has_its_distribution_and_no_other_scale() {
    let mut source = seeded("laplace_has_its_distribution_and_no_other_scale");
    for (numerator, denominator) in SCALES {
        let sampler = DiscreteLaplace::new(numerator, denominator).expect("in range");
        let scale = numerator as f64 / denominator as f64;
        let mut noise = vec![0; 300_000];
        sampler.fill(&mut source, &mut noise).expect("noise");
        let edges = edges_for(scale);
        let counts = counts_by_edge(noise.iter().copied(), &edges);
        let fits = |factor: f64| chi_square_fits(&counts, &cells(&edges, cumulative(scale * factor)));
        assert!(fits(1.0), "scale {scale}");
        assert!(!fits(1.07) && !fits(0.93), "scale {scale} is not distinguished from its neighbours");
    }
}

#[test]
fn laplace_is_symmetric_with_the_right_spread() {
    let mut source = seeded("laplace_is_symmetric_with_the_right_spread");
    let trials = 400_000;
    for (numerator, denominator) in SCALES {
        let sampler = DiscreteLaplace::new(numerator, denominator).expect("in range");
        let scale = numerator as f64 / denominator as f64;
        let ratio = (-1.0 / scale).exp();
        let variance = 2.0 * ratio / (1.0 - ratio).powi(2);
        let variance = if scale > 1e4 { 2.0 * scale * scale } else { variance };
        let (mut sum, mut squares, mut positive, mut negative) = (0.0, 0.0, 0u64, 0u64);
        let mut noise = vec![0; trials];
        sampler.fill(&mut source, &mut noise).expect("noise");
        for value in noise {
            sum += value as f64;
            squares += (value as f64).powi(2);
            positive += u64::from(value > 0);
            negative += u64::from(value < 0);
        }
        let count = trials as f64;
        assert!(sum.abs() < 5.0 * (variance * count).sqrt(), "mean at {scale}");
        assert!(count_fits(positive, positive + negative, 0.5), "signs at {scale}");
        // The kurtosis of this distribution is at most 6 + 1/variance.
        let tolerance = 5.5 * variance * ((5.0 + 1.0 / variance) / count).sqrt();
        assert!((squares / count - variance).abs() < tolerance, "variance at {scale}");
    }
}

/// Every integer of the grid occurs: the low bits of wide noise are uniform.
#[test]
fn laplace_fills_the_whole_grid() {
    let mut source = seeded("laplace_fills_the_whole_grid");
    let sampler = DiscreteLaplace::new(1 << 30, 3).expect("in range");
    let mut noise = vec![0; 200_000];
    sampler.fill(&mut source, &mut noise).expect("noise");
    let mut counts = [0; 64];
    for value in noise {
        counts[value.rem_euclid(64) as usize] += 1;
    }
    assert!(chi_square_fits(&counts, &[1.0 / 64.0; 64]));
}

/// With two random bits per word, ties occur in nearly every run. A run depends only on the order, and
/// two-bit digits are ordered like a uniform number in base four, so the distribution stays exponential.
#[test]
fn ties_between_uniforms_are_settled_by_more_digits() {
    let mut source = Scripted::new(&[], fresh_seed("ties_between_uniforms_are_settled_by_more_digits"));
    source.mask = 3 << 62;
    let trials = 200_000u64;
    let (mut at_least_one, mut quarters, mut tied) = (0, [0; 4], 0);
    for _ in 0..trials {
        let exponential = Exponential::draw(&mut source);
        at_least_one += u64::from(exponential.whole > 0);
        quarters[(exponential.first >> 61) as usize] += 1;
        tied += u64::from(!exponential.rest.is_empty());
    }
    assert!(tied > trials / 10);
    assert!(count_fits(at_least_one, trials, (-1f64).exp()));
    let mass = |from: f64| ((-from).exp() - (-from - 0.25).exp()) / (1.0 - (-1f64).exp());
    let expected = [mass(0.0), mass(0.25), mass(0.5), mass(0.75)];
    assert!(chi_square_fits(&quarters, &expected));
    assert!(!chi_square_fits(&quarters, &[0.25; 4]));
}

/// `floor(b * u)` must use digits beyond the first word when they can carry, and those that
/// a tie has already drawn before any new ones.
#[test]
fn a_carry_from_later_digits_is_seen() {
    let sampler = DiscreteLaplace::new(3, 1).expect("in range");
    // One third in 63 binary digits: three times it is just below one.
    let third = (((1u64 << 63) - 1) / 3) << 1;
    let end_of_run = u64::MAX;
    for (later, expected) in [(0, 0), (u64::MAX / 2, 0), (u64::MAX, 1)] {
        let mut source = Scripted::new(&[third, end_of_run, later, 0, 0], 1);
        assert_eq!(sampler.draw(&mut source), expected, "{later:x}");
    }
    // The second uniform ties with the first and is then larger: the first is accepted, and the
    // digit that the comparison drew for it decides the carry.
    for (made, expected) in [(0, 0), (u64::MAX / 3 * 2 - 1, 0), (u64::MAX - 1, 1)] {
        let mut source = Scripted::new(&[third, third, u64::MAX, made], 1);
        assert_eq!(sampler.draw(&mut source), expected, "{made:x}");
    }
}

/// The same for scales with a denominator: at each quotient, the first 63 digits stay just below it and the next word
/// decides, exactly at the threshold that integer arithmetic gives.
#[test]
fn a_carry_into_a_quotient_is_seen() {
    for (numerator, denominator) in [(7u64, 2u64), (10, 3), (1_000_003, 7), ((1 << 62) + 1, (1 << 20) + 7)] {
        let sampler = DiscreteLaplace::new(numerator, denominator).expect("in range");
        let wide = u128::from(numerator);
        for quotient in 1..=((numerator - 1) / denominator).min(40) {
            let boundary = u128::from(quotient * denominator) << 63;
            let (first, gap) = (boundary / wide, boundary % wide);
            let Ok(threshold) = u64::try_from((gap << 64).div_ceil(wide)) else { continue };
            assert!(threshold > 0, "the boundary has more than 63 digits");
            for (later, expected) in [(threshold - 1, quotient - 1), (threshold, quotient)] {
                let mut source = Scripted::new(&[(first as u64) << 1, u64::MAX, later, 0, 0], 1);
                let drawn = sampler.draw(&mut source);
                assert_eq!(drawn, i128::from(expected), "{numerator}/{denominator}, {quotient}: {later:x}");
            }
        }
    }
}

#[test]
fn laplace_refuses_degenerate_scales() {
    let refused = Err(NoiseError::ParameterOutOfRange);
    for (numerator, denominator) in
        [(0, 0), (0, 1), (1, 0), (1, 1025), (1, u64::MAX), (u64::MAX, 1), ((1 << 60) + 1, 1), (u64::MAX, u64::MAX - 1)]
    {
        assert_eq!(DiscreteLaplace::new(numerator, denominator), refused);
    }
    let same = DiscreteLaplace::new(u64::MAX, u64::MAX);
    assert_eq!(same, DiscreteLaplace::new(1, 1));
    assert!(DiscreteLaplace::new(1, 1024).is_ok() && DiscreteLaplace::new(1 << 60, 1).is_ok());
}
