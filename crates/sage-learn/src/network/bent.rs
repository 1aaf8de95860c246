//! Products whose left side went through a bend, so that about half of it is zero: what is zero is left out.
//!
//! Rows share no zeros, so no tile of them does less work; here one row meets a panel of the right side that
//! stays in the nearest cache, and only the rows of the panel that it needs are read. Every number of a
//! product is a sum over the columns in order, whatever the other rows are, the machine's registers and the
//! threads that share the work. A finite weight times zero adds nothing, so leaving it out changes no bit.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use sage_numerics::{dispatch, multiply_add};

use super::product::{Lanes, Onto, Right};

/// Bytes of a panel at most: it stays in the nearest cache, beside the rows that meet it.
const PANEL: usize = 28 << 10;
/// Rows of a panel at most: each has one bit in a word.
const DEPTH: usize = 64;
/// Registers across a panel, at most; there are at least half as many. Every one of them is a sum that does not wait
/// for the others, and eight are enough for that; more of them share what is done once for each number on the left.
const WIDE: usize = 8;
/// The same where registers hold eight numbers: of sixteen registers two are needed for other things. A panel is
/// smaller than with [`WIDE`] registers of twice the size.
const WIDE_HALVES: usize = 14;
/// Columns from which on it pays: fewer are too few sums to add to at the same time.
const COLUMNS: usize = 64;
/// Bytes of a line of the cache: reading across two lines takes twice as long.
const LINE: usize = 64;

/// A matrix made ready to stand on the right of such products.
pub(crate) struct BentRight {
    /// Blocks of at most [`DEPTH`] rows, each in panels of at most [`PANEL`] bytes.
    packed: Vec<f32>,
    /// Where they begin, so that they lie in whole lines.
    start: usize,
    rows: usize,
    columns: usize,
}

impl BentRight {
    /// From weights row by row, in memory that was used before.
    fn new(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |block, used, width, packed| {
            for (row, packed) in block.zip(packed.chunks_exact_mut(width)) {
                packed[..used.len()].copy_from_slice(&weights[row * columns..][used.clone()]);
            }
        })
    }

    /// From weights column by column: the other way round.
    fn transposed(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |block, used, width, packed| {
            for (place, column) in used.enumerate() {
                let targets = packed[place..].iter_mut().step_by(width);
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

    /// Adds left · self to `out`, row by row, or writes it there.
    fn product(&self, left: &[f32], out: &mut [f32], onto: Onto<'_>) {
        if self.rows > 0 && !out.is_empty() {
            dispatch(Product { left, right: self, out, onto });
        }
    }
}

/// The rows in blocks of about the same size.
fn blocks(rows: usize, columns: usize, lanes: usize) -> impl Iterator<Item = Range<usize>> {
    let widest = panels(columns, lanes).map(|panel| panel.len()).max().unwrap_or(1);
    let count = rows.div_ceil(DEPTH.min(PANEL / (widest * lanes * size_of::<f32>())));
    (0..count).map(move |block| rows * block / count..rows * (block + 1) / count)
}

/// Columns in panels of about the same width, in registers of so many numbers.
fn panels(columns: usize, lanes: usize) -> impl Iterator<Item = Range<usize>> {
    let registers = columns.div_ceil(lanes);
    let count = registers.div_ceil(if lanes == 8 { WIDE_HALVES } else { WIDE });
    (0..count).map(move |panel| registers * panel / count..registers * (panel + 1) / count)
}

/// Weights made ready for products with rows.
pub(crate) enum Met {
    /// With rows that may have any numbers.
    ByAll(Right),
    /// With rows that a bend left zero in many places.
    ByBent(BentRight),
}

/// What stands on the left of a product.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Left {
    /// Any numbers.
    All,
    /// What went through a bend.
    Bent,
}

impl Met {
    /// From weights row by row, in memory that was used before.
    pub(crate) fn new(left: Left, weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        if left == Left::Bent && columns >= COLUMNS {
            Self::ByBent(BentRight::new(weights, rows, columns, memory))
        } else {
            Self::ByAll(Right::new(weights, rows, columns, memory))
        }
    }

    /// From weights column by column: the other way round.
    pub(crate) fn transposed(left: Left, weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        if left == Left::Bent && columns >= COLUMNS {
            Self::ByBent(BentRight::transposed(weights, rows, columns, memory))
        } else {
            Self::ByAll(Right::transposed(weights, rows, columns, memory))
        }
    }

    /// Adds the product with rows to `out`, or writes it there.
    pub(crate) fn product(&self, left: &[f32], out: &mut [f32], onto: Onto<'_>) {
        match self {
            Self::ByAll(right) => right.product(left, out, onto),
            Self::ByBent(right) => right.product(left, out, onto),
        }
    }

    /// Its memory, to be used again.
    pub(crate) fn into_memory(self) -> Vec<f32> {
        match self {
            Self::ByAll(right) => right.packed,
            Self::ByBent(right) => right.packed,
        }
    }
}

struct Product<'data> {
    left: &'data [f32],
    right: &'data BentRight,
    out: &'data mut [f32],
    onto: Onto<'data>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right, out, onto } = self;
        let (inner, columns) = (right.rows, right.columns);
        let mut used = vec![0u64; out.len() / columns];
        let mut ragged = Ragged::new(columns, S::F32_LANES, out, onto);
        let mut rest = &right.packed[right.start..];
        for block in blocks(inner, columns, S::F32_LANES) {
            for (used, left) in used.iter_mut().zip(left.chunks_exact(inner)) {
                *used = not_zero(&left[block.clone()]);
            }
            let onto = if block.start == 0 { onto } else { Onto::WhatIsThere };
            for panel in panels(columns, S::F32_LANES) {
                let (mine, behind) = rest.split_at(block.len() * panel.len() * S::F32_LANES);
                rest = behind;
                let first = panel.start * S::F32_LANES;
                let rows = Rows { left: &left[block.start..], inner, used: &used, onto };
                if panel.end * S::F32_LANES > columns {
                    let rows = Rows { onto: Onto::WhatIsThere, ..rows };
                    rows.meet(simd, panel.len(), mine, &mut ragged.sums, ragged.width, 0);
                } else {
                    rows.meet(simd, panel.len(), mine, out, columns, first);
                }
            }
        }
        ragged.give_back(out, columns);
    }
}

