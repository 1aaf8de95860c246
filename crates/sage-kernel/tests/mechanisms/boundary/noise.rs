//! The parameters of noise at their limits, and draws beyond 64 bits.

use sage_kernel::noise::{DiscreteGaussian, DiscreteLaplace, SeededNoise};

/// With t the floor of σ plus one, t times the denominator is at most 2^59.
#[test]
fn a_gaussian_has_a_limited_denominator() {
    let half = 1u64 << 58;
    for (numerator, denominator, fine) in [
        (half + 1, half, true),
        (half + 3, half + 2, false),
        (half, half + 1, true),
        (2 * half - 3, 2 * half - 1, true),
        (2 * half + 3, 2 * half + 1, false),
    ] {
        let made = DiscreteGaussian::new(numerator, denominator);
        assert_eq!(made.is_ok(), fine, "{numerator} / {denominator}");
    }
}

/// A scale of about 2^52 as a quotient whose products pass 64 bits: as many draws are beyond four scales as in the
/// exponential distribution, and none is absurd.
#[test]
fn wide_quotients_keep_their_scale() {
    let (numerator, denominator) = ((1u64 << 62) + 1, 1021);
    let scale = numerator as f64 / denominator as f64;
    let mut draws = vec![0i128; 20_000];
    let sampler = DiscreteLaplace::new(numerator, denominator).expect("in range");
    sampler.fill(&mut SeededNoise::new(5), &mut draws).expect("seeded");
    for (times, least, most) in [(1.0, 7100, 7620), (4.0, 290, 445), (6.0, 20, 85)] {
        let count = draws.iter().filter(|draw| draw.unsigned_abs() as f64 > times * scale).count();
        assert!((least..=most).contains(&count), "{count} beyond {times} scales");
    }
    assert!(draws.iter().all(|draw| draw.unsigned_abs() as f64 <= 40.0 * scale));
    let negative = draws.iter().filter(|draw| **draw < 0).count();
    assert!((9_500..=10_500).contains(&negative), "{negative}");
}
