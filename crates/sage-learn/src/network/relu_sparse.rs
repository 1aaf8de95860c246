//! Matrix products whose left factor is the output of a ReLU: zeros, about half of the values, are skipped.
//!
//! Rows have their zeros in different columns, so tiles of rows would save nothing. Each row is multiplied alone with
//! a panel of the right factor that stays in the L1 cache, and only the panel rows it needs are read. Every element of
//! a product is a sum over the columns in order, independent of the other rows, the register width and the number of
//! threads. A finite weight times zero adds nothing, so skipping it changes no bit.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use sage_numerics::{dispatch, multiply_add};

use super::product::{Initial, Lanes, Right};

/// Maximum bytes of a panel: it stays in the L1 cache beside the rows that are multiplied with it.
const PANEL: usize = 28 << 10;
/// Maximum rows of a panel: each has one bit in a word.
const DEPTH: usize = 64;
/// Maximum registers across a panel; there are at least half as many. Each is an independent sum, and eight hide the
/// latency; more of them share the work that is done once per value on the left.
const WIDE: usize = 8;
/// The same for registers of eight values (AVX2): of sixteen registers two are needed for other things. A panel is
/// smaller than with [`WIDE`] registers of twice the size.
const WIDE_HALVES: usize = 14;
/// Minimum columns for this layout to pay off: fewer give too few independent sums.
const COLUMNS: usize = 64;
/// Bytes of a cache line: a read across two lines takes twice as long.
const LINE: usize = 64;

/// A matrix packed as the right factor of such products.
struct SparseRight {
    /// Blocks of at most [`DEPTH`] rows, each in panels of at most [`PANEL`] bytes.
    packed: Vec<f32>,
    /// Index of the first value, so that panels are aligned to cache lines.
    start: usize,
    rows: usize,
    columns: usize,
}

impl SparseRight {
    /// Packs row-major weights, reusing the allocation of `memory`.
    fn new(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |block, used, width, packed| {
            for (row, packed) in block.zip(packed.chunks_exact_mut(width)) {
                packed[..used.len()].copy_from_slice(&weights[row * columns..][used.clone()]);
            }
        })
    }

    /// Packs column-major weights, reusing the allocation of `memory`.
    fn transposed(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |block, used, width, packed| {
            for (index, column) in used.enumerate() {
                let targets = packed[index..].iter_mut().step_by(width);
                targets.zip(&weights[column * rows..][block.clone()]).for_each(|(target, &weight)| *target = weight);
            }
        })
    }

    fn pack(
        rows: usize, columns: usize, mut packed: Vec<f32>, fill: impl Fn(Range<usize>, Range<usize>, usize, &mut [f32]),
    ) -> Self {
        let lanes = dispatch(Lanes);
        let size = rows * columns.next_multiple_of(lanes);
        packed.resize(size + LINE / size_of::<f32>(), 0.0);
        let start = packed.as_ptr().align_offset(LINE).min(LINE / size_of::<f32>());
        let mut rest = &mut packed[start..];
        for block in blocks(rows, columns, lanes) {
            for panel in panels(columns, lanes) {
                let used = panel.start * lanes..columns.min(panel.end * lanes);
                let (mine, behind) = rest.split_at_mut(block.len() * panel.len() * lanes);
                fill(block.clone(), used, panel.len() * lanes, mine);
                rest = behind;
            }
        }
        Self { packed, start, rows, columns }
    }

    /// Computes `left · self` into `out`, row by row, starting from `initial`.
    fn product(&self, left: &[f32], out: &mut [f32], initial: Initial<'_>) {
        if self.rows > 0 && !out.is_empty() {
            dispatch(Product { left, right: self, out, initial });
        }
    }
}

/// The rows, in blocks of about the same size.
fn blocks(rows: usize, columns: usize, lanes: usize) -> impl Iterator<Item = Range<usize>> {
    let widest = panels(columns, lanes).map(|panel| panel.len()).max().unwrap_or(1);
    let count = rows.div_ceil(DEPTH.min(PANEL / (widest * lanes * size_of::<f32>())));
    (0..count).map(move |block| rows * block / count..rows * (block + 1) / count)
}

