//! Uniform integers and Bernoulli variables.

use super::super::exact::{bernoulli, bernoulli_exp, digits_below, draw_below};
use super::super::source::sealed::Sealed;
use super::super::{NoiseError, uniform_below};
use super::{Scripted, chi_square_fits, count_fits, seeded};

#[test]
fn uniform_integers_are_uniform() {
    let mut source = seeded("uniform_integers_are_uniform");
    for bound in [2u64, 3, 10, 97] {
        let mut counts = vec![0; bound as usize];
        for _ in 0..100_000 {
            counts[uniform_below(&mut source, bound).expect("a draw") as usize] += 1;
        }
        let even = vec![1.0 / bound as f64; bound as usize];
        assert!(chi_square_fits(&counts, &even), "bound {bound}");
        let tilted: Vec<f64> = (0..bound)
            .map(|value| (1.0 + if value == 0 { 0.1 } else { -0.1 / (bound - 1) as f64 }) / bound as f64)
            .collect();
        assert!(bound > 10 || !chi_square_fits(&counts, &tilted), "bound {bound}");
    }
}

#[test]
fn wide_bounds_are_exact_at_word_borders() {
    let mut source = seeded("wide_bounds_are_exact_at_word_borders");
    for bound in [1, 1 << 63, (1 << 64) - 1, 1 << 64, (1 << 64) + 1, 3 << 126, u128::MAX] {
        let mut upper = 0;
        for _ in 0..20_000 {
            let value = draw_below(&mut source, bound);
            assert!(value < bound);
            upper += u64::from(value >= bound / 2);
        }
        assert!(count_fits(upper, 20_000, if bound == 1 { 1.0 } else { 0.5 }), "bound {bound}");
    }
}

#[test]
fn bernoulli_variables_have_their_probability() {
    let mut source = seeded("bernoulli_variables_have_their_probability");
    let trials = 200_000;
    for (numerator, denominator) in [(0, 5), (1, 3), (1, 1000), (7, 7), (1 << 90, 3 << 90), (1 << 125, (1 << 127) - 1)]
    {
        let probability = numerator as f64 / denominator as f64;
        let heads = (0..trials).filter(|_| bernoulli(&mut source, numerator, denominator)).count() as u64;
        assert!(count_fits(heads, trials, probability), "{numerator}/{denominator}");
        if probability > 0.1 && probability < 0.9 {
            assert!(!count_fits(heads, trials, probability * 1.05));
        }
    }
}

#[test]
fn exponential_bernoulli_variables_have_their_probability() {
    let mut source = seeded("exponential_bernoulli_variables_have_their_probability");
    let trials = 200_000;
    for (numerator, denominator) in [(0, 5), (1, 3), (5, 7), (1, 1)] {
        let probability = (-(numerator as f64) / denominator as f64).exp();
        let heads = (0..trials)
            .filter(|_| bernoulli_exp(&mut source, |source| bernoulli(source, numerator, denominator)))
            .count() as u64;
        assert!(count_fits(heads, trials, probability), "{numerator}/{denominator}");
        if probability > 0.01 && probability < 0.99 {
            assert!(!count_fits(heads, trials, probability * 0.9));
        }
    }
}

/// A draw must continue past the first digit if that digit does not decide it, at any depth.
#[test]
fn open_digits_are_followed_exactly() {
    let mut source = seeded("open_digits_are_followed_exactly");
    for _ in 0..2_000 {
        let denominator = (source.next_u64() >> (source.next_u64() % 60)).max(3) | 1;
        let numerator = 1 + source.next_u64() % (denominator - 1);
        let mut digits = Vec::new();
        let mut remainder = numerator;
        for _ in 0..4 {
            let scaled = u128::from(remainder) << 64;
            digits.push((scaled / u128::from(denominator)) as u64);
            remainder = (scaled % u128::from(denominator)) as u64;
        }
        for depth in 0..4 {
            for (change, below) in [(-1i64, true), (1, false)] {
                let Some(last) = digits[depth].checked_add_signed(change) else {
                    continue;
                };
                let mut scripted = digits[..depth].iter().copied().chain([last]);
                let outcome = digits_below(
                    || scripted.next().expect("no more digits needed"),
                    numerator.into(),
                    denominator.into(),
                );
                assert_eq!(outcome, below, "{numerator}/{denominator} at digit {depth}");
            }
        }
    }
}

/// A number equal to the ratio in every digit that the ratio has is not below it.
#[test]
fn a_digit_on_the_ratio_is_not_below_it() {
    for (digits, below) in [([(1 << 63) - 1, u64::MAX], true), ([1 << 63, 0], false), ([1 << 63, 1], false)] {
        let mut scripted = digits.into_iter().chain([1]);
        assert_eq!(digits_below(|| scripted.next().expect("three digits are enough"), 1, 2), below);
    }
    assert!(digits_below(|| unreachable!("one is above every digit"), 7, 7));
}

/// Leading digits may save work but must not change a decision. Words are taken at and around
/// the ratio's own digits, where leading digits are least decisive.
#[test]
fn leading_digits_never_change_a_draw() {
    let mut source = seeded("leading_digits_never_change_a_draw");
    for round in 0..20_000 {
        let random = u128::from(source.next_u64()) << 64 | u128::from(source.next_u64());
        let denominator = (random >> (9 + round % 110)).max(1);
        let numerator = draw_below(&mut source, denominator);
        let mut remainder = numerator;
        let mut digit = 0u64;
        for _ in 0..64 {
            remainder <<= 1;
            digit = digit << 1 | u64::from(remainder >= denominator);
            remainder -= if remainder >= denominator { denominator } else { 0 };
        }
        let offset = source.next_u64() % 9;
        let word = digit.wrapping_add(offset).wrapping_sub(4);
        for word in [word, source.next_u64()] {
            let fast = bernoulli(&mut Scripted::new(&[word], round), numerator, denominator);
            let mut scripted = Scripted::new(&[word], round);
            let slow = digits_below(|| scripted.next_u64(), numerator, denominator);
            assert_eq!(fast, slow, "{numerator}/{denominator} against {word}");
        }
    }
}

#[test]
fn a_bound_of_zero_is_refused() {
    let mut source = seeded("a_bound_of_zero_is_refused");
    assert_eq!(uniform_below(&mut source, 0), Err(NoiseError::ParameterOutOfRange));
    assert_eq!(uniform_below(&mut source, 1), Ok(0));
}