/// The sums of a last panel that reaches past the last column, with room for all of it.
struct Ragged {
    sums: Vec<f32>,
    width: usize,
    first: usize,
}

impl Ragged {
    #[inline(always)]
    fn new(columns: usize, lanes: usize, out: &[f32], onto: Onto<'_>) -> Self {
        let last = panels(columns, lanes).last().filter(|last| last.end * lanes > columns);
        let Some(last) = last else { return Self { sums: Vec::new(), width: 0, first: columns } };
        let (width, first) = (last.len() * lanes, last.start * lanes);
        let mut sums = vec![0.0; out.len() / columns * width];
        for (sums, out) in sums.chunks_exact_mut(width).zip(out.chunks_exact(columns)) {
            match onto {
                Onto::WhatIsThere => sums[..columns - first].copy_from_slice(&out[first..]),
                Onto::Bias(bias) => sums[..columns - first].copy_from_slice(&bias[first..]),
                Onto::Nothing => {}
            }
        }
        Self { sums, width, first }
    }

    #[inline(always)]
    fn give_back(&self, out: &mut [f32], columns: usize) {
        if self.width > 0 {
            for (sums, out) in self.sums.chunks_exact(self.width).zip(out.chunks_exact_mut(columns)) {
                out[self.first..].copy_from_slice(&sums[..columns - self.first]);
            }
        }
    }
}

/// A bit for each of at most 64 numbers that is not zero; NaN has one.
#[inline(always)]
fn not_zero(values: &[f32]) -> u64 {
    // Halves of 32, since registers hold twice as many numbers of 32 bits, and of a known size. They may overlap.
    if let (Some(low), Some(high)) = (values.first_chunk::<32>(), values.last_chunk::<32>()) {
        return u64::from(half_not_zero(low)) | u64::from(half_not_zero(high)) << (values.len() - 32);
    }
    u64::from(half_not_zero(values))
}

#[inline(always)]
fn half_not_zero(values: &[f32]) -> u32 {
    let bits = values.iter().enumerate().map(|(place, &value)| u32::from(value != 0.0).wrapping_shl(place as u32));
    bits.fold(0, |all, bit| all | bit)
}

/// Rows that meet a panel.
struct Rows<'data> {
    /// The left side from the block's first column on, so far apart.
    left: &'data [f32],
    inner: usize,
    /// For each row, which numbers of the block are not zero.
    used: &'data [u64],
    onto: Onto<'data>,
}