/// The columns, in panels of about the same width, counted in registers of `lanes` values.
fn panels(columns: usize, lanes: usize) -> impl Iterator<Item = Range<usize>> {
    let registers = columns.div_ceil(lanes);
    let count = registers.div_ceil(if lanes == 8 { WIDE_HALVES } else { WIDE });
    (0..count).map(move |panel| registers * panel / count..registers * (panel + 1) / count)
}

/// A weight matrix packed to be the right factor of products with rows.
pub struct PackedWeights(Packing);

enum Packing {
    Dense(Right),
    ReluSparse(SparseRight),
}

/// What the left factor of a product contains.
#[derive(Clone, Copy, PartialEq)]
pub enum LeftSide {
    /// Any values.
    Dense,
    /// Values after a ReLU, about half of which are zero.
    ReluSparse,
}

impl PackedWeights {
    /// Packs a row-major matrix, reusing the allocation of `memory`.
    pub fn new(left: LeftSide, weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self(if left == LeftSide::ReluSparse && columns >= COLUMNS {
            Packing::ReluSparse(SparseRight::new(weights, rows, columns, memory))
        } else {
            Packing::Dense(Right::new(weights, rows, columns, memory))
        })
    }

    /// Packs a column-major matrix, reusing the allocation of `memory`.
    pub fn transposed(left: LeftSide, weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self(if left == LeftSide::ReluSparse && columns >= COLUMNS {
            Packing::ReluSparse(SparseRight::transposed(weights, rows, columns, memory))
        } else {
            Packing::Dense(Right::transposed(weights, rows, columns, memory))
        })
    }

    /// Computes `left · self` into `out`, row by row, starting from `initial`.
    pub fn product(&self, left: &[f32], out: &mut [f32], initial: Initial<'_>) {
        match &self.0 {
            Packing::Dense(right) => right.product(left, out, initial),
            Packing::ReluSparse(right) => right.product(left, out, initial),
        }
    }

    /// Returns the allocation, for the next matrix.
    pub(crate) fn into_memory(self) -> Vec<f32> {
        match self.0 {
            Packing::Dense(right) => right.packed,
            Packing::ReluSparse(right) => right.packed,
        }
    }
}

struct Product<'data> {
    left: &'data [f32],
    right: &'data SparseRight,
    out: &'data mut [f32],
    initial: Initial<'data>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right, out, initial } = self;
        let (inner, columns) = (right.rows, right.columns);
        let mut used = vec![0u64; out.len() / columns];
        let mut ragged = Ragged::new(columns, S::F32_LANES, out, initial);
        let mut rest = &right.packed[right.start..];
        for block in blocks(inner, columns, S::F32_LANES) {
            for (used, left) in used.iter_mut().zip(left.chunks_exact(inner)) {
                *used = not_zero(&left[block.clone()]);
            }
            let initial = if block.start == 0 { initial } else { Initial::Existing };
            for panel in panels(columns, S::F32_LANES) {
                let (mine, behind) = rest.split_at(block.len() * panel.len() * S::F32_LANES);
                rest = behind;
                let first = panel.start * S::F32_LANES;
                let rows = Rows { left: &left[block.start..], inner, used: &used, initial };
                if panel.end * S::F32_LANES > columns {
                    let rows = Rows { initial: Initial::Existing, ..rows };
                    rows.multiply(simd, panel.len(), mine, &mut ragged.sums, ragged.width, 0);
                } else {
                    rows.multiply(simd, panel.len(), mine, out, columns, first);
                }
            }
        }
        ragged.copy_back(out, columns);
    }
}

/// Buffer for the sums of a last panel that extends past the last column.
struct Ragged {
    sums: Vec<f32>,
    width: usize,
    first: usize,
}

