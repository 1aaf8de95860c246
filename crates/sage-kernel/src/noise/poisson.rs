//! Poisson sampling: each row is sampled independently with the same exact probability.
//!
//! Amplification by sampling is proved only for independent draws. This file must never fix the
//! size of a sample, shuffle, or let the draw of one row depend on another row. Proof: `poisson.md`.

use super::exact::checked;
use super::{NoiseError, NoiseSource};

/// Selects each of `rows` rows independently; row `i` is bit `i % 64` of word `i / 64` of `mask`.
///
/// # Guarantee
/// Each row's probability is exactly `min(chance / 2^64, 1)`, and the draws are independent. The mask has
/// `rows / 64` words, rounded up; bits past the last row are zero. Previous contents of `mask` are discarded. After an
/// error it is empty.
///
/// # Errors
/// `EntropyUnavailable` from the source.
pub fn poisson_mask(
    source: &mut impl NoiseSource, chance: u128, rows: usize, mask: &mut Vec<u64>,
) -> Result<(), NoiseError> {
    mask.clear();
    let words = rows.div_ceil(64);
    let outcome = checked(source, |source| match u64::try_from(chance) {
        Ok(digits) => mask.extend((0..words).map(|_| bernoulli_word(source, digits))),
        Err(_) => mask.resize(words, u64::MAX),
    });
    if outcome.is_err() {
        mask.clear();
    }
    if let Some(last) = mask.last_mut()
        && !rows.is_multiple_of(64)
    {
        *last &= u64::MAX >> (64 - rows % 64);
    }
    outcome
}

/// Sixty-four independent Bernoulli variables of probability `digits / 2^64`, one per bit.
///
/// Each bit compares its own uniform number with the rate, one binary digit per word, and is
/// decided at the first digit that differs. When only zeros of the rate are left, an undecided
/// number can no longer be below it.
#[inline]
fn bernoulli_word(source: &mut impl NoiseSource, mut digits: u64) -> u64 {
    let mut selected = 0;
    let mut undecided = u64::MAX;
    // The leading zeros of a small rate usually leave some bit undecided; drawing a word too many
    // is faster than checking after each word.
    let zeros = digits.leading_zeros().min(8);
    for _ in 0..zeros {
        undecided &= !source.next_u64();
    }
    digits <<= zeros;
    while digits != 0 && undecided != 0 {
        let word = source.next_u64();
        if digits >> 63 == 1 {
            selected |= undecided & !word;
            undecided &= word;
        } else {
            undecided &= !word;
        }
        digits <<= 1;
    }
    selected
}
