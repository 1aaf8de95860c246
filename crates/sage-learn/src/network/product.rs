//! Dense matrix products in single precision, in which a row's results do not depend on its position.
//!
//! What a training step computes for a row must depend on that row alone, to the last bit. Every element of a product
//! is a sum over the columns in order, in blocks of a fixed size, independent of the number of rows, the row's index
//! and the number of threads.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use sage_numerics::{dispatch, multiply_add};

/// Rows of a tile.
const TILE: usize = 6;
/// Columns of the left factor that are summed in registers before the sums are written to memory.
const DEPTH: usize = 256;

/// The initial value of the output of a product.
#[derive(Clone, Copy, PartialEq)]
pub enum Initial<'data> {
    /// The current content of the output.
    Existing,
    /// A bias, the same for every row; the current content is overwritten.
    Bias(&'data [f32]),
    /// Zero; the current content is overwritten.
    Zero,
}

/// A matrix packed as the right factor of products.
pub(super) struct Right {
    /// Blocks of [`DEPTH`] rows, each in panels as wide as two registers, or one at the end.
    pub(super) packed: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Right {
    /// Packs row-major weights, reusing the allocation of `memory`.
    pub(super) fn new(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |row, some, packed| packed.extend_from_slice(&weights[row * columns..][some]))
    }

    /// Packs column-major weights, reusing the allocation of `memory`.
    pub(super) fn transposed(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |row, some, packed| {
            packed.extend(some.map(|column| weights[column * rows + row]));
        })
    }

    fn pack(
        rows: usize, columns: usize, mut packed: Vec<f32>, take: impl Fn(usize, Range<usize>, &mut Vec<f32>),
    ) -> Self {
        let lanes = dispatch(Lanes);
        packed.clear();
        packed.reserve(rows * columns.next_multiple_of(lanes));
        for block in (0..rows).step_by(DEPTH) {
            for (first, width) in panels(columns, lanes) {
                let used = first..columns.min(first + width);
                for row in block..rows.min(block + DEPTH) {
                    take(row, used.clone(), &mut packed);
                    packed.resize(packed.len() + width - used.len(), 0.0);
                }
            }
        }
        Self { packed, rows, columns }
    }

    /// Computes `left · self` into `out`, row by row, starting from `initial`.
    pub(super) fn product(&self, left: &[f32], out: &mut [f32], initial: Initial<'_>) {
        if self.rows > 0 && self.columns > 0 {
            dispatch(Product { left, right: self, out, initial });
        }
    }
}

/// The first column and the width of every panel.
fn panels(columns: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..columns).step_by(2 * lanes).map(move |first| (first, if columns - first > lanes { 2 * lanes } else { lanes }))
}

/// Returns how many values fit into a register.
pub(super) struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

struct Product<'data> {
    left: &'data [f32],
    right: &'data Right,
    out: &'data mut [f32],
    initial: Initial<'data>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right: Right { packed, rows: inner, columns }, out, initial } = self;
        let (inner, columns) = (*inner, *columns);
        let count = out.len() / columns;
        let mut rest = &packed[..];
        for block in (0..inner).step_by(DEPTH) {
            let depth = DEPTH.min(inner - block);
            for (first, width) in panels(columns, S::F32_LANES) {
                let (panel, behind) = rest.split_at(depth * width);
                rest = behind;
                let used = first..columns.min(first + width);
                for row in (0..count).step_by(TILE) {
                    // A tile that extends past the last row computes that row again and discards the result.
                    let rows: [&[f32]; TILE] =
                        std::array::from_fn(|index| &left[(row + index).min(count - 1) * inner + block..][..depth]);
                    let height = TILE.min(count - row);
                    let initial = if block == 0 { initial } else { Initial::Existing };
                    let mut target =
                        Target { out: &mut out[row * columns..], columns, height, used: used.clone(), initial };
                    if width == S::F32_LANES {
                        tile::<S, 1>(simd, rows, panel, &mut target);
                    } else {
                        tile::<S, 2>(simd, rows, panel, &mut target);
                    }
                }
            }
        }
    }
}