impl Ragged {
    #[inline(always)]
    fn new(columns: usize, lanes: usize, out: &[f32], initial: Initial<'_>) -> Self {
        let last = panels(columns, lanes).last().filter(|last| last.end * lanes > columns);
        let Some(last) = last else { return Self { sums: Vec::new(), width: 0, first: columns } };
        let (width, first) = (last.len() * lanes, last.start * lanes);
        let mut sums = vec![0.0; out.len() / columns * width];
        for (sums, out) in sums.chunks_exact_mut(width).zip(out.chunks_exact(columns)) {
            match initial {
                Initial::Existing => sums[..columns - first].copy_from_slice(&out[first..]),
                Initial::Bias(bias) => sums[..columns - first].copy_from_slice(&bias[first..]),
                Initial::Zero => {}
            }
        }
        Self { sums, width, first }
    }

    #[inline(always)]
    fn copy_back(&self, out: &mut [f32], columns: usize) {
        if self.width > 0 {
            for (sums, out) in self.sums.chunks_exact(self.width).zip(out.chunks_exact_mut(columns)) {
                out[self.first..].copy_from_slice(&sums[..columns - self.first]);
            }
        }
    }
}

/// A bit mask of the non-zero values, of at most 64; NaN counts as non-zero.
#[inline(always)]
fn not_zero(values: &[f32]) -> u64 {
    // Halves of a known size of 32, since registers hold twice as many values of 32 bits. They may overlap.
    if let (Some(low), Some(high)) = (values.first_chunk::<32>(), values.last_chunk::<32>()) {
        return u64::from(half_not_zero(low)) | u64::from(half_not_zero(high)) << (values.len() - 32);
    }
    u64::from(half_not_zero(values))
}

#[inline(always)]
fn half_not_zero(values: &[f32]) -> u32 {
    let bits = values.iter().enumerate().map(|(index, &value)| u32::from(value != 0.0).wrapping_shl(index as u32));
    bits.fold(0, |all, bit| all | bit)
}

/// Rows that are multiplied with a panel.
struct Rows<'data> {
    /// The left factor from the block's first column on; rows are `inner` apart.
    left: &'data [f32],
    inner: usize,
    /// For each row, the mask of non-zero values in the block.
    used: &'data [u64],
    initial: Initial<'data>,
}

