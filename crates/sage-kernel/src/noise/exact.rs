//! Exact Bernoulli variables and uniform integers, from which the discrete samplers are built.
//!
//! A uniform real number is represented by its digits in base 2^64, drawn one at a time and only
//! until a comparison is decided. Every comparison is between integers. Nothing here may round,
//! truncate a probability, or stop after a fixed number of digits.

use super::{NoiseError, NoiseSource};

/// Runs one draw between the checks that a source requires.
#[inline(always)]
pub(super) fn checked<N: NoiseSource, T>(source: &mut N, draw: impl FnOnce(&mut N) -> T) -> Result<T, NoiseError> {
    source.begin()?;
    let value = draw(source);
    source.finish()?;
    Ok(value)
}

/// An integer uniform on `0..bound`.
///
/// # Guarantee
/// Each value has probability exactly `1/bound`.
///
/// # Errors
/// `ParameterOutOfRange` if `bound` is zero; `EntropyUnavailable` from the source.
pub fn uniform_below(source: &mut impl NoiseSource, bound: u64) -> Result<u64, NoiseError> {
    if bound == 0 {
        return Err(NoiseError::ParameterOutOfRange);
    }
    checked(source, |source| draw_below(source, u128::from(bound)) as u64)
}

/// Uniform on `0..bound`, `bound > 0`, by rejection: draws as many bits as the bound has until the value is below it.
pub(super) fn draw_below(source: &mut impl NoiseSource, bound: u128) -> u128 {
    let mask = u128::MAX.checked_shr((bound - 1).leading_zeros()).unwrap_or(0);
    loop {
        let mut candidate = u128::from(source.next_u64());
        if mask >> 64 != 0 {
            candidate |= u128::from(source.next_u64()) << 64;
        }
        candidate &= mask;
        if candidate < bound {
            return candidate;
        }
    }
}

/// Whether the number `0.d1 d2 d3 ...` with these digits is below `numerator / denominator`.
///
/// The first binary digit in which they differ decides; the digits of the ratio come from long division.
/// The denominator must be below 2^127.
#[inline(never)]
pub(super) fn digits_below(mut next_digit: impl FnMut() -> u64, numerator: u128, denominator: u128) -> bool {
    let mut remainder = numerator;
    if remainder >= denominator {
        return true;
    }
    loop {
        let digit = next_digit();
        for position in (0..64).rev() {
            remainder <<= 1;
            let ratio_bit = remainder >= denominator;
            if ratio_bit {
                remainder -= denominator;
            }
            if ratio_bit != (digit >> position & 1 == 1) {
                return ratio_bit;
            }
        }
    }
}

/// An exact Bernoulli variable of probability `numerator / denominator <= 1`, `denominator < 2^127`.
#[inline(always)]
pub(super) fn bernoulli(source: &mut impl NoiseSource, numerator: u128, denominator: u128) -> bool {
    let word = source.next_u64();
    // Both are shifted until the denominator has 63 bits. Bits may be lost, but the ratio stays between
    // `n / (d + 1)` and `(n + 1) / d`.
    let (n, d) = match denominator.leading_zeros() {
        zeros @ ..65 => (numerator >> (65 - zeros), denominator >> (65 - zeros)),
        zeros => (numerator << (zeros - 65), denominator << (zeros - 65)),
    };
    if (u128::from(word) + 1) * (d + 1) <= n << 64 {
        return true;
    }
    if u128::from(word) * d >= (n + 1) << 64 {
        return false;
    }
    let mut drawn = Some(word);
    digits_below(|| drawn.take().unwrap_or_else(|| source.next_u64()), numerator, denominator)
}

/// A Bernoulli variable of probability `exp(-x)`, given Bernoulli variables of probability `x`, for `0 <= x <= 1`.
///
/// The first index at which the variables of probability `x` and `1/index` are not both true is odd with that
/// probability.
#[inline(always)]
pub(super) fn bernoulli_exp<N: NoiseSource>(source: &mut N, mut bernoulli_x: impl FnMut(&mut N) -> bool) -> bool {
    let mut index = 1;
    while (index == 1 || bernoulli(source, 1, index)) && bernoulli_x(source) {
        index += 1;
    }
    index % 2 == 1
}