impl Rows<'_> {
    /// Adds to the columns from `first` on, in rows so far apart.
    #[inline(always)]
    fn meet<S: Simd>(self, simd: S, wide: usize, panel: &[f32], out: &mut [f32], stride: usize, first: usize) {
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
            let mut sums: [S::f32s; COUNT] = match self.onto {
                Onto::WhatIsThere => std::array::from_fn(|place| out[place]),
                Onto::Bias(bias) => {
                    let (bias, _) = S::as_simd_f32s(&bias[first..][..COUNT * S::F32_LANES]);
                    std::array::from_fn(|place| bias[place])
                }
                Onto::Nothing => [simd.splat_f32s(0.0); COUNT],
            };
            let left = &self.left[row * self.inner..];
            let mut bits = used;
            while bits != 0 {
                let place = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let value = simd.splat_f32s(left[place]);
                for (sum, right) in sums.iter_mut().zip(&vectors[place]) {
                    *sum = multiply_add(simd, value, *right, *sum);
                }
            }
            // Copied one by one, so that the sums themselves stay in registers.
            for (out, place) in out.iter_mut().zip(0..COUNT) {
                *out = sums[place];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// About half of them zero.
    fn bent(count: usize, seed: usize) -> Vec<f32> {
        let number = |place: usize| ((place * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0;
        (0..count).map(|place| number(place).max(0.0)).collect()
    }

    #[test]
    fn products_equal_those_of_the_whole_and_rows_do_not_see_each_other() {
        for inner in [1usize, 3, 31, 32, 33, 49, 50, 51, 63, 64, 65, 130] {
            for columns in [1usize, 8, 17, 64, 100, 128, 129, 208, 221, 300] {
                let weights = bent(inner * columns, 1);
                let mut turned = vec![0.0; inner * columns];
                for row in 0..inner {
                    (0..columns).for_each(|column| turned[column * inner + row] = weights[row * columns + column]);
                }
                let right = BentRight::new(&weights, inner, columns, vec![1.0; 3]);
                let other = BentRight::transposed(&turned, inner, columns, vec![f32::NAN; 2 * inner * columns]);
                let whole = Right::new(&weights, inner, columns, Vec::new());
                for count in [0usize, 1, 5, 13] {
                    let left = bent(count * inner, 2);
                    let bias = bent(columns, 3);
                    for onto in [Onto::WhatIsThere, Onto::Nothing, Onto::Bias(&bias)] {
                        let start = if onto == Onto::WhatIsThere { 0.5 } else { f32::NAN };
                        let (mut out, mut expected) = (vec![start; count * columns], vec![start; count * columns]);
                        right.product(&left, &mut out, onto);
                        whole.product(&left, &mut expected, onto);
                        let close = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-6 * inner as f32;
                        assert!(out.iter().zip(&expected).all(close), "{inner} {columns} {count}");
                        for (row, out) in out.chunks_exact(columns).enumerate() {
                            let mut alone = vec![start; columns];
                            other.product(&left[row * inner..][..inner], &mut alone, onto);
                            assert_eq!(alone, out, "{inner} {columns} {count} {row}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_number_that_is_not_zero_has_its_bit() {
        for count in 0..=DEPTH {
            let values: Vec<f32> = bent(count, 4).into_iter().enumerate().map(|(at, x)| x * (at % 3) as f32).collect();
            let bit = |(at, &value): (usize, &f32)| u64::from(value != 0.0) << at;
            let expected = values.iter().enumerate().map(bit).sum::<u64>();
            assert_eq!(not_zero(&values), expected, "{count}");
            assert_eq!(not_zero(&vec![f32::NAN; count]).count_ones() as usize, count);
        }
    }

    #[test]
    fn what_is_no_number_is_not_left_out() {
        let right = BentRight::new(&[1.0; 2 * 64], 2, 64, Vec::new());
        let mut out = vec![0.0; 3 * 64];
        right.product(&[f32::NAN, 0.0, 0.0, f32::INFINITY, -0.0, 2.0], &mut out, Onto::Nothing);
        assert!(out[..64].iter().all(|value| value.is_nan()));
        assert!(out[64..128].iter().all(|&value| value == f32::INFINITY));
        assert!(out[128..].iter().all(|&value| value == 2.0));
    }
}
