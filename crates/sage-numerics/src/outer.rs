//! Exact sums of outer products of 16-bit integers.
//!
//! Rows are accumulated in 32 bits as long as even the largest possible sum of all of them fits; the partial sums are
//! then added in 64 bits. So no sum ever overflows (an overflow check would cost more than the sum), and the result does
//! not depend on the order of the rows, on the instruction set, or on the number of threads.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use pulp::bytemuck::cast;
use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
use crate::arch::DotProducts;
use crate::arch::InstructionSet;

/// Columns of the left and of the right matrix in one tile.
const LEFT: usize = 12;
const RIGHT: usize = 16;
/// Bands of the left matrix that are packed together, so that whole cache lines are read.
const BANDS: usize = 8;
/// The most rows per chunk; the packed rows stay in the L2 cache.
const ROWS: usize = 2048;
/// Padding between bands, in pairs of rows, so that adjacent bands do not compete for the same cache sets.
const GAP: usize = 3;

/// Two interleaved rows of a band (left) and of a panel (right): per column, the entries of both rows.
type LeftPair = [i16; 2 * LEFT];
type RightPair = [i16; 2 * RIGHT];
type Sums = [[i32; RIGHT]; LEFT];

/// A row-major matrix of 16-bit integers.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'data> {
    /// The entries, row by row.
    pub(crate) entries: &'data [i16],
    /// Entries per row.
    pub(crate) width: usize,
}

impl Matrix<'_> {
    /// Some columns of a row; empty if the row is beyond the end of `rows`.
    fn row_slice(&self, row: usize, rows: &Range<usize>, columns: Range<usize>) -> &[i16] {
        if row < rows.end { &self.entries[row * self.width..][columns] } else { &[] }
    }
}

/// Splits the rows into chunks whose 32-bit sums cannot overflow. `peaks` holds each row's largest possible product.
///
/// # Guarantee
/// In each chunk the peaks add up to less than 2^31, if each peak alone is below that.
pub(crate) fn overflow_free_chunks(peaks: &[u32]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut first, mut sum) = (0, 0u64);
    for (row, &peak) in peaks.iter().enumerate() {
        if sum + u64::from(peak) > i32::MAX as u64 || row - first == ROWS {
            chunks.push(first..row);
            (first, sum) = (row, 0);
        }
        sum += u64::from(peak);
    }
    if first < peaks.len() {
        chunks.push(first..peaks.len());
    }
    chunks
}

/// Writes the rows of leftᵀ · right that belong to the columns `columns` of `left` to `out`, which holds only those. If
/// there are no chunks, nothing is written.
///
/// # Guarantee
/// Exact if `chunks` is [`overflow_free_chunks`] of, for every row, the product of the largest magnitudes in both
/// matrices, and the sums fit into 64 bits.
pub(crate) fn write_outer(
    left: Matrix<'_>, columns: Range<usize>, right: Matrix<'_>, chunks: &[Range<usize>], out: &mut [i64],
) {
    write_outer_with(InstructionSet::current(), left, columns, right, chunks, out);
}

/// [`write_outer`] with a given instruction set.
fn write_outer_with(
    set: InstructionSet, left: Matrix<'_>, columns: Range<usize>, right: Matrix<'_>, chunks: &[Range<usize>],
    out: &mut [i64],
) {
    #[cfg(target_arch = "x86_64")]
    {
        if set >= InstructionSet::Avx512
            && let Some(simd) = pulp::x86::V4::try_new()
        {
            let outer = OuterSum { left, columns, right, chunks, out, tile: simd };
            return match DotProducts::try_new() {
                Some(dot) if set == InstructionSet::Avx512Vnni => dot.vectorize(WithVnni(outer)),
                _ => Simd::vectorize(simd, outer),
            };
        }
        if set >= InstructionSet::Avx2
            && let Some(simd) = pulp::x86::V3::try_new()
        {
            return Simd::vectorize(simd, OuterSum { left, columns, right, chunks, out, tile: simd });
        }
    }
    set.dispatch(OuterSum { left, columns, right, chunks, out, tile: Portable });
}

#[cfg(target_arch = "x86_64")]
struct WithVnni<'data>(OuterSum<'data, pulp::x86::V4>);

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for WithVnni<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let simd = self.0.tile;
        self.0.with_simd(simd);
    }
}

/// Computes the sums of one tile over pairs of rows.
trait Tile: Copy {
    /// The sums of at least the first `width` columns of the right matrix; others may be computed as well.
    fn add(self, left: &[LeftPair], right: &[RightPair], width: usize) -> Sums;
}

/// Portable code for processors without the instructions below.
#[derive(Clone, Copy)]
struct Portable;

