//! Sums of outer products of small whole numbers, exactly.
//!
//! Entries have 16 bits, and rows are added in 32 bits as long as even the largest entries of all of them
//! together would fit; then the sums go on in 64 bits. So no sum ever wraps (and none is checked for it, which
//! would cost more than the sum), and the result does not depend
//! on the order of the rows, on the machine's registers, or on how many threads share the work.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use pulp::bytemuck::cast;
use pulp::{Arch, Simd, WithSimd};

/// Columns of the left side that a tile has, and columns of the right.
const LEFT: usize = 12;
const RIGHT: usize = 16;
/// Bands of the left side that are packed together, so that whole lines of memory are read.
const BANDS: usize = 8;
/// The most rows that are added up at a time; what is packed of them stays in a near cache.
const ROWS: usize = 2048;
/// Pairs of rows left between bands, so that neighbouring bands do not compete for the same lines of a cache.
const GAP: usize = 3;

/// Two rows of a band, and of a panel, side by side: column by column, the one row's entry and the other's.
type LeftPair = [i16; 2 * LEFT];
type RightPair = [i16; 2 * RIGHT];
type Sums = [[i32; RIGHT]; LEFT];

/// Rows of whole numbers, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'data> {
    /// The rows.
    pub(crate) entries: &'data [i16],
    /// Numbers of a row.
    pub(crate) width: usize,
}

impl Matrix<'_> {
    /// So many columns from one on, of a row; none of a row that is not there.
    fn piece(&self, row: usize, rows: &Range<usize>, columns: Range<usize>) -> &[i16] {
        if row < rows.end { &self.entries[row * self.width..][columns] } else { &[] }
    }
}

/// Pieces of the rows such that the 32-bit sums of each cannot wrap.
///
/// # Guarantee
/// In each piece the products of the rows' largest entries add up to less than 2^31, if one alone does.
pub(crate) fn pieces(peaks: &[u32]) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut first, mut sum) = (0, 0u64);
    for (row, &peak) in peaks.iter().enumerate() {
        if sum + u64::from(peak) > i32::MAX as u64 || row - first == ROWS {
            pieces.push(first..row);
            (first, sum) = (row, 0);
        }
        sum += u64::from(peak);
    }
    if first < peaks.len() {
        pieces.push(first..peaks.len());
    }
    pieces
}

/// Adds the columns `columns` of leftᵀ · right to `out`, which holds those rows of it alone.
///
/// # Guarantee
/// Exact if `pieces` is [`pieces`] of, for every row, the product of its largest entries of either side, and
/// `out` has room for the sum.
pub(crate) fn add_outer(
    left: Matrix<'_>, columns: Range<usize>, right: Matrix<'_>, pieces: &[Range<usize>], out: &mut [i64],
) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = pulp::x86::V4::try_new() {
            if let Some(dot) = DotProducts::try_new() {
                return dot.vectorize(WithDots(Outer { left, columns, right, pieces, out, tile: simd }));
            }
            return Simd::vectorize(simd, Outer { left, columns, right, pieces, out, tile: simd });
        }
        if let Some(simd) = pulp::x86::V3::try_new() {
            return Simd::vectorize(simd, Outer { left, columns, right, pieces, out, tile: simd });
        }
    }
    Arch::new().dispatch(Outer { left, columns, right, pieces, out, tile: Plain });
}

#[cfg(target_arch = "x86_64")]
pulp::simd_type! {
    /// The widest registers with one more instruction, which adds what [`Tile`] multiplies in the same step:
    /// the compiler finds the place for it, a third is gained, and no sum is another.
    struct DotProducts {
        sse: "sse",
        sse2: "sse2",
        fxsr: "fxsr",
        sse3: "sse3",
        ssse3: "ssse3",
        sse4_1: "sse4.1",
        sse4_2: "sse4.2",
        popcnt: "popcnt",
        avx: "avx",
        avx2: "avx2",
        bmi1: "bmi1",
        bmi2: "bmi2",
        fma: "fma",
        lzcnt: "lzcnt",
        avx512f: "avx512f",
        avx512bw: "avx512bw",
        avx512cd: "avx512cd",
        avx512dq: "avx512dq",
        avx512vl: "avx512vl",
        avx512vnni: "avx512vnni",
    }
}

