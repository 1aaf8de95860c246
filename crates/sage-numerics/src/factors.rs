//! Exact sums, over rows, of the outer products of two factors of 16-bit integers (inputs and errors of a layer).
//!
//! Dense inputs are multiplied as a matrix. One-hot inputs are not multiplied: a row's errors are added at its active
//! indices. Results do not depend on the number of threads.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::arch::dispatch;
use crate::outer::{Matrix, overflow_free_chunks, write_outer};
use crate::parallel::{balanced_chunks, map_parallel, split_range};

/// Products per additional thread: for matrix products, and for gathering, where each takes longer.
const WORTH: usize = 1 << 20;
const GATHER_WORTH: usize = 1 << 15;

/// Outputs that are gathered at a time: whole cache lines of the errors are read once.
const OUTPUTS: usize = 512;
/// Outputs whose products stay in registers while they are added at every active index of a row. The sums of a few dozen
/// indices fit into the L1 cache.
const STRIP: usize = 64;
/// Rows that go through all strips before the next rows, so that their errors are still cached.
const GATHER_ROWS: usize = 64;
/// Layers with at least `WIDE` outputs are gathered in 32 bits first; narrower ones only if they have at most `NEAR` sums.
const WIDE: usize = 64;
const NEAR: usize = 1 << 14;

/// The shape of a row's factors.
#[derive(Clone, Copy, Debug)]
pub struct FactorShape {
    /// Dense columns, which are multiplied as a matrix.
    pub columns: usize,
    /// Errors per row.
    pub outputs: usize,
    /// Active one-hot indices per row.
    pub active: usize,
    /// The index of the bias, which is active in every row and follows the one-hot columns; `None` without a bias.
    pub bias: Option<usize>,
}

/// Both factors of all rows' outer products. The peaks decide how many rows can be summed in 32 bits.
#[derive(Default)]
pub struct Factors {
    /// The dense inputs.
    pub inputs: Vec<i16>,
    /// For each row, the quantised value of an input that is one.
    pub ones: Vec<i16>,
    /// The active one-hot indices.
    pub indices: Vec<u32>,
    /// The errors that inputs are multiplied with.
    pub errors: Vec<i16>,
    /// For each row, the product of its largest input and its largest error.
    pub peaks: Vec<u32>,
}

/// Splits off the first `count` elements and advances `rest` past them.
pub fn split_front<'data, T>(rest: &mut &'data mut [T], count: usize) -> &'data mut [T] {
    let (first, behind) = std::mem::take(rest).split_at_mut(count);
    *rest = behind;
    first
}

/// The sum of squares, in an order that vectorises.
#[inline(always)]
pub fn squared_norm(values: &[f32]) -> f64 {
    let one = |value: &f32| f64::from(*value) * f64::from(*value);
    if let Ok(values) = <&[f32; 8]>::try_from(values) {
        let squares: [f64; 8] = std::array::from_fn(|index| one(&values[index]));
        return in_pairs(squares);
    }
    let (chunks, rest) = values.as_chunks::<16>();
    let rest = rest.iter().map(one).sum();
    if chunks.is_empty() {
        return rest;
    }
    let mut sums = [0.0f64; 16];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += one(value));
    }
    in_pairs(std::array::from_fn(|index| sums[index] + sums[index + 8])) + rest
}

