//! Checks whether a symmetric integer matrix is positive semidefinite, up to a stated tolerance.
//!
//! A Cholesky factorisation in floats, with a diagonal shift that covers its rounding error. The error bound is
//! proved in the kernel's `proofs/spectral.md`.

use crate::one_hot::triangle_row;

/// The unit roundoff: the relative error of one operation.
const UNIT: f64 = 0.5 * f64::EPSILON;

/// Whether the integers could be the upper triangle of Σ z zᵀ, where z is a vector of `width` features and a label. The
/// squares of the features add up to at most `most_features` and those of the labels to at most `most_labels`, the
/// entries satisfy Cauchy-Schwarz, and the features' submatrix has no eigenvalue far below zero.
///
/// # Guarantee
/// All checks use exact integers except the last, which is [`is_semidefinite`].
pub fn could_be_moments(triangle: &[i64], width: usize, most_features: i128, most_labels: i128) -> bool {
    let size = width + 1;
    if triangle.len() != size * (size + 1) / 2 {
        return false;
    }
    let at = |row: usize, column: usize| i128::from(triangle[triangle_row(size, row) + column]);
    let cauchy_schwarz = |row: usize, other: usize| at(row, other).pow(2) <= at(row, row) * at(other, other);
    let bounded = (0..size).all(|row| at(row, row) >= 0)
        && (0..width).map(|row| at(row, row)).sum::<i128>() <= most_features
        && at(width, width) <= most_labels
        && (0..size).all(|row| (row + 1..size).all(|other| cauchy_schwarz(row, other)));
    let features = || (0..width).flat_map(|row| (row..width).map(move |column| at(row, column) as f64));
    bounded && is_semidefinite(features().collect(), width)
}

/// Whether the matrix with this row-major upper triangle has no eigenvalue far below zero.
///
/// # Guarantee
/// For at most 4096 rows, entries below 2^64 in size and `|a_ij|² ≤ a_ii a_jj`: true for every positive
/// semidefinite matrix, and false if an eigenvalue is below −6 (size + 4) 2^-53 times the trace.
pub fn is_semidefinite(mut triangle: Vec<f64>, size: usize) -> bool {
    if triangle.len() != size * (size + 1) / 2 {
        return false;
    }
    let starts = (0..size).scan(0, |next, row| Some(std::mem::replace(next, *next + size - row)));
    let diagonal: Vec<usize> = starts.collect();
    let trace: f64 = diagonal.iter().map(|&at| triangle[at]).sum();
    if trace == 0.0 {
        return triangle.iter().all(|&entry| entry == 0.0);
    }
    let shift = 4.0 * (size as f64 + 4.0) * UNIT * trace;
    diagonal.iter().for_each(|&at| triangle[at] += shift);
    for (at, length) in diagonal.into_iter().zip((1..=size).rev()) {
        let (row, mut below) = triangle[at..].split_at_mut(length);
        let pivot = row[0];
        // Also false for NaN.
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        let root = libm::sqrt(pivot);
        row.iter_mut().for_each(|entry| *entry /= root);
        for first in 1..length {
            let (target, next) = below.split_at_mut(length - first);
            let factor = row[first];
            target.iter_mut().zip(&row[first..]).for_each(|(target, &entry)| *target -= factor * entry);
            below = next;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smallest_eigenvalue;

    /// Gram matrices of random rows, of every rank, and the same matrices with one eigenvalue moved below zero.
    #[test]
    fn gram_matrices_pass_and_forged_ones_do_not() {
        let mut draw = crate::tests::words(11);
        for round in 0..300u64 {
            let size = 1 + (round % 40) as usize;
            let count = [0, 1, 2, size / 2, size, 3 * size][(round / 40) as usize % 6];
            let reach = [1i128, 3, 1 << 10, 1 << 20][(draw() % 4) as usize];
            let mut sums = vec![0i128; size * size];
            for _ in 0..count {
                let row: Vec<i128> = (0..size).map(|_| i128::from(draw() >> 1) % (2 * reach + 1) - reach).collect();
                (0..size * size).for_each(|at| sums[at] += row[at / size] * row[at % size]);
            }
            let packed = |sums: &[i128]| -> Vec<f64> {
                let mut packed = vec![0.0; size * (size + 1) / 2];
                for row in 0..size {
                    (row..size).for_each(|column| {
                        packed[triangle_row(size, row) + column] = sums[row * size + column] as f64;
                    });
                }
                packed
            };
            assert!(is_semidefinite(packed(&sums), size), "round {round}");
            let trace: i128 = (0..size).map(|at| sums[at * size + at]).sum();
            let at = (draw() % size as u64) as usize;
            // Twice the smallest change that the guarantee says is detected.
            let allowed = 6.0 * (size as f64 + 4.0) * UNIT * trace as f64;
            let least = smallest_eigenvalue(&sums, size);
            sums[at * size + at] -= least + 2 + (2.0 * allowed) as i128;
            let moved = smallest_eigenvalue(&sums, size);
            if sums[at * size + at] >= 0 && (moved as f64) < -allowed - 2.0 {
                assert!(!is_semidefinite(packed(&sums), size), "round {round}: {moved}");
            }
        }
    }

    /// Three equal correlations give an eigenvalue of exactly 1 − 2c: zero passes, and just below the stated tolerance
    /// does not, among any number of other rows.
    #[test]
    fn the_tolerance_is_as_stated() {
        for size in [3usize, 8, 40, 200] {
            let matrix = |correlation: f64| {
                let entry = move |row: usize, column: usize| match (row == column, row < 3 && column < 3) {
                    (true, _) => 1.0,
                    (false, true) => -correlation,
                    (false, false) => 0.0,
                };
                (0..size).flat_map(|row| (row..size).map(move |column| entry(row, column))).collect::<Vec<f64>>()
            };
            assert!(is_semidefinite(matrix(0.5), size), "{size}");
            let tolerance = 6.0 * (size as f64 + 4.0) * UNIT * size as f64;
            assert!(!is_semidefinite(matrix(0.5 + 0.5 * tolerance * 1.01), size), "{size}");
        }
    }

    #[test]
    fn impossible_moments_are_refused() {
        assert!(is_semidefinite(vec![0.0; 6], 3));
        assert!(!is_semidefinite(vec![0.0; 5], 3));
        assert!(!is_semidefinite(vec![0.0, 1.0, 0.0], 2));
        assert!(!is_semidefinite(vec![1.0, 1e9, 1.0], 2));
        assert!(!is_semidefinite(vec![f64::NAN, 0.0, 1.0], 2));
        assert!(!is_semidefinite(vec![f64::INFINITY, 0.0, 1.0], 2));
        assert!(!is_semidefinite(vec![-1.0, 0.0, 3.0], 2));
        assert!(is_semidefinite(vec![4.0, 2.0, 1.0], 2));
    }
}
