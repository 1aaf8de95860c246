//! Exact coins and uniform integers: the atoms of the discrete samplers.
//!
//! A uniform real number is met here as its digits in base 2^64, drawn one at a time and only
//! while a decision is open. Every comparison is between integers. Nothing here may round,
//! truncate a probability, or give up after a fixed number of digits.

use super::{NoiseError, NoiseSource};

/// Runs one draw between the checks a source demands.
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
    let wide = uniform_below_wide(source, u128::from(bound))?;
    u64::try_from(wide).map_err(|_| NoiseError::ParameterOutOfRange)
}

/// As [`uniform_below`], for bounds above 2^64.
///
/// # Guarantee
/// Each value has probability exactly `1/bound`.
///
/// # Errors
/// As for [`uniform_below`].
pub fn uniform_below_wide(source: &mut impl NoiseSource, bound: u128) -> Result<u128, NoiseError> {
    if bound == 0 {
        return Err(NoiseError::ParameterOutOfRange);
    }
    checked(source, |source| draw_below(source, bound))
}

/// True with probability `numerator / denominator`, and always if that is above one.
///
/// # Guarantee
/// The probability is exact.
///
/// # Errors
/// `ParameterOutOfRange` if `denominator` is zero; `EntropyUnavailable` from the source.
pub fn bernoulli(source: &mut impl NoiseSource, numerator: u64, denominator: u64) -> Result<bool, NoiseError> {
    if denominator == 0 {
        return Err(NoiseError::ParameterOutOfRange);
    }
    checked(source, |source| coin(source, numerator, denominator))
}

/// True with probability `exp(-numerator / denominator)`.
///
/// # Guarantee
/// The probability is exact (Canonne, Kamath and Steinke 2020, algorithm 1).
///
/// # Errors
/// `ParameterOutOfRange` if `denominator` is zero; `EntropyUnavailable` from the source.
pub fn bernoulli_exp(source: &mut impl NoiseSource, numerator: u64, denominator: u64) -> Result<bool, NoiseError> {
    if denominator == 0 {
        return Err(NoiseError::ParameterOutOfRange);
    }
    checked(source, |source| {
        let whole = numerator / denominator;
        let rest = numerator % denominator;
        (0..whole).all(|_| exp_coin(source, |_| true)) && exp_coin(source, |source| coin(source, rest, denominator))
    })
}

/// Uniform on `0..bound`, `bound > 0`: as many bits as the bound has, again until they fit.
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

/// Is the number `0.d1 d2 d3 ...` with these digits below `numerator / denominator`?
///
/// With digit `d`, the number is below the ratio if `d + 1 <= ratio * 2^64`, and is not if
/// `d >= ratio * 2^64`; between the two, the digits after `d` are to be compared with what is
/// left of the ratio, which is again a fraction over the same denominator.
#[inline(always)]
pub(super) fn digits_below(mut next_digit: impl FnMut() -> u64, numerator: u64, denominator: u64) -> bool {
    let mut numerator = numerator;
    loop {
        let target = u128::from(numerator) << 64;
        let product = u128::from(next_digit()) * u128::from(denominator);
        if product >= target {
            return false;
        }
        match u64::try_from(target - product) {
            Ok(gap) if gap < denominator => numerator = gap,
            _ => return true,
        }
    }
}

/// Exact coin of probability `numerator / denominator`.
#[inline(always)]
pub(super) fn coin(source: &mut impl NoiseSource, numerator: u64, denominator: u64) -> bool {
    digits_below(|| source.next_u64(), numerator, denominator)
}

/// Given coins of probability `x`, one of probability `exp(-x)`, for `0 <= x <= 1`.
///
/// The first index at which "an `x` coin and a `1/index` coin" fails is odd with that probability.
#[inline(always)]
pub(super) fn exp_coin<N: NoiseSource>(source: &mut N, mut x_coin: impl FnMut(&mut N) -> bool) -> bool {
    let mut index = 1;
    while (index == 1 || coin(source, 1, index)) && x_coin(source) {
        index += 1;
    }
    index % 2 == 1
}