#[inline(always)]
fn in_pairs(sums: [f64; 8]) -> f64 {
    let four: [f64; 4] = std::array::from_fn(|index| sums[index] + sums[index + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// 1.5 times 2^23: in a float near it, the lowest bits are an integer.
const MAGIC: f32 = 12_582_912.0;

/// Scales a value and truncates it to an integer.
#[inline(always)]
fn truncate_one(value: f32, by: f32) -> i16 {
    let whole = (value * by).clamp(-32_767.0, 32_767.0).trunc();
    // Reading the lowest bits vectorises; a saturating cast does not.
    (whole + MAGIC).to_bits() as i16
}

/// Scales the values, truncates them to integers and returns the largest magnitude and the sum of squares.
#[inline(always)]
pub fn truncate_scaled(values: &[f32], by: f32, out: &mut [i16]) -> (u32, u64) {
    // Embeddings are many and short; a size known at compile time becomes a few vector instructions.
    if let (Ok(values), Ok(out)) = (<&[f32; 8]>::try_from(values), <&mut [i16; 8]>::try_from(&mut *out)) {
        *out = std::array::from_fn(|index| truncate_one(values[index], by));
        let entries: [i32; 8] = std::array::from_fn(|index| i32::from(out[index]));
        let largest = entries.iter().fold(0, |largest, entry| entry.wrapping_abs().max(largest));
        let squares: [u64; 8] =
            std::array::from_fn(|index| u64::from(entries[index].wrapping_mul(entries[index]) as u32));
        return (largest.unsigned_abs(), squares.iter().fold(0, |sum, square| sum.wrapping_add(*square)));
    }
    for (out, &value) in out.iter_mut().zip(values) {
        *out = truncate_one(value, by);
    }
    (largest(out), sum_of_squares(out))
}

#[inline(always)]
fn largest(entries: &[i16]) -> u32 {
    u32::from(entries.iter().fold(0, |largest, entry| entry.unsigned_abs().max(largest)))
}

#[inline(always)]
fn square_of(entry: i16) -> i32 {
    i32::from(entry).wrapping_mul(i32::from(entry))
}

/// Entries whose squares are summed in 32 bits.
const SQUARES: usize = 1 << 16;

/// The sum of squares of at most 2^32 entries, which fits into 64 bits.
///
/// The squares of two entries add up to at most 2^31, and one instruction computes that sum. Its upper and lower 16 bits
/// are accumulated separately: 2^15 of them fit into 32 bits, so no addition needs an overflow check or 64 bits.
#[inline(always)]
fn sum_of_squares(entries: &[i16]) -> u64 {
    let mut sum = 0u64;
    for entries in entries.chunks(SQUARES) {
        let (pairs, rest) = entries.as_chunks::<2>();
        let (mut low, mut high) = (0u32, 0u32);
        for &[one, other] in pairs {
            let both = square_of(one).wrapping_add(square_of(other)) as u32;
            low = low.wrapping_add(both & 0xffff);
            high = high.wrapping_add(both >> 16);
        }
        let last = rest.first().map_or(0, |&entry| square_of(entry) as u64);
        sum = sum.wrapping_add(u64::from(low)).wrapping_add(u64::from(high) << 16).wrapping_add(last);
    }
    sum
}

/// Writes the sum of all rows' outer products for each layer: for every dense column, one-hot column and the bias, one
/// sum per output. Previous contents are overwritten.
pub fn sum_outer_products<'data>(
    layers: impl Iterator<Item = (&'data Factors, FactorShape, &'data mut Vec<i64>)>, threads: usize,
) {
    let mut lists: Vec<Vec<Task<'_>>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    let (mut narrow, mut worth) = (Vec::new(), 0usize);
    for (factors, shape, sums) in layers {
        let FactorShape { columns, outputs, active, .. } = shape;
        if factors.peaks.is_empty() || outputs == 0 {
            sums.fill(0);
            continue;
        }
        let (dense, gathered) = sums.split_at_mut(columns * outputs);
        if columns > 0 {
            distribute(&mut lists, factors.multiplications(shape, threads, dense));
        }
        if active == 0 {
            gathered.fill(0);
        } else if outputs >= WIDE {
            distribute(&mut lists, factors.gatherings(shape, threads, gathered));
        } else {
            worth = worth.saturating_add(factors.errors.len().saturating_mul(active) / GATHER_WORTH);
            narrow.push(NarrowLayer { factors, shape, sums: gathered });
        }
    }
    // Many narrow layers are small, such as embeddings: each thread gets several.
    distribute(
        &mut lists,
        balanced_chunks(narrow, threads.min(1 + worth), |layer| layer.factors.errors.len())
            .into_iter()
            .map(Task::Narrow),
    );
    lists.retain(|list| !list.is_empty());
    map_parallel(lists, |list| list.into_iter().for_each(Task::work));
}

/// A unit of work for one thread. It overwrites all of its sums.
enum Task<'data> {
    /// Some dense columns.
    Multiply(&'data Factors, FactorShape, Range<usize>, &'data mut [i64]),
    /// Some outputs of all one-hot columns and the bias.
    Gather(&'data Factors, FactorShape, Range<usize>, Vec<&'data mut [i64]>),
    /// Layers with few outputs.
    Narrow(Vec<NarrowLayer<'data>>),
}

/// Distributes the tasks round-robin. The first goes to the last list, which the calling thread runs itself.
fn distribute<'data>(lists: &mut [Vec<Task<'data>>], tasks: impl Iterator<Item = Task<'data>>) {
    let count = lists.len();
    tasks.enumerate().for_each(|(index, task)| lists[count - 1 - index % count].push(task));
}

impl Task<'_> {
    fn work(self) {
        match self {
            Self::Multiply(factors, shape, columns, sums) => {
                let left = Matrix { entries: &factors.inputs, width: shape.columns };
                let right = Matrix { entries: &factors.errors, width: shape.outputs };
                write_outer(left, columns, right, &overflow_free_chunks(&factors.peaks), sums);
            }
            Self::Gather(factors, shape, range, mut sums) => {
                for start in range.clone().step_by(OUTPUTS) {
                    let outputs = start..range.end.min(start + OUTPUTS);
                    dispatch(GatherSum { factors, shape, first: range.start, outputs, sums: &mut sums });
                }
            }
            Self::Narrow(layers) => {
                for layer in layers {
                    layer.sums.fill(0);
                    dispatch(layer);
                }
            }
        }
    }
}

