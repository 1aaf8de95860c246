//! Gaussian noise for vector releases and DP-SGD: fast, on the integers, of one fixed width.
//!
//! A draw is a normal variable of standard deviation 2^24 rounded to the nearest integer, so that
//! adding it to an integer is a post-processing of the continuous Gaussian mechanism and every
//! accountant for that one applies. Callers scale their lattice, never the noise. Proof:
//! `rounded_gaussian.md`. A draw must never be used without charging its deviation.

use super::exact::checked;
use super::rounded_table::{BUCKET_BITS, BUCKETS, INDEX_BITS, LEADING_SHIFT, REMAINDER, Table, integer_at};
use super::{NoiseError, NoiseSource};
use std::sync::OnceLock;

/// Words taken from the source at a time.
const BATCH: usize = 256;

/// Integer noise `round(N)`, where `N` is normal with mean zero and standard deviation 2^24.
#[derive(Clone, Copy)]
pub struct RoundedGaussian {
    pub(super) table: &'static Table,
}

impl RoundedGaussian {
    /// The standard deviation of the normal variable that is rounded.
    pub const STANDARD_DEVIATION: u32 = 1 << 24;

    /// One draw's law is within `2^-DEVIATION_BITS` of the ideal in total variation.
    pub const DEVIATION_BITS: u32 = 100;

    /// The same as a number, for reports; [`RoundedGaussian::deviation_units`] is for the ledger.
    pub const DEVIATION_PER_DRAW: f64 = 1.0 / (1u128 << Self::DEVIATION_BITS) as f64;

    /// The noise; its table is built once in a process, in a few milliseconds.
    #[must_use]
    pub fn new() -> Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        Self { table: TABLE.get_or_init(Table::build) }
    }

    /// The total-variation distance of `draws` draws from ideal ones, in units of `1e-18`,
    /// rounded up.
    ///
    /// # Guarantee
    /// Never below the true distance. To account for it, charge `1 + e^epsilon` times as much
    /// delta.
    #[must_use]
    pub fn deviation_units(draws: u64) -> u128 {
        (u128::from(draws) * 1_000_000_000_000_000_000).div_ceil(1 << Self::DEVIATION_BITS)
    }

    /// Fills `noise` with independent draws.
    ///
    /// # Guarantee
    /// The draws together are within `noise.len() * 2^-100` of independent ideal ones in total
    /// variation, if the source's words are uniform and independent. All are below `2^28` in
    /// magnitude. On an error the contents of `noise` mean nothing.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn fill(&self, source: &mut impl NoiseSource, noise: &mut [i32]) -> Result<(), NoiseError> {
        checked(source, |source| {
            let mut words = [0; BATCH];
            for batch in noise.chunks_mut(BATCH) {
                let words = &mut words[..batch.len()];
                source.fill(words);
                for (value, &word) in batch.iter_mut().zip(words.iter()) {
                    *value = self.draw(word, source);
                }
            }
        })
    }

    /// One draw from `word`; more words are taken once in some 300 draws.
    #[inline(always)]
    fn draw(&self, word: u64, source: &mut impl NoiseSource) -> i32 {
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

    /// Leading bits equal to those of the threshold leave the choice to the 64 bits after them.
    #[cold]
    #[inline(never)]
    fn break_tie(&self, index: usize, alias: usize, source: &mut impl NoiseSource) -> usize {
        let keeps = source.next_u64() < self.table.thresholds_low[index];
        if keeps { index } else { alias }
    }
}

impl Default for RoundedGaussian {
    fn default() -> Self {
        Self::new()
    }
}