/// Destination of the sums of a tile. Not a closure: one that is not inlined is compiled without the caller's
/// instruction set.
struct Target<'data> {
    /// From the tile's first row on.
    out: &'data mut [f32],
    columns: usize,
    /// Rows of the tile that exist.
    height: usize,
    /// Columns of the tile that exist.
    used: Range<usize>,
    initial: Initial<'data>,
}

impl Target<'_> {
    #[inline(always)]
    fn store(&mut self, sums: &[f32], index: usize) {
        if index >= self.height {
            return;
        }
        let target = &mut self.out[index * self.columns..][self.used.clone()];
        let both = target.iter_mut().zip(sums);
        match self.initial {
            // Adding zero keeps this a few instructions; a plain copy would become a call of memcpy.
            Initial::Zero => both.for_each(|(target, sum)| *target = sum + 0.0),
            Initial::Bias(bias) => {
                let both = both.zip(&bias[self.used.clone()]);
                both.for_each(|((target, sum), bias)| *target = bias + sum);
            }
            Initial::Existing => both.for_each(|(target, sum)| *target += sum),
        }
    }
}

#[inline(always)]
fn tile<S: Simd, const WIDE: usize>(simd: S, rows: [&[f32]; TILE], panel: &[f32], target: &mut Target<'_>) {
    let mut sums = [[simd.splat_f32s(0.0); WIDE]; TILE];
    let (vectors, _) = S::as_simd_f32s(panel);
    let (vectors, _) = vectors.as_chunks::<WIDE>();
    let [one, two, three, four, five, six] = rows;
    let left = one.iter().zip(two).zip(three).zip(four).zip(five).zip(six);
    for (right, (((((one, two), three), four), five), six)) in vectors.iter().zip(left) {
        for (sums, left) in sums.iter_mut().zip([one, two, three, four, five, six]) {
            let left = simd.splat_f32s(*left);
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum = multiply_add(simd, left, *right, *sum);
            }
        }
    }
    // Only a copy is read as memory, so that the sums themselves stay in registers.
    let done: [[S::f32s; WIDE]; TILE] = std::array::from_fn(|row| std::array::from_fn(|index| sums[row][index]));
    for (index, sums) in done.iter().enumerate() {
        target.store(pulp::bytemuck::cast_slice(sums.as_slice()), index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|index| ((index * 7919 + seed * 104_729) % 2001) as f32 / 1000.0 - 1.0).collect()
    }

    #[test]
    fn products_equal_a_naive_product_and_rows_are_independent() {
        for inner in [1usize, 3, 255, 256, 300] {
            for columns in [1usize, 8, 16, 17, 32, 33, 100] {
                let weights = matrix(inner * columns, 1);
                let mut column_major = vec![0.0; inner * columns];
                for row in 0..inner {
                    (0..columns)
                        .for_each(|column| column_major[column * inner + row] = weights[row * columns + column]);
                }
                let right = Right::new(&weights, inner, columns, Vec::new());
                let other = Right::transposed(&column_major, inner, columns, vec![1.0; 3]);
                for count in [0usize, 1, 5, 6, 13] {
                    let left = matrix(count * inner, 2);
                    let mut out = vec![0.5; count * columns];
                    right.product(&left, &mut out, Initial::Existing);
                    let mut fresh = vec![f32::NAN; count * columns];
                    right.product(&left, &mut fresh, Initial::Zero);
                    assert!(fresh.iter().zip(&out).all(|(fresh, out)| (out - fresh - 0.5).abs() < 1e-4));
                    fresh.fill(f32::NAN);
                    right.product(&left, &mut fresh, Initial::Bias(&vec![0.5; columns]));
                    assert_eq!(fresh, out);
                    for row in 0..count {
                        let mine = &left[row * inner..][..inner];
                        for column in 0..columns {
                            let terms = mine.iter().zip(weights[column..].iter().step_by(columns));
                            let expected = 0.5 + terms.map(|(&one, &two)| f64::from(one) * f64::from(two)).sum::<f64>();
                            let found = f64::from(out[row * columns + column]);
                            assert!((found - expected).abs() < 1e-4 * inner as f64, "{inner} {columns} {count}");
                        }
                        let mut alone = vec![0.5; columns];
                        other.product(mine, &mut alone, Initial::Existing);
                        assert_eq!(alone, out[row * columns..][..columns], "{inner} {columns} {count} {row}");
                    }
                }
            }
        }
    }
}