impl Factors {
    fn multiplications<'data>(
        &'data self, shape: FactorShape, threads: usize, mut sums: &'data mut [i64],
    ) -> impl Iterator<Item = Task<'data>> {
        let worth = self.inputs.len().saturating_mul(shape.outputs) / WORTH;
        split_range(shape.columns, threads.min(1 + worth)).into_iter().map(move |columns| {
            let share = split_front(&mut sums, columns.len() * shape.outputs);
            Task::Multiply(self, shape, columns, share)
        })
    }

    /// The active indices of a row, then the bias. A row that was zeroed has no valid indices and adds nothing.
    #[inline(always)]
    fn active_indices(&self, shape: FactorShape, row: usize) -> impl Iterator<Item = usize> {
        let indices = if self.ones[row] == 0 { &[] } else { &self.indices[row * shape.active..][..shape.active] };
        indices.iter().map(|&index| index as usize).chain(shape.bias)
    }

    #[inline(always)]
    fn gather_narrow(&self, shape: FactorShape, rows: Range<usize>, sums: &mut [impl Sum]) {
        let mut products = [0i32; WIDE];
        let products = &mut products[..shape.outputs];
        for row in rows {
            let errors = &self.errors[row * shape.outputs..][..shape.outputs];
            let one = i32::from(self.ones[row]);
            for (product, &error) in products.iter_mut().zip(errors) {
                *product = one.wrapping_mul(i32::from(error));
            }
            for index in self.active_indices(shape, row) {
                let sums = &mut sums[index * shape.outputs..][..shape.outputs];
                // A size known at compile time becomes a few vector instructions.
                let (sums, rest) = sums.as_chunks_mut::<8>();
                let (added, behind) = products.as_chunks::<8>();
                for (sums, added) in sums.iter_mut().zip(added) {
                    *sums = std::array::from_fn(|at| sums[at].and(added[at]));
                }
                for (sum, &added) in rest.iter_mut().zip(behind) {
                    *sum = sum.and(added);
                }
            }
        }
    }

    /// Adds the products of some rows at the outputs of one strip to the sums of their active indices.
    #[inline(always)]
    fn gather_strip(&self, shape: FactorShape, rows: Range<usize>, outputs: Range<usize>, partial: &mut [Strip]) {
        // In a strip that is not full, the last products belong to no output, and their sums are never read.
        let mut products = Strip::ZERO;
        for row in rows {
            let one = i32::from(self.ones[row]);
            let errors = &self.errors[row * shape.outputs..][outputs.clone()];
            products.multiply(errors, one);
            for index in self.active_indices(shape, row) {
                partial[index].add(&products);
            }
        }
    }

    /// Tasks that add each row's errors at its active indices and at the bias.
    fn gatherings<'data>(
        &'data self, shape: FactorShape, threads: usize, sums: &'data mut [i64],
    ) -> impl Iterator<Item = Task<'data>> {
        let outputs = shape.outputs;
        let worth = self.errors.len().saturating_mul(shape.active + 1) / WORTH;
        let ranges = split_range(outputs, threads.min(1 + worth).min(outputs.div_ceil(OUTPUTS)));
        let mut shares: Vec<(Range<usize>, Vec<&mut [i64]>)> =
            ranges.into_iter().map(|range| (range, Vec::new())).collect();
        for mut sums in sums.chunks_exact_mut(outputs) {
            for (range, share) in &mut shares {
                share.push(split_front(&mut sums, range.len()));
            }
        }
        shares.into_iter().map(move |(range, sums)| Task::Gather(self, shape, range, sums))
    }
}

/// Sums or products at neighbouring outputs, aligned to cache lines: a load across two lines takes twice as long.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Strip([i32; STRIP]);

impl Strip {
    const ZERO: Self = Self([0; STRIP]);

    #[inline(always)]
    fn multiply(&mut self, errors: &[i16], one: i32) {
        if let Ok(errors) = <&[i16; STRIP]>::try_from(errors) {
            // The fixed size lets the products stay in registers.
            for (product, &error) in self.0.iter_mut().zip(errors) {
                *product = i32::from(error).wrapping_mul(one);
            }
            return;
        }
        for (product, &error) in self.0.iter_mut().zip(errors) {
            *product = i32::from(error).wrapping_mul(one);
        }
    }

    #[inline(always)]
    fn add(&mut self, products: &Self) {
        for (sum, &product) in self.0.iter_mut().zip(&products.0) {
            *sum = sum.wrapping_add(product);
        }
    }
}

