//! The table behind [`super::RoundedGaussian`]: the curve cut into rectangles and a remainder.
//!
//! Over each bucket of 2^17 integers stands the widest rectangle that fits under the curve; a point
//! under some rectangle is drawn by one look in an alias table. What is left between rectangles and
//! curve, about 0.3 % of the mass, is drawn by rejection. All weights are integers with an exact
//! total; proof: `rounded_gaussian.md`. No float may appear here.

use super::NoiseSource;
use super::exact::draw_below;
use super::fixed::{HEIGHT_ERROR, rounded_gaussian_height};
use std::sync::LazyLock;

pub(super) const BUCKET_BITS: u32 = 17;
pub(super) const INDEX_BITS: u32 = 12;
pub(super) const BUCKETS: usize = 1 << INDEX_BITS;

/// Bits of a word above the index and the place within a bucket; they decide most columns.
pub(super) const LEADING_SHIFT: u32 = BUCKET_BITS + INDEX_BITS;

/// Outcome zero is the remainder. Its bucket, the most negative, is beyond 15.99 sigma.
pub(super) const REMAINDER: usize = 0;

/// A column of the alias table holds `2^99` units: the 35 leading bits of a word, then 64 more.
pub(super) const COLUMN: u128 = 1 << (64 - LEADING_SHIFT + 64);

/// Heights count in `2^-128`; a rectangle's must be a multiple of this for its weight to be whole.
const HEIGHT_STEP_BITS: u32 = 24;

pub(super) struct Table {
    /// By column: the leading bits of the threshold above, the alias in the lowest bits.
    pub(super) columns: Box<[u64; BUCKETS]>,
    /// By column: the 64 bits of the threshold after the leading ones.
    pub(super) thresholds_low: Box<[u64; BUCKETS]>,
    /// By bucket: the height of its rectangle.
    pub(super) floors: Box<[u128; BUCKETS]>,
    /// By bucket: the heights left above the rectangles, summed up to and including this one.
    pub(super) gaps_through: Box<[u128; BUCKETS]>,
}

/// The integer in bucket `index` at `place`.
#[inline(always)]
pub(super) fn integer_at(index: usize, place: u64) -> i32 {
    (((index as u64) << BUCKET_BITS) | place) as i32 - (1 << (LEADING_SHIFT - 1))
}

impl Table {
    /// The one table of this process.
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
        let (columns, thresholds_low) = alias_columns(rectangle_weights(&floors));
        Self { columns, thresholds_low, floors, gaps_through }
    }

    /// An integer from the remainder: a uniform point between the rectangles and their buckets'
    /// tops, again until it lies under the curve.
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

/// The mass of every rectangle in units of `2^-111`, and of the remainder: all that is missing.
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

/// Walker's alias table for weights with total `COLUMN * BUCKETS`, exactly.
///
/// A column keeps its own outcome below its threshold and gives its alias from there on.
fn alias_columns(mut weights: Box<[u128; BUCKETS]>) -> (Box<[u64; BUCKETS]>, Box<[u64; BUCKETS]>) {
    let mut columns = Box::new([0u64; BUCKETS]);
    let mut thresholds_low = Box::new([0; BUCKETS]);
    // A full column is its own alias, so its threshold is of no account.
    for (index, column) in columns.iter_mut().enumerate() {
        *column = index as u64;
    }
    let (mut short, mut long): (Vec<usize>, Vec<usize>) = (0..BUCKETS).partition(|&index| weights[index] < COLUMN);
    while let (Some(&small), Some(&large)) = (short.last(), long.last()) {
        short.pop();
        columns[small] = ((weights[small] >> 64) as u64) << LEADING_SHIFT | large as u64;
        thresholds_low[small] = weights[small] as u64;
        weights[large] -= COLUMN - weights[small];
        if weights[large] < COLUMN {
            long.pop();
            short.push(large);
        }
    }
    (columns, thresholds_low)
}