impl Tile for Portable {
    #[inline(always)]
    fn add(self, left: &[LeftPair], right: &[RightPair], _: usize) -> Sums {
        let mut sums = [[0; RIGHT]; LEFT];
        for (left, right) in left.iter().zip(right) {
            for (sums, left) in sums.iter_mut().zip(left.chunks_exact(2)) {
                for (sum, right) in sums.iter_mut().zip(right.chunks_exact(2)) {
                    let [one, other] = [0, 1].map(|row| i32::from(left[row]) * i32::from(right[row]));
                    *sum += one + other;
                }
            }
        }
        sums
    }
}

#[cfg(target_arch = "x86_64")]
impl Tile for pulp::x86::V4 {
    /// One instruction multiplies the entries of two rows and adds the products, for all columns of the right matrix.
    #[inline(always)]
    fn add(self, left: &[LeftPair], right: &[RightPair], _: usize) -> Sums {
        let mut sums = [self.splat_u32s(0); LEFT];
        for (left, right) in left.iter().zip(right) {
            let left: [u32; LEFT] = cast(*left);
            for (sum, left) in sums.iter_mut().zip(left) {
                let both = self.multiply_wrapping_add_adjacent_i16x32(cast(self.splat_u32s(left)), cast(*right));
                *sum = self.add_u32s(*sum, cast(both));
            }
        }
        // Returning a copy keeps the sums in registers.
        let done: [_; LEFT] = std::array::from_fn(|row| sums[row]);
        cast(done)
    }
}

#[cfg(target_arch = "x86_64")]
impl Tile for pulp::x86::V3 {
    /// There are half as many registers of half the width, so half of the left columns are processed at a time.
    #[inline(always)]
    fn add(self, left: &[LeftPair], right: &[RightPair], width: usize) -> Sums {
        if width > RIGHT / 2 { add_halves::<2>(self, left, right) } else { add_halves::<1>(self, left, right) }
    }
}

/// The sums of the first `COUNT` halves of the right matrix's columns; zero for the others.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn add_halves<const COUNT: usize>(simd: pulp::x86::V3, left: &[LeftPair], right: &[RightPair]) -> Sums {
    let mut done = [[simd.splat_u32s(0); 2]; LEFT];
    // A loop, not a closure per half: the compiler may decide not to inline a closure, and on its own the closure is
    // compiled without AVX2, so that every intrinsic below becomes a call.
    for (half, done) in done.chunks_exact_mut(LEFT / 2).enumerate() {
        let mut sums = [[simd.splat_u32s(0); COUNT]; LEFT / 2];
        for (left, right) in left.iter().zip(right) {
            let right: [pulp::i16x16; 2] = cast(*right);
            let left: [[u32; LEFT / 2]; 2] = cast(*left);
            for (sums, left) in sums.iter_mut().zip(&left[half]) {
                let left = cast(simd.splat_u32s(*left));
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = simd.add_u32s(*sum, cast(simd.multiply_wrapping_add_adjacent_i16x16(left, right)));
                }
            }
        }
        // Copying them one by one keeps the sums in registers.
        for (done, sums) in done.iter_mut().zip(&sums) {
            done[..COUNT].copy_from_slice(sums);
        }
    }
    cast(done)
}

struct OuterSum<'data, T> {
    left: Matrix<'data>,
    columns: Range<usize>,
    right: Matrix<'data>,
    chunks: &'data [Range<usize>],
    out: &'data mut [i64],
    tile: T,
}

