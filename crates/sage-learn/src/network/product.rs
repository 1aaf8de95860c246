//! Products of matrices in single precision, each number by the same operations in the same order wherever
//! its row stands.
//!
//! What a step computes for a row must depend on that row alone, down to the last bit. Here every number of
//! a product is a sum over the columns in order, in blocks of a fixed size, whatever the number of rows, the
//! row's place among them and the threads that share the work.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use sage_numerics::{dispatch, multiply_add};

/// Rows of a tile.
const TILE: usize = 6;
/// Columns of the left side that are added up before they go to memory.
const DEPTH: usize = 256;

/// What a product is added to.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Onto<'data> {
    /// What stands where it goes.
    WhatIsThere,
    /// The same numbers for every row; what stands there is written over.
    Bias(&'data [f32]),
    /// Nothing: what stands there is written over.
    Nothing,
}

/// A matrix made ready to stand on the right of products.
pub(crate) struct Right {
    /// Blocks of [`DEPTH`] rows, each in panels as wide as two registers, or one at the end.
    pub(super) packed: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Right {
    /// From weights row by row, in memory that was used before.
    pub(super) fn new(weights: &[f32], rows: usize, columns: usize, memory: Vec<f32>) -> Self {
        Self::pack(rows, columns, memory, |row, some, packed| packed.extend_from_slice(&weights[row * columns..][some]))
    }

    /// From weights column by column: the other way round.
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

    /// Adds left · self to `out`, row by row, or writes it there.
    pub(super) fn product(&self, left: &[f32], out: &mut [f32], onto: Onto<'_>) {
        if self.rows > 0 && self.columns > 0 {
            dispatch(Product { left, right: self, out, onto });
        }
    }
}

/// The first column and the width of every panel.
fn panels(columns: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..columns).step_by(2 * lanes).map(move |first| (first, if columns - first > lanes { 2 * lanes } else { lanes }))
}

/// How many numbers fit into a register.
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
    onto: Onto<'data>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right: Right { packed, rows: inner, columns }, out, onto } = self;
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
                    // A tile that reaches past the last row works on that row again and keeps nothing of it.
                    let rows: [&[f32]; TILE] =
                        std::array::from_fn(|place| &left[(row + place).min(count - 1) * inner + block..][..depth]);
                    let height = TILE.min(count - row);
                    let onto = if block == 0 { onto } else { Onto::WhatIsThere };
                    let mut target =
                        Target { out: &mut out[row * columns..], columns, height, used: used.clone(), onto };
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

/// Where the sums of a tile go. Not a closure: one that is not inlined is compiled without the caller's registers.
struct Target<'data> {
    /// From the tile's first row on.
    out: &'data mut [f32],
    columns: usize,
    /// Rows of the tile that exist.
    height: usize,
    /// Columns of the tile that exist.
    used: Range<usize>,
    onto: Onto<'data>,
}

impl Target<'_> {
    #[inline(always)]
    fn keep(&mut self, sums: &[f32], place: usize) {
        if place >= self.height {
            return;
        }
        let target = &mut self.out[place * self.columns..][self.used.clone()];
        let both = target.iter_mut().zip(sums);
        match self.onto {
            // Zero is added so that it stays a few instructions and does not become a call.
            Onto::Nothing => both.for_each(|(target, sum)| *target = sum + 0.0),
            Onto::Bias(bias) => {
                let both = both.zip(&bias[self.used.clone()]);
                both.for_each(|((target, sum), bias)| *target = bias + sum);
            }
            Onto::WhatIsThere => both.for_each(|(target, sum)| *target += sum),
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
    // Only a copy is ever looked at as memory, so that the sums themselves stay in registers.
    let done: [[S::f32s; WIDE]; TILE] = std::array::from_fn(|row| std::array::from_fn(|place| sums[row][place]));
    for (place, sums) in done.iter().enumerate() {
        target.keep(pulp::bytemuck::cast_slice(sums.as_slice()), place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|place| ((place * 7919 + seed * 104_729) % 2001) as f32 / 1000.0 - 1.0).collect()
    }

    #[test]
    fn products_equal_those_by_hand_and_rows_do_not_see_each_other() {
        for inner in [1usize, 3, 255, 256, 300] {
            for columns in [1usize, 8, 16, 17, 32, 33, 100] {
                let weights = matrix(inner * columns, 1);
                let mut turned = vec![0.0; inner * columns];
                for row in 0..inner {
                    (0..columns).for_each(|column| turned[column * inner + row] = weights[row * columns + column]);
                }
                let right = Right::new(&weights, inner, columns, Vec::new());
                let other = Right::transposed(&turned, inner, columns, vec![1.0; 3]);
                for count in [0usize, 1, 5, 6, 13] {
                    let left = matrix(count * inner, 2);
                    let mut out = vec![0.5; count * columns];
                    right.product(&left, &mut out, Onto::WhatIsThere);
                    let mut fresh = vec![f32::NAN; count * columns];
                    right.product(&left, &mut fresh, Onto::Nothing);
                    assert!(fresh.iter().zip(&out).all(|(fresh, out)| (out - fresh - 0.5).abs() < 1e-4));
                    fresh.fill(f32::NAN);
                    right.product(&left, &mut fresh, Onto::Bias(&vec![0.5; columns]));
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
                        other.product(mine, &mut alone, Onto::WhatIsThere);
                        assert_eq!(alone, out[row * columns..][..columns], "{inner} {columns} {count} {row}");
                    }
                }
            }
        }
    }
}
