//! Exact products of integer matrices.
//!
//! Entries are integers stored as `f64`. As long as no sum exceeds 2^53, every product and every partial sum is an
//! integer that `f64` represents exactly, so the result does not depend on the order of the rows, on the vector width,
//! or on fused operations.

use pulp::{Simd, WithSimd};

use crate::arch::dispatch;
use crate::one_hot::triangle_row;

/// The most rows per call: this many products of two integers of at most 2^20 add up to at most 2^53.
pub const ROWS_AT_A_TIME: usize = 1 << 13;

/// Columns of the left matrix that are processed together.
const LEFT: usize = 4;

/// Adds leftᵀ · right to `out`; all three matrices are row-major.
///
/// # Guarantee
/// Exact if `rows` ≤ [`ROWS_AT_A_TIME`], every entry is an integer of magnitude at most 2^20 and `out`
/// starts at zero.
pub fn add_product(left: &[f64], right: &[f64], rows: usize, out: &mut [f64]) {
    if rows == 0 {
        return;
    }
    dispatch(Product { left, right, rows, out });
}

struct Product<'data> {
    left: &'data [f64],
    right: &'data [f64],
    rows: usize,
    out: &'data mut [f64],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right, rows, out } = self;
        let (height, width) = (left.len() / rows, right.len() / rows);
        let panel = 2 * S::F64_LANES;
        let mut packed_right = vec![0.0; rows * panel];
        let packed_left = pack_left(left, rows, height);
        for column in (0..width).step_by(panel) {
            let used = panel.min(width - column);
            for (packed, row) in packed_right.chunks_exact_mut(panel).zip(right.chunks_exact(width)) {
                packed[..used].copy_from_slice(&row[column..column + used]);
                packed[used..].fill(0.0);
            }
            let (vectors, _) = S::as_simd_f64s(&packed_right);
            for (band, left) in packed_left.chunks_exact(rows * LEFT).enumerate() {
                let mut sums = [[simd.splat_f64s(0.0); 2]; LEFT];
                for (right, left) in vectors.chunks_exact(2).zip(left.chunks_exact(LEFT)) {
                    for (sum, &left) in sums.iter_mut().zip(left) {
                        let left = simd.splat_f64s(left);
                        sum[0] = simd.mul_add_e_f64s(left, right[0], sum[0]);
                        sum[1] = simd.mul_add_e_f64s(left, right[1], sum[1]);
                    }
                }
                for (offset, sum) in sums.iter().enumerate() {
                    let row = band * LEFT + offset;
                    if row < height {
                        let lanes: &[f64] = pulp::bytemuck::cast_slice(sum.as_slice());
                        let target = &mut out[row * width + column..row * width + column + used];
                        target.iter_mut().zip(lanes).for_each(|(target, lane)| *target += lane);
                    }
                }
            }
        }
    }
}

/// Packs the left matrix into bands of [`LEFT`] columns, each row-major, the last band padded with zeros.
fn pack_left(left: &[f64], rows: usize, height: usize) -> Vec<f64> {
    let bands = height.div_ceil(LEFT);
    let mut packed = vec![0.0; bands * rows * LEFT];
    for (band, packed) in packed.chunks_exact_mut(rows * LEFT).enumerate() {
        let first = band * LEFT;
        let used = LEFT.min(height - first);
        for (packed, row) in packed.chunks_exact_mut(LEFT).zip(left.chunks_exact(height)) {
            packed[..used].copy_from_slice(&row[first..first + used]);
        }
    }
    packed
}

/// Adds the products of all pairs of entries of rows to an upper triangle, some rows at a time.
///
/// # Guarantee
/// Exact if every entry has a magnitude of at most 2^20.
pub struct DenseMoments<'total> {
    width: usize,
    pending: Vec<f64>,
    total: &'total mut [i128],
}

impl<'total> DenseMoments<'total> {
    /// Creates sums for rows of this width.
    pub const fn new(width: usize, total: &'total mut [i128]) -> Self {
        Self { width, pending: Vec::new(), total }
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, units: &[i64]) {
        self.pending.extend(units.iter().map(|&unit| unit as f64));
        if self.pending.len() >= self.width * (ROWS_AT_A_TIME / 2) {
            self.flush();
        }
    }

    /// Adds the rows that were pushed last.
    pub fn finish(mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        let (width, rows) = (self.width, self.pending.len() / self.width);
        let mut product = vec![0.0; width * width];
        add_product(&self.pending, &self.pending, rows, &mut product);
        for (row, product) in product.chunks_exact(width).enumerate() {
            let total = self.total[triangle_row(width, row) + row..].iter_mut();
            total.zip(&product[row..]).for_each(|(total, &product)| *total += product as i128);
        }
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_equal_the_naive_sum_at_every_shape() {
        for rows in [1usize, 2, 7, 65] {
            for height in [1usize, 3, 4, 5, 9] {
                for width in [1usize, 2, 15, 16, 17, 33] {
                    let value = |seed: usize| ((seed * 7919) % 2_097_153) as f64 - 1_048_576.0;
                    let left: Vec<f64> = (0..rows * height).map(value).collect();
                    let right: Vec<f64> = (0..rows * width).map(|seed| value(seed + 31)).collect();
                    let mut out = vec![0.0; height * width];
                    add_product(&left, &right, rows, &mut out);
                    for row in 0..height {
                        for column in 0..width {
                            let exact: i128 = (0..rows)
                                .map(|index| left[index * height + row] as i128 * right[index * width + column] as i128)
                                .sum();
                            assert_eq!(out[row * width + column] as i128, exact, "{rows} {height} {width}");
                        }
                    }
                }
            }
        }
        add_product(&[], &[], 0, &mut []);
    }

    #[test]
    fn the_largest_sums_are_exact() {
        let top = vec![1_048_576.0; ROWS_AT_A_TIME];
        let mut out = vec![0.0];
        add_product(&top, &top, ROWS_AT_A_TIME, &mut out);
        assert_eq!(out[0] as i128, 1i128 << 53);
    }
}