#[cfg(target_arch = "x86_64")]
struct WithDots<'data>(Outer<'data, pulp::x86::V4>);

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for WithDots<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let simd = self.0.tile;
        self.0.with_simd(simd);
    }
}

/// The sums of one tile, over pairs of rows.
trait Tile: Copy {
    fn add(self, left: &[LeftPair], right: &[RightPair]) -> Sums;
}

/// For machines without the instructions below.
#[derive(Clone, Copy)]
struct Plain;

impl Tile for Plain {
    #[inline(always)]
    fn add(self, left: &[LeftPair], right: &[RightPair]) -> Sums {
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
    /// One instruction multiplies two rows' entries and adds them, for all columns of the right side.
    #[inline(always)]
    fn add(self, left: &[LeftPair], right: &[RightPair]) -> Sums {
        let mut sums = [self.splat_u32s(0); LEFT];
        for (left, right) in left.iter().zip(right) {
            let left: [u32; LEFT] = cast(*left);
            for (sum, left) in sums.iter_mut().zip(left) {
                let both = self.multiply_wrapping_add_adjacent_i16x32(cast(self.splat_u32s(left)), cast(*right));
                *sum = self.add_u32s(*sum, cast(both));
            }
        }
        // A copy is given out, so that the sums themselves stay in registers.
        let done: [_; LEFT] = std::array::from_fn(|row| sums[row]);
        cast(done)
    }
}

#[cfg(target_arch = "x86_64")]
impl Tile for pulp::x86::V3 {
    /// The same with half as many registers of half the width: half of the left side's columns at a time.
    #[inline(always)]
    fn add(self, left: &[LeftPair], right: &[RightPair]) -> Sums {
        cast([0, 1].map(|half| {
            let mut sums = [[self.splat_u32s(0); 2]; LEFT / 2];
            for (left, right) in left.iter().zip(right) {
                let right: [pulp::i16x16; 2] = cast(*right);
                let left: [[u32; LEFT / 2]; 2] = cast(*left);
                for (sums, left) in sums.iter_mut().zip(left[half]) {
                    let left = cast(self.splat_u32s(left));
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = self.add_u32s(*sum, cast(self.multiply_wrapping_add_adjacent_i16x16(left, right)));
                    }
                }
            }
            let done: [[_; 2]; LEFT / 2] = std::array::from_fn(|row| std::array::from_fn(|place| sums[row][place]));
            done
        }))
    }
}

struct Outer<'data, T> {
    left: Matrix<'data>,
    columns: Range<usize>,
    right: Matrix<'data>,
    pieces: &'data [Range<usize>],
    out: &'data mut [i64],
    tile: T,
}

impl<T: Tile> WithSimd for Outer<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { left, columns, right, pieces, out, tile } = self;
        let (mut bands, mut panels) = (Vec::new(), Vec::new());
        for rows in pieces {
            let pairs = rows.len().div_ceil(2);
            pack_right(right, rows, &mut panels);
            for first in columns.clone().step_by(LEFT * BANDS) {
                let used = first..columns.end.min(first + LEFT * BANDS);
                pack_left(left, rows, used.clone(), &mut bands);
                for (panel, column) in panels.chunks_exact(pairs).zip((0..right.width).step_by(RIGHT)) {
                    let width = RIGHT.min(right.width - column);
                    for (band, row) in bands.chunks_exact(pairs + GAP).zip(used.clone().step_by(LEFT)) {
                        let sums = tile.add(band, panel);
                        for (sums, row) in sums.iter().zip(row..used.end) {
                            let target = &mut out[(row - columns.start) * right.width + column..][..width];
                            let both = target.iter_mut().zip(sums);
                            both.for_each(|(target, &sum)| *target = target.wrapping_add(i64::from(sum)));
                        }
                    }
                }
            }
        }
    }
}

/// Panels of [`RIGHT`] columns, each pair of rows by pair, what is missing filled up with zeros.
#[inline(always)]
fn pack_right(right: Matrix<'_>, rows: &Range<usize>, panels: &mut Vec<RightPair>) {
    panels.resize(right.width.div_ceil(RIGHT) * rows.len().div_ceil(2), [0; 2 * RIGHT]);
    let mut panels = panels.iter_mut();
    for column in (0..right.width).step_by(RIGHT) {
        let columns = column..right.width.min(column + RIGHT);
        for (row, panel) in rows.clone().step_by(2).zip(&mut panels) {
            interleave(right.piece(row, rows, columns.clone()), right.piece(row + 1, rows, columns.clone()), panel);
        }
    }
}