impl<T: Tile> WithSimd for OuterSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { left, columns, right, chunks, out, tile } = self;
        let (mut bands, mut panels) = (Vec::new(), Vec::new());
        for (chunk, rows) in chunks.iter().enumerate() {
            let pairs = rows.len().div_ceil(2);
            pack_right(right, rows, &mut panels);
            for first in columns.clone().step_by(LEFT * BANDS) {
                let used = first..columns.end.min(first + LEFT * BANDS);
                pack_left(left, rows, used.clone(), &mut bands);
                for (panel, column) in panels.chunks_exact(pairs).zip((0..right.width).step_by(RIGHT)) {
                    let width = RIGHT.min(right.width - column);
                    for (band, row) in bands.chunks_exact(pairs + GAP).zip(used.clone().step_by(LEFT)) {
                        let sums = tile.add(band, panel, width);
                        for (sums, row) in sums.iter().zip(row..used.end) {
                            let target = &mut out[(row - columns.start) * right.width + column..][..width];
                            let both = target.iter_mut().zip(sums);
                            if chunk == 0 {
                                both.for_each(|(target, &sum)| *target = i64::from(sum));
                            } else {
                                both.for_each(|(target, &sum)| *target = target.wrapping_add(i64::from(sum)));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Packs the right matrix into panels of [`RIGHT`] columns, in pairs of rows, padded with zeros.
#[inline(always)]
fn pack_right(right: Matrix<'_>, rows: &Range<usize>, panels: &mut Vec<RightPair>) {
    panels.resize(right.width.div_ceil(RIGHT) * rows.len().div_ceil(2), [0; 2 * RIGHT]);
    let mut panels = panels.iter_mut();
    for column in (0..right.width).step_by(RIGHT) {
        let columns = column..right.width.min(column + RIGHT);
        for (row, panel) in rows.clone().step_by(2).zip(&mut panels) {
            interleave(
                right.row_slice(row, rows, columns.clone()),
                right.row_slice(row + 1, rows, columns.clone()),
                panel,
            );
        }
    }
}

/// Packs the left matrix into bands of [`LEFT`] columns, in the same way.
#[inline(always)]
fn pack_left(left: Matrix<'_>, rows: &Range<usize>, columns: Range<usize>, bands: &mut Vec<LeftPair>) {
    let stride = rows.len().div_ceil(2) + GAP;
    bands.resize(columns.len().div_ceil(LEFT) * stride, [0; 2 * LEFT]);
    for (pair, row) in rows.clone().step_by(2).enumerate() {
        let one = left.row_slice(row, rows, columns.clone()).chunks(LEFT);
        let mut other = left.row_slice(row + 1, rows, columns.clone()).chunks(LEFT);
        for (band, one) in one.enumerate() {
            interleave(one, other.next().unwrap_or(&[]), &mut bands[band * stride + pair]);
        }
    }
}

#[inline(always)]
fn interleave<const SIZE: usize>(one: &[i16], other: &[i16], both: &mut [i16; SIZE]) {
    if one.len() == SIZE / 2 && other.len() == SIZE / 2 {
        // A size known at compile time becomes a few vector instructions.
        for index in 0..SIZE / 2 {
            both[2 * index] = one[index];
            both[2 * index + 1] = other[index];
        }
        return;
    }
    both.fill(0);
    both.iter_mut().step_by(2).zip(one).for_each(|(both, &entry)| *both = entry);
    both.iter_mut().skip(1).step_by(2).zip(other).for_each(|(both, &entry)| *both = entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive_sums(left: Matrix<'_>, right: Matrix<'_>, rows: usize) -> Vec<i64> {
        let mut out = vec![0; left.width * right.width];
        for row in 0..rows {
            for one in 0..left.width {
                for other in 0..right.width {
                    let entries = [left.entries[row * left.width + one], right.entries[row * right.width + other]];
                    out[one * right.width + other] += i64::from(entries[0]) * i64::from(entries[1]);
                }
            }
        }
        out
    }

    fn peaks(left: Matrix<'_>, right: Matrix<'_>, rows: usize) -> Vec<u32> {
        let peak = |matrix: Matrix<'_>, row: usize| {
            let entries = matrix.entries[row * matrix.width..][..matrix.width].iter();
            entries.map(|entry| u32::from(entry.unsigned_abs())).max().unwrap_or(0)
        };
        (0..rows).map(|row| peak(left, row) * peak(right, row)).collect()
    }

    #[test]
    fn sums_equal_naive_sums_at_every_shape_and_split() {
        for rows in [0usize, 1, 2, 7, 65, 1025] {
            for (height, width) in [(1usize, 1usize), (5, 16), (12, 17), (13, 15), (97, 3), (100, 33), (193, 1)] {
                let value = |seed: usize| ((seed * 7919) % 65_536) as i32 - 32_768;
                let entries = |count: usize, start: usize| -> Vec<i16> {
                    (0..count).map(|index| value(index + start) as i16 >> (index % 5)).collect()
                };
                let (one, other) = (entries(rows * height, 3), entries(rows * width, 77));
                let left = Matrix { entries: &one, width: height };
                let right = Matrix { entries: &other, width };
                let chunks = overflow_free_chunks(&peaks(left, right, rows));
                let expected = naive_sums(left, right, rows);
                for cut in [0, height / 2, height] {
                    let mut out = vec![if rows == 0 { 0 } else { -7 }; height * width];
                    let (above, below) = out.split_at_mut(cut * width);
                    write_outer(left, 0..cut, right, &chunks, above);
                    write_outer(left, cut..height, right, &chunks, below);
                    assert_eq!(out, expected, "{rows} {height} {width} {cut}");
                }
                for set in InstructionSet::available() {
                    let mut out = vec![0; height * width];
                    write_outer_with(set, left, 0..height, right, &chunks, &mut out);
                    assert_eq!(out, expected, "{} {rows} {height} {width}", set.name());
                }
            }
        }
    }

    /// The smallest possible entries have the largest products: two of them already fill 32 bits.
    #[test]
    fn the_largest_sums_are_exact() {
        let entries = vec![i16::MIN; 5_000];
        let matrix = Matrix { entries: &entries, width: 1 };
        let chunks = overflow_free_chunks(&peaks(matrix, matrix, 5_000));
        assert_eq!(chunks.len(), 5_000);
        let mut out = [0];
        write_outer(matrix, 0..1, matrix, &chunks, &mut out);
        assert_eq!(out[0], 5_000 << 30);
        assert!(super::overflow_free_chunks(&[1; 5_000]).iter().all(|chunk| chunk.len() <= ROWS));
    }
}
