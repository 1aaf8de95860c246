//! Poisson sampling of rows: each row in or out by a coin of its own, of one exact probability.
//!
//! Amplification by sampling is proved for independent coins only. This file must never fix the
//! size of a sample, shuffle, or let one row's coin depend on another's. Proof: `poisson.md`.

use super::exact::checked;
use super::{NoiseError, NoiseSource};

/// Selects each of `rows` rows independently; row `i` is bit `i % 64` of word `i / 64` of `mask`.
///
/// # Guarantee
/// Each row's probability is exactly `chance / 2^64`, one from there on, and the coins are independent. The mask has
/// `rows / 64` words, rounded up; bits past the last row are zero. What `mask` held is gone. On an
/// error it is left empty.
///
/// # Errors
/// `EntropyUnavailable` from the source.
pub fn poisson_mask(
    source: &mut impl NoiseSource, chance: u128, rows: usize, mask: &mut Vec<u64>,
) -> Result<(), NoiseError> {
    mask.clear();
    let words = rows.div_ceil(64);
    let outcome = checked(source, |source| match u64::try_from(chance) {
        Ok(digits) => mask.extend((0..words).map(|_| sixty_four_coins(source, digits))),
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

/// Sixty-four coins of probability `digits / 2^64`, side by side.
///
/// Each lane compares a uniform number of its own with the rate, one binary digit a word, and is
/// decided at the first digit that differs. When only zeros are left of the rate, an undecided
/// number can no longer be below it.
#[inline]
fn sixty_four_coins(source: &mut impl NoiseSource, mut digits: u64) -> u64 {
    let mut selected = 0;
    let mut undecided = u64::MAX;
    // The zeros that a small rate begins with leave some lane undecided most often; a word too many
    // takes less time than asking after each.
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
