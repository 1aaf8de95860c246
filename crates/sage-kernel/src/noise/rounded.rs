//! Fast integer Gaussian noise with a fixed standard deviation, for vector releases and DP-SGD.
//!
//! A draw is a normal variable of standard deviation 2^24 rounded to the nearest integer, so that
//! adding it to an integer is a post-processing of the continuous Gaussian mechanism, and every
//! accountant for that mechanism applies. Callers scale their lattice, never the noise. Proof:
//! `rounded_gaussian.md`. A draw must never be used without charging its deviation.

use super::exact::checked;
use super::rounded_table::{BUCKET_BITS, BUCKETS, INDEX_BITS, LEADING_SHIFT, REMAINDER, Table, integer_at};
use super::{NoiseError, NoiseSource};

/// Integer noise `round(N)`, where `N` is normal with mean zero and standard deviation 2^24.
#[derive(Clone, Copy)]
pub struct RoundedGaussian {
    pub(super) table: &'static Table,
}

impl RoundedGaussian {
    /// The standard deviation of the normal variable that is rounded.
    pub const STANDARD_DEVIATION: u32 = 1 << 24;

    /// The total variation distance of one draw from the ideal distribution is at most this: `2^-100`. To account for a
    /// distance `v`, charge `(1 + e^epsilon) v` of delta.
    pub const DEVIATION_PER_DRAW: f64 = 1.0 / (1u128 << 100) as f64;

    /// The sampler; its table is built once per process, in a few milliseconds.
    #[allow(clippy::new_without_default, reason = "a default would be one more way to the same table")]
    pub fn new() -> Self {
        Self { table: Table::shared() }
    }

    /// Fills `noise` with independent draws.
    ///
    /// # Guarantee
    /// The draws together are within `noise.len() * 2^-100` of independent ideal ones in total
    /// variation, if the source's words are uniform and independent. All are below `2^28` in
    /// magnitude. After an error the contents of `noise` are meaningless.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn fill(&self, source: &mut impl NoiseSource, noise: &mut [i32]) -> Result<(), NoiseError> {
        checked(source, |source| noise.fill_with(|| self.draw(source)))
    }

    /// One draw, from one word; about one draw in 300 takes more words.
    #[inline(always)]
    fn draw(&self, source: &mut impl NoiseSource) -> i32 {
        let word = source.next_u64();
        let index = word as usize % BUCKETS;
        let column = self.table.columns[index];
        let (leading, threshold) = (word >> LEADING_SHIFT, column >> LEADING_SHIFT);
        let alias = column as usize % BUCKETS;
        let mut chosen = if leading < threshold { index } else { alias };
        if leading == threshold {
            chosen = self.break_tie(index, alias, source);
        }
        if chosen == REMAINDER {
            return self.table.draw_remainder(source);
        }
        integer_at(chosen, word >> INDEX_BITS & ((1 << BUCKET_BITS) - 1))
    }

    /// If the leading bits equal those of the threshold, the next 64 bits decide.
    #[cold]
    #[inline(never)]
    fn break_tie(&self, index: usize, alias: usize, source: &mut impl NoiseSource) -> usize {
        if source.next_u64() < self.table.thresholds_low[index] { index } else { alias }
    }
}