/// Bands of [`LEFT`] columns, in the same way.
#[inline(always)]
fn pack_left(left: Matrix<'_>, rows: &Range<usize>, columns: Range<usize>, bands: &mut Vec<LeftPair>) {
    let stride = rows.len().div_ceil(2) + GAP;
    bands.resize(columns.len().div_ceil(LEFT) * stride, [0; 2 * LEFT]);
    for (pair, row) in rows.clone().step_by(2).enumerate() {
        let one = left.piece(row, rows, columns.clone()).chunks(LEFT);
        let mut other = left.piece(row + 1, rows, columns.clone()).chunks(LEFT);
        for (band, one) in one.enumerate() {
            interleave(one, other.next().unwrap_or(&[]), &mut bands[band * stride + pair]);
        }
    }
}

#[inline(always)]
fn interleave<const SIZE: usize>(one: &[i16], other: &[i16], both: &mut [i16; SIZE]) {
    if one.len() == SIZE / 2 && other.len() == SIZE / 2 {
        // Of a known size, so that it is done with a few instructions.
        for place in 0..SIZE / 2 {
            both[2 * place] = one[place];
            both[2 * place + 1] = other[place];
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

    fn by_hand(left: Matrix<'_>, right: Matrix<'_>, rows: usize) -> Vec<i64> {
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
    fn sums_equal_those_by_hand_at_every_shape_and_split() {
        for rows in [0usize, 1, 2, 7, 65, 1025] {
            for (height, width) in [(1usize, 1usize), (5, 16), (12, 17), (13, 15), (97, 3), (100, 33), (193, 1)] {
                let value = |seed: usize| ((seed * 7919) % 65_536) as i32 - 32_768;
                let entries = |count: usize, start: usize| -> Vec<i16> {
                    (0..count).map(|place| value(place + start) as i16 >> (place % 5)).collect()
                };
                let (one, other) = (entries(rows * height, 3), entries(rows * width, 77));
                let left = Matrix { entries: &one, width: height };
                let right = Matrix { entries: &other, width };
                let pieces = pieces(&peaks(left, right, rows));
                let expected = by_hand(left, right, rows);
                for cut in [0, height / 2, height] {
                    let mut out = vec![0; height * width];
                    let (above, below) = out.split_at_mut(cut * width);
                    add_outer(left, 0..cut, right, &pieces, above);
                    add_outer(left, cut..height, right, &pieces, below);
                    assert_eq!(out, expected, "{rows} {height} {width} {cut}");
                }
                let all = |name: &str, task: &dyn Fn(&mut [i64])| {
                    let mut out = vec![0; height * width];
                    task(&mut out);
                    assert_eq!(out, expected, "{name} {rows} {height} {width}");
                };
                let (columns, pieces) = (0..height, &pieces[..]);
                all("plain", &|out| {
                    let columns = columns.clone();
                    Arch::new().dispatch(Outer { left, columns, right, pieces, out, tile: Plain });
                });
                #[cfg(target_arch = "x86_64")]
                if let Some(simd) = pulp::x86::V3::try_new() {
                    all("half width", &|out| {
                        let columns = columns.clone();
                        Simd::vectorize(simd, Outer { left, columns, right, pieces, out, tile: simd });
                    });
                }
                #[cfg(target_arch = "x86_64")]
                if let Some(simd) = pulp::x86::V4::try_new() {
                    all("full width", &|out| {
                        let columns = columns.clone();
                        Simd::vectorize(simd, Outer { left, columns, right, pieces, out, tile: simd });
                    });
                }
            }
        }
    }

    /// The smallest entries there are, whose products are the largest: two of them already fill 32 bits.
    #[test]
    fn the_largest_sums_are_exact() {
        let entries = vec![i16::MIN; 5_000];
        let matrix = Matrix { entries: &entries, width: 1 };
        let pieces = pieces(&peaks(matrix, matrix, 5_000));
        assert_eq!(pieces.len(), 5_000);
        let mut out = [0];
        add_outer(matrix, 0..1, matrix, &pieces, &mut out);
        assert_eq!(out[0], 5_000 << 30);
        assert!(super::pieces(&[1; 5_000]).iter().all(|piece| piece.len() <= ROWS));
    }
}
