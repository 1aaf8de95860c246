//! The table of [`super::RoundedGaussian`]: the probability mass split into rectangles and a remainder.
//!
//! Each bucket of 2^17 integers has the highest rectangle that fits under the curve; a rectangle is
//! drawn with one lookup in an alias table. The mass between rectangles and
//! curve, about 0.3 %, is drawn by rejection. All weights are integers with an exact
//! total; proof: `rounded_gaussian.md`. No float may appear here.

use super::NoiseSource;
use super::exact::draw_below;
use sage_numerics::{HEIGHT_ERROR, alias_columns, rounded_gaussian_height};
use std::sync::LazyLock;

pub(super) const BUCKET_BITS: u32 = 17;
pub(super) const INDEX_BITS: u32 = 12;
pub(super) const BUCKETS: usize = 1 << INDEX_BITS;

/// The number of bits for the index and the offset within a bucket; the bits above them decide most columns.
pub(super) const LEADING_SHIFT: u32 = BUCKET_BITS + INDEX_BITS;

/// Outcome zero is the remainder. Its own bucket, the most negative one, is beyond 15.99 sigma.
pub(super) const REMAINDER: usize = 0;

/// A column of the alias table holds `2^99` units: the 35 leading bits of a word, then 64 more.
pub(super) const COLUMN: u128 = 1 << (64 - LEADING_SHIFT + 64);

/// Heights are in units of `2^-128`; a rectangle's height must be a multiple of `2^24` for its weight to be an integer.
const HEIGHT_STEP_BITS: u32 = 24;

pub(super) struct Table {
    /// Per column: the leading bits of the threshold, with the alias in the lowest bits.
    pub(super) columns: Box<[u64; BUCKETS]>,
    /// Per column: the 64 bits of the threshold after the leading ones.
    pub(super) thresholds_low: Box<[u64; BUCKETS]>,
    /// Per bucket: the height of its rectangle.
    pub(super) floors: Box<[u128; BUCKETS]>,
    /// Per bucket: the sum of the heights above the rectangles, up to and including this bucket.
    pub(super) gaps_through: Box<[u128; BUCKETS]>,
}

/// The integer at `offset` in bucket `index`.
#[inline(always)]
pub(super) fn integer_at(index: usize, offset: u64) -> i32 {
    (((index as u64) << BUCKET_BITS) | offset) as i32 - (1 << (LEADING_SHIFT - 1))
}

impl Table {
    /// The shared table of this process.
    pub(super) fn shared() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(Table::build);
        &TABLE
    }

    fn build() -> Self {
        let mut floors = Box::new([0; BUCKETS]);
        let mut gaps_through = Box::new([0; BUCKETS]);
        let mut gaps = 0;
        for index in 1..BUCKETS {
            let ends = [integer_at(index, 0), integer_at(index, (1 << BUCKET_BITS) - 1)];
            let [low, high] = ends.map(rounded_gaussian_height);
            let floor = low.min(high).saturating_sub(HEIGHT_ERROR);
            floors[index] = floor >> HEIGHT_STEP_BITS << HEIGHT_STEP_BITS;
            gaps += low.max(high) + 2 * HEIGHT_ERROR - floors[index];
            gaps_through[index] = gaps;
        }
        let (columns, thresholds_low) = alias_columns(rectangle_weights(&floors), COLUMN, LEADING_SHIFT);
        Self { columns, thresholds_low, floors, gaps_through }
    }

    /// An integer from the remainder: a uniform point between the rectangles and the tops of their
    /// buckets, drawn until it lies under the curve.
    #[cold]
    #[inline(never)]
    pub(super) fn draw_remainder(&self, source: &mut impl NoiseSource) -> i32 {
        let total = self.gaps_through[BUCKETS - 1];
        loop {
            let point = draw_below(source, total);
            let index = self.gaps_through.partition_point(|&through| through <= point);
            let height = point - self.gaps_through[index - 1];
            let x = integer_at(index, source.next_u64() >> (64 - BUCKET_BITS));
            if height < rounded_gaussian_height(x).saturating_sub(self.floors[index]) {
                return x;
            }
        }
    }
}

/// The mass of every rectangle in units of `2^-111`, and of the remainder, which is the rest.
pub(super) fn rectangle_weights(floors: &[u128; BUCKETS]) -> Box<[u128; BUCKETS]> {
    let mut weights = Box::new([0; BUCKETS]);
    let mut total = 0;
    for (weight, floor) in weights.iter_mut().zip(floors) {
        *weight = floor >> HEIGHT_STEP_BITS;
        total += *weight;
    }
    weights[REMAINDER] = COLUMN * BUCKETS as u128 - total;
    weights
}