struct GatherSum<'data, 'sums> {
    factors: &'data Factors,
    shape: FactorShape,
    /// The first output of each slice of sums.
    first: usize,
    outputs: Range<usize>,
    sums: &'data mut [&'sums mut [i64]],
}

impl WithSimd for GatherSum<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { factors, shape, first, outputs, sums } = self;
        let target = outputs.start - first..outputs.end - first;
        let indices = sums.len().max(1);
        // Strip by strip, the sums of every index.
        let mut partial = vec![Strip::ZERO; outputs.len().div_ceil(STRIP) * indices];
        for (chunk, rows) in overflow_free_chunks(&factors.peaks).into_iter().enumerate() {
            partial.fill(Strip::ZERO);
            for start in rows.clone().step_by(GATHER_ROWS) {
                let rows = start..rows.end.min(start + GATHER_ROWS);
                for (partial, start) in partial.chunks_exact_mut(indices).zip(outputs.clone().step_by(STRIP)) {
                    factors.gather_strip(shape, rows.clone(), start..outputs.end.min(start + STRIP), partial);
                }
            }
            for (index, sums) in sums.iter_mut().enumerate() {
                for (sums, partial) in sums[target.clone()].chunks_mut(STRIP).zip(partial.chunks_exact(indices)) {
                    let both = sums.iter_mut().zip(&partial[index].0);
                    if chunk == 0 {
                        both.for_each(|(sum, &partial)| *sum = i64::from(partial));
                    } else {
                        both.for_each(|(sum, &partial)| *sum = sum.wrapping_add(i64::from(partial)));
                    }
                }
            }
        }
    }
}

/// A layer with few outputs.
struct NarrowLayer<'data> {
    factors: &'data Factors,
    shape: FactorShape,
    sums: &'data mut [i64],
}

impl WithSimd for NarrowLayer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { factors, shape, sums } = self;
        let each = shape.outputs * (shape.active + 1);
        let mut partial = Vec::new();
        for rows in overflow_free_chunks(&factors.peaks) {
            if sums.len() > NEAR || rows.len() * each < sums.len() {
                factors.gather_narrow(shape, rows, sums);
                continue;
            }
            // There are more additions than sums: 32-bit sums take half the cache.
            partial.clear();
            partial.resize(sums.len(), 0i32);
            factors.gather_narrow(shape, rows, &mut partial);
            for (sum, &partial) in sums.iter_mut().zip(&partial) {
                *sum = sum.wrapping_add(i64::from(partial));
            }
        }
    }
}

/// An accumulator for products; the caller rules out overflow.
trait Sum: Copy {
    fn and(self, product: i32) -> Self;
}

impl Sum for i32 {
    #[inline(always)]
    fn and(self, product: i32) -> Self {
        self.wrapping_add(product)
    }
}

impl Sum for i64 {
    #[inline(always)]
    fn and(self, product: i32) -> Self {
        self.wrapping_add(Self::from(product))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::InstructionSet;

    struct Square<'data>(&'data [f32]);

    impl WithSimd for Square<'_> {
        type Output = f64;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> f64 {
            squared_norm(self.0)
        }
    }

    #[test]
    fn squared_lengths_have_the_same_bits_on_every_instruction_set() {
        let mut draw = crate::tests::words(19);
        for count in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 500] {
            // Exponents from 2^-27 to 2^27, so that most additions round.
            let mut value = || f32::from_bits(draw() as u32 & 0x807f_ffff | (100 + draw() as u32 % 55) << 23);
            let values: Vec<f32> = (0..count).map(|_| value()).collect();
            let plain: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
            let first = InstructionSet::Scalar.dispatch(Square(&values));
            assert!((first - plain).abs() <= 1e-12 * plain, "{count}: {first} {plain}");
            for set in InstructionSet::available() {
                assert_eq!(set.dispatch(Square(&values)).to_bits(), first.to_bits(), "{} {count}", set.name());
            }
        }
    }

    #[test]
    fn sums_of_squares_equal_naive_sums() {
        let mut draw = crate::tests::words(17);
        for count in [0, 1, 2, 3, 31, 100, SQUARES - 1, SQUARES, SQUARES + 1, 3 * SQUARES + 7] {
            for kind in 0..3 {
                let entry = |_| match kind {
                    0 => i16::MIN,
                    1 => i16::MAX,
                    _ => draw() as i16,
                };
                let entries: Vec<i16> = (0..count).map(entry).collect();
                let expected: u64 = entries.iter().map(|&entry| u64::from(entry.unsigned_abs()).pow(2)).sum();
                assert_eq!(sum_of_squares(&entries), expected, "{count} {kind}");
                let expected = entries.iter().map(|entry| u32::from(entry.unsigned_abs())).max();
                assert_eq!(largest(&entries), expected.unwrap_or(0), "{count} {kind}");
            }
        }
    }
}