impl Rows<'_> {
    /// Adds to the columns from `first` on, in rows that are `stride` apart.
    #[inline(always)]
    fn multiply<S: Simd>(self, simd: S, wide: usize, panel: &[f32], out: &mut [f32], stride: usize, first: usize) {
        match wide {
            1 => self.add::<S, 1>(simd, panel, out, stride, first),
            2 => self.add::<S, 2>(simd, panel, out, stride, first),
            3 => self.add::<S, 3>(simd, panel, out, stride, first),
            4 => self.add::<S, 4>(simd, panel, out, stride, first),
            5 => self.add::<S, 5>(simd, panel, out, stride, first),
            6 => self.add::<S, 6>(simd, panel, out, stride, first),
            7 => self.add::<S, 7>(simd, panel, out, stride, first),
            WIDE => self.add::<S, WIDE>(simd, panel, out, stride, first),
            9 => self.add::<S, 9>(simd, panel, out, stride, first),
            10 => self.add::<S, 10>(simd, panel, out, stride, first),
            11 => self.add::<S, 11>(simd, panel, out, stride, first),
            12 => self.add::<S, 12>(simd, panel, out, stride, first),
            13 => self.add::<S, 13>(simd, panel, out, stride, first),
            _ => self.add::<S, WIDE_HALVES>(simd, panel, out, stride, first),
        }
    }

    #[inline(always)]
    fn add<S: Simd, const COUNT: usize>(self, simd: S, panel: &[f32], out: &mut [f32], stride: usize, first: usize) {
        let (vectors, _) = S::as_simd_f32s(panel);
        let (vectors, _) = vectors.as_chunks::<COUNT>();
        for (row, (&used, out)) in self.used.iter().zip(out.chunks_exact_mut(stride)).enumerate() {
            let (out, _) = S::as_mut_simd_f32s(&mut out[first..][..COUNT * S::F32_LANES]);
            let mut sums: [S::f32s; COUNT] = match self.initial {
                Initial::Existing => std::array::from_fn(|index| out[index]),
                Initial::Bias(bias) => {
                    let (bias, _) = S::as_simd_f32s(&bias[first..][..COUNT * S::F32_LANES]);
                    std::array::from_fn(|index| bias[index])
                }
                Initial::Zero => [simd.splat_f32s(0.0); COUNT],
            };
            let left = &self.left[row * self.inner..];
            let mut bits = used;
            while bits != 0 {
                let index = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let value = simd.splat_f32s(left[index]);
                for (sum, right) in sums.iter_mut().zip(&vectors[index]) {
                    *sum = multiply_add(simd, value, *right, *sum);
                }
            }
            // Copied one by one, so that the sums themselves stay in registers.
            for (out, index) in out.iter_mut().zip(0..COUNT) {
                *out = sums[index];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of which about half are zero.
    fn relu_output(count: usize, seed: usize) -> Vec<f32> {
        let number = |index: usize| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0;
        (0..count).map(|index| number(index).max(0.0)).collect()
    }

    #[test]
    fn products_equal_dense_products_and_rows_are_independent() {
        for inner in [1usize, 3, 31, 32, 33, 49, 50, 51, 63, 64, 65, 130] {
            for columns in [1usize, 8, 17, 64, 100, 128, 129, 208, 221, 300] {
                let weights = relu_output(inner * columns, 1);
                let mut column_major = vec![0.0; inner * columns];
                for row in 0..inner {
                    (0..columns)
                        .for_each(|column| column_major[column * inner + row] = weights[row * columns + column]);
                }
                let right = SparseRight::new(&weights, inner, columns, vec![1.0; 3]);
                let other = SparseRight::transposed(&column_major, inner, columns, vec![f32::NAN; 2 * inner * columns]);
                let dense = Right::new(&weights, inner, columns, Vec::new());
                for count in [0usize, 1, 5, 13] {
                    let left = relu_output(count * inner, 2);
                    let bias = relu_output(columns, 3);
                    for initial in [Initial::Existing, Initial::Zero, Initial::Bias(&bias)] {
                        let start = if initial == Initial::Existing { 0.5 } else { f32::NAN };
                        let (mut out, mut expected) = (vec![start; count * columns], vec![start; count * columns]);
                        right.product(&left, &mut out, initial);
                        dense.product(&left, &mut expected, initial);
                        let close = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-6 * inner as f32;
                        assert!(out.iter().zip(&expected).all(close), "{inner} {columns} {count}");
                        for (row, out) in out.chunks_exact(columns).enumerate() {
                            let mut alone = vec![start; columns];
                            other.product(&left[row * inner..][..inner], &mut alone, initial);
                            assert_eq!(alone, out, "{inner} {columns} {count} {row}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_non_zero_value_has_its_bit() {
        for count in 0..=DEPTH {
            let values: Vec<f32> =
                relu_output(count, 4).into_iter().enumerate().map(|(at, x)| x * (at % 3) as f32).collect();
            let bit = |(at, &value): (usize, &f32)| u64::from(value != 0.0) << at;
            let expected = values.iter().enumerate().map(bit).sum::<u64>();
            assert_eq!(not_zero(&values), expected, "{count}");
            assert_eq!(not_zero(&vec![f32::NAN; count]).count_ones() as usize, count);
        }
    }

    #[test]
    fn nan_is_not_skipped() {
        let right = SparseRight::new(&[1.0; 2 * 64], 2, 64, Vec::new());
        let mut out = vec![0.0; 3 * 64];
        right.product(&[f32::NAN, 0.0, 0.0, f32::INFINITY, -0.0, 2.0], &mut out, Initial::Zero);
        assert!(out[..64].iter().all(|value| value.is_nan()));
        assert!(out[64..128].iter().all(|&value| value == f32::INFINITY));
        assert!(out[128..].iter().all(|&value| value == 2.0));
    }
}
