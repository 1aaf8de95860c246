//! The smallest eigenvalue of a symmetric integer matrix, and the minimum of a quadratic form in a ball.
//!
//! Both reduce the matrix to tridiagonal form in double-double arithmetic, so that the error of the computation is
//! bounded for every input. The bounds are proved in the kernel's `proofs/spectral.md`.

use crate::double_double::DoubleDouble;

/// How far the computed least loss may lie above the true one, in rows.
pub const GAP: f64 = 1.0 / 1024.0;

/// 2^-200. A column whose part below the diagonal has a smaller norm is not reduced: the squares of its entries
/// underflow, and a Householder reflector made from them would be inaccurate.
const NEGLIGIBLE: f64 = 1.0 / (1u128 << 100) as f64 / (1u128 << 100) as f64;

/// A symmetric tridiagonal matrix, and a vector in the same basis.
struct Tridiagonal {
    diagonal: Vec<DoubleDouble>,
    off_diagonal: Vec<DoubleDouble>,
    vector: Vec<DoubleDouble>,
}

/// The smallest eigenvalue of a symmetric integer matrix, rounded down.
///
/// # Guarantee
/// Within 2^20 of the exact value for a matrix of at most 4096 rows whose eigenvalues are below 2^80.
pub fn smallest_eigenvalue(matrix: &[i128], size: usize) -> i128 {
    let reduced = reduce(matrix, &vec![0; size], size);
    let mut bound = DoubleDouble::from(1.0);
    for index in 0..size {
        let before = if index > 0 { reduced.off_diagonal[index - 1].abs() } else { DoubleDouble::ZERO };
        let after = reduced.off_diagonal.get(index).map_or(DoubleDouble::ZERO, |value| value.abs());
        let reach = reduced.diagonal[index].abs() + before + after + DoubleDouble::from(1.0);
        bound = if reach > bound { reach } else { bound };
    }
    let (mut low, mut high) = (-bound, bound);
    let half = DoubleDouble::from(0.5);
    while high - low > DoubleDouble::from(0.25) {
        let middle = (low + high) * half;
        if middle <= low || middle >= high {
            break;
        }
        if has_eigenvalue_below(&reduced, middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low.floor()
}

/// Sylvester's law of inertia: the shifted matrix has a negative pivot if and only if an eigenvalue is below the shift.
fn has_eigenvalue_below(reduced: &Tridiagonal, shift: DoubleDouble) -> bool {
    let mut pivot = DoubleDouble::from(1.0);
    reduced.diagonal.iter().enumerate().any(|(index, &diagonal)| {
        let before = if index > 0 { reduced.off_diagonal[index - 1] } else { DoubleDouble::ZERO };
        pivot = diagonal - shift - before * before / pivot;
        if pivot == DoubleDouble::ZERO {
            pivot = DoubleDouble::from(1e-30);
        }
        pivot.is_negative()
    })
}

/// The minimum of vᵀAv − 2bᵀv + c over all v with a norm of at most `radius`, divided by `scale`.
///
/// # Guarantee
/// The value at some v within the radius, and at most [`GAP`] above the minimum, for matrices as in
/// [`smallest_eigenvalue`] without an eigenvalue below −2^28, and `scale` at least the largest value one row can
/// add, which is at least 2^40 times the squared radius.
pub fn least_loss(matrix: &[i128], cross: &[i128], squares: i128, size: usize, radius: f64, scale: f64) -> f64 {
    let reduced = reduce(matrix, cross, size);
    let radius = DoubleDouble::from(radius);
    let limit = radius * radius;
    // A smaller Lagrange multiplier could improve the result by less than the gap.
    let lowest = DoubleDouble::from(GAP * scale) / (limit + limit);
    let mut solution = solve(&reduced, lowest);
    if squared_norm(&solution) > limit {
        let reach = squared_norm(&reduced.vector).sqrt() / radius + lowest;
        let (mut low, mut high) = (lowest, reach + reach);
        solution = solve(&reduced, high);
        for _ in 0..160 {
            let middle = (low + high) * DoubleDouble::from(0.5);
            let trial = solve(&reduced, middle);
            if squared_norm(&trial) > limit {
                low = middle;
            } else {
                high = middle;
                solution = trial;
            }
        }
    }
    let curved = quadratic(&reduced, &solution);
    let linear = dot(&reduced.vector, &solution);
    let value = curved - (linear + linear) + DoubleDouble::from_integer(squares);
    (value / DoubleDouble::from(scale)).high
}

/// Solves (A + multiplier · I) v = b.
fn solve(reduced: &Tridiagonal, multiplier: DoubleDouble) -> Vec<DoubleDouble> {
    let size = reduced.diagonal.len();
    let least = multiplier * DoubleDouble::from(0.5);
    let mut pivots = Vec::with_capacity(size);
    let mut values: Vec<DoubleDouble> = Vec::with_capacity(size);
    for index in 0..size {
        let mut pivot = reduced.diagonal[index] + multiplier;
        let mut value = reduced.vector[index];
        if index > 0 {
            let factor = reduced.off_diagonal[index - 1] / pivots[index - 1];
            pivot = pivot - factor * reduced.off_diagonal[index - 1];
            value = value - factor * values[index - 1];
        }
        // A has no eigenvalue below minus half of the multiplier, so no pivot is below the other half.
        pivots.push(if pivot < least { least } else { pivot });
        values.push(value);
    }
    for index in (0..size).rev() {
        let after = if index + 1 < size { reduced.off_diagonal[index] * values[index + 1] } else { DoubleDouble::ZERO };
        values[index] = (values[index] - after) / pivots[index];
    }
    values
}

fn dot(one: &[DoubleDouble], other: &[DoubleDouble]) -> DoubleDouble {
    one.iter().zip(other).fold(DoubleDouble::ZERO, |sum, (&one, &other)| sum + one * other)
}

fn squared_norm(vector: &[DoubleDouble]) -> DoubleDouble {
    dot(vector, vector)
}

fn quadratic(reduced: &Tridiagonal, vector: &[DoubleDouble]) -> DoubleDouble {
    let mut sum = DoubleDouble::ZERO;
    for (index, &value) in vector.iter().enumerate() {
        sum = sum + reduced.diagonal[index] * value * value;
        if let Some(&after) = vector.get(index + 1) {
            let off_diagonal = reduced.off_diagonal[index] * value * after;
            sum = sum + off_diagonal + off_diagonal;
        }
    }
    sum
}

/// Householder reduction of a symmetric matrix to tridiagonal form; the vector is transformed along with it.
fn reduce(matrix: &[i128], vector: &[i128], size: usize) -> Tridiagonal {
    let mut matrix: Vec<DoubleDouble> = matrix.iter().map(|&entry| DoubleDouble::from_integer(entry)).collect();
    let mut vector: Vec<DoubleDouble> = vector.iter().map(|&entry| DoubleDouble::from_integer(entry)).collect();
    for column in 0..size.saturating_sub(2) {
        let below: Vec<DoubleDouble> = (column + 1..size).map(|row| matrix[row * size + column]).collect();
        let norm = squared_norm(&below).sqrt();
        // Too small for an accurate reflector, and small enough to be ignored.
        if norm < DoubleDouble::from(NEGLIGIBLE) {
            continue;
        }
        // The reflector that maps the column below the diagonal to a single entry.
        let mut reflector = below;
        let end = if reflector[0].is_negative() { -norm } else { norm };
        reflector[0] = reflector[0] + end;
        let half = squared_norm(&reflector) * DoubleDouble::from(0.5);
        reflect(&mut matrix, size, column, &reflector, half);
        for (row, value) in (column + 1..size).zip(0..) {
            let entry = if value == 0 { -end } else { DoubleDouble::ZERO };
            matrix[row * size + column] = entry;
            matrix[column * size + row] = entry;
        }
        let share = dot(&reflector, &vector[column + 1..]) / half;
        for (value, &reflector) in vector[column + 1..].iter_mut().zip(&reflector) {
            *value = *value - share * reflector;
        }
    }
    let diagonal = (0..size).map(|index| matrix[index * size + index]).collect();
    let off_diagonal = (1..size).map(|index| matrix[index * size + index - 1]).collect();
    Tridiagonal { diagonal, off_diagonal, vector }
}

/// A ← (1 − uuᵀ/h) A (1 − uuᵀ/h) on the rows and columns after `column`.
fn reflect(matrix: &mut [DoubleDouble], size: usize, column: usize, reflector: &[DoubleDouble], half: DoubleDouble) {
    let first = column + 1;
    let row_of = |row: usize| (first + row) * size + first;
    let mut image: Vec<DoubleDouble> = (0..reflector.len())
        .map(|row| dot(&matrix[row_of(row)..row_of(row) + reflector.len()], reflector) / half)
        .collect();
    let share = dot(reflector, &image) / (half + half);
    for (image, &reflector) in image.iter_mut().zip(reflector) {
        *image = *image - share * reflector;
    }
    for (row, (&reflector_row, &image_row)) in reflector.iter().zip(&image).enumerate() {
        let entries = &mut matrix[row_of(row)..row_of(row) + reflector.len()];
        for ((entry, &reflector), &image) in entries.iter_mut().zip(reflector).zip(&image) {
            *entry = *entry - reflector_row * image - image_row * reflector;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_of_known_matrices() {
        // Diagonal, singular, indefinite, and the second difference (2 − 2 cos(π/(n+1))).
        assert!((smallest_eigenvalue(&[5, 0, 0, 7], 2) - 5).abs() <= 1);
        assert!((smallest_eigenvalue(&[1, 1, 1, 1], 2)).abs() <= 1);
        assert!([-10, -9].contains(&smallest_eigenvalue(&[0, 9, 9, 0], 2)));
        let (size, scale) = (40usize, 1i128 << 70);
        let mut matrix = vec![0; size * size];
        for index in 0..size {
            matrix[index * size + index] = 2 * scale;
            if index + 1 < size {
                matrix[index * size + index + 1] = -scale;
                matrix[(index + 1) * size + index] = -scale;
            }
        }
        let sine = libm::sin(std::f64::consts::PI / 82.0);
        let exact = 4.0 * sine * sine * scale as f64;
        let found = smallest_eigenvalue(&matrix, size) as f64;
        assert!((found / exact - 1.0).abs() < 1e-13, "{found} {exact}");
    }

    /// The search starts below every eigenvalue, also where one is far larger than each entry of its row.
    #[test]
    fn eigenvalues_larger_than_every_entry_are_found() {
        let scale = 1i128 << 70;
        let found = smallest_eigenvalue(&[0, scale, 0, scale, 0, scale, 0, scale, 0], 3) as f64;
        let exact = -libm::sqrt(2.0) * scale as f64;
        assert!((found / exact - 1.0).abs() < 1e-13, "{found} {exact}");
    }

    /// The same matrix in a reflected basis has the same smallest eigenvalue, far within the guarantee.
    #[test]
    fn a_change_of_basis_moves_the_eigenvalue_by_almost_nothing() {
        let size = 24usize;
        let eigenvalues: Vec<i128> = (0..size as i128).map(|index| (index * index + 3) << 60).collect();
        // Reflection by the vector of ones: A = D − (2/n)(uw + wu − (2/n) s), scaled by n² to stay in integers.
        let n = size as i128;
        let total: i128 = eigenvalues.iter().sum();
        let mut matrix = vec![0; size * size];
        for row in 0..size {
            for column in 0..size {
                let diagonal = if row == column { eigenvalues[row] * n * n } else { 0 };
                matrix[row * size + column] = diagonal - 2 * n * (eigenvalues[row] + eigenvalues[column]) + 4 * total;
            }
        }
        let found = smallest_eigenvalue(&matrix, size);
        assert!((found - (3i128 << 60) * n * n).abs() < 1 << 20, "{found}");
    }

    /// Rank-one and fully symmetric matrices: every reflector leaves only rounding error, and each later one the rounding
    /// error of that, until its squares underflow.
    #[test]
    fn repeated_rounding_error_does_no_harm() {
        for size in [3usize, 8, 17, 40] {
            for (same, own) in [(1i128, 0i128), (3, 7), ((1 << 70) + 1, 0), (1 << 79, 5), (7, 1 << 60)] {
                let matrix: Vec<i128> =
                    (0..size * size).map(|index| if index % (size + 1) == 0 { same + own } else { same }).collect();
                let found = smallest_eigenvalue(&matrix, size);
                assert!((found - own).abs() <= 1 << 10, "{size} {same} {own}: {found}");
                // The same with a separate block that is far larger than the rounding error.
                let wide = size + 2;
                let mut apart = vec![0; wide * wide];
                for row in 0..size {
                    apart[row * wide..row * wide + size].copy_from_slice(&matrix[row * size..][..size]);
                }
                apart[size * wide + size] = 1 << 79;
                apart[size * wide + size + 1] = (1 << 78) + 1;
                apart[(size + 1) * wide + size] = (1 << 78) + 1;
                apart[(size + 1) * wide + size + 1] = 1 << 79;
                let found = smallest_eigenvalue(&apart, wide);
                assert!((found - own).abs() <= 1 << 10, "{size} {same} {own} apart: {found}");
            }
        }
    }

    /// With fewer rows than features the smallest eigenvalue is zero, and one more row raises it by at most its
    /// squared norm.
    #[test]
    fn few_rows_have_no_smallest_eigenvalue() {
        let mut draw = crate::tests::words(2);
        for round in 0..400u64 {
            let size = 2 + (round % 23) as usize;
            let shapes = [vec![0i128, 1, -1], vec![1 << 18], vec![1 << 20, 0, 0, 0, 1], vec![741_455, -741_455, 3]];
            let shape = &shapes[(round / 23) as usize % shapes.len()];
            let mut matrix = vec![0i128; size * size];
            let mut add = |matrix: &mut [i128]| {
                let row: Vec<i128> = (0..size).map(|_| shape[(draw() % shape.len() as u64) as usize]).collect();
                for index in 0..size * size {
                    matrix[index] += row[index / size] * row[index % size];
                }
                row.iter().map(|value| value * value).sum::<i128>()
            };
            let mut before = 0;
            for count in 1..size + 3 {
                let length = add(&mut matrix);
                let found = smallest_eigenvalue(&matrix, size);
                assert!(count >= size || found.abs() <= 1 << 10, "{round} {size} {count}: {found}");
                assert!(found >= before - 2 && found <= before + length + 2, "{round}: {before} {found}");
                before = found;
            }
        }
    }

    #[test]
    fn least_loss_is_within_the_gap() {
        // One coordinate: minimise a v² − 2 b v + c on [−r, r].
        for (a, b, c, radius, scale) in [
            (4i128, 2i128, 9i128, 10.0, 1.0),
            (4, 40, 900, 2.0, 1.0),
            (0, 7, 50, 3.0, 1.0),
            (0, 0, 5, 1.0, 1.0),
            // A small ball, in which a multiplier that is too large would cost much more than the gap.
            (100, 9, 5, 0.1, 1.0),
            // The multiplier at the boundary of the ball is below one, and within twice the lowest one.
            (0, 1, 50, 10.0, 1.0),
            (0, 3, 9, 1.0, 4096.0),
        ] {
            let best = if a > 0 { (b as f64 / a as f64).clamp(-radius, radius) } else { radius * (b.signum() as f64) };
            let exact = (a as f64 * best * best - 2.0 * b as f64 * best + c as f64) / scale;
            let found = least_loss(&[a], &[b], c, 1, radius, scale);
            assert!(found >= exact - 1e-9 && found <= exact + GAP, "{a} {b} {c}: {found} {exact}");
        }
        // A singular matrix: of all minima of (x + y)² − 2 (x + y) + 3, the shortest one is inside the ball.
        let found = least_loss(&[1, 1, 1, 1], &[1, 1], 3, 2, 0.8, 1.0);
        assert!((2.0 - 1e-9..=2.0 + GAP).contains(&found), "{found}");
    }

    /// One more row changes the computed least loss by at least −GAP/2 and at most 1 + GAP/2, for radii and ranks of
    /// every size. (The other half of the gap is for row counts that no test has.)
    #[test]
    fn one_row_moves_the_least_loss_by_one_at_most() {
        let mut draw = crate::tests::words(3);
        let half = 0.5 * GAP + 1e-9;
        for round in 0..600u64 {
            let size = 1 + (round % 9) as usize;
            let radius = [1e-11, 1e-6, 0.01, 0.5, 1.0, 3.0, 1e3, 1e7, 9e11][(round / 9 % 9) as usize];
            let reach = radius * 1_048_576.0 + 1_048_576.0;
            let (mut matrix, mut cross, mut squares) = (vec![0i128; size * size], vec![0i128; size], 0i128);
            let mut before = 0.0;
            for count in 1..12u64 {
                // Norms up to the largest, labels of both signs at their bound; sometimes the same row again.
                let limit = (1_048_576.0 / libm::sqrt(size as f64)) as i128;
                let word = draw();
                let row: Vec<i128> = (0..size as u64)
                    .map(|index| match (word >> (2 * index)) & 3 {
                        0 => limit,
                        1 => -limit,
                        2 => i128::from(word >> 50) % limit,
                        _ => i128::from(round % 2),
                    })
                    .collect();
                let label = if word >> 63 == 0 { 1 << 20 } else { -(1 << 20) + i128::from(count % 3) };
                for index in 0..size * size {
                    matrix[index] += row[index / size] * row[index % size];
                }
                cross.iter_mut().zip(&row).for_each(|(sum, value)| *sum += value * label);
                squares += label * label;
                let found = least_loss(&matrix, &cross, squares, size, radius, reach * reach);
                let moved = found - before;
                assert!(moved >= -half && moved <= 1.0 + half, "{round} {count} {radius:e}: {moved}");
                assert!(found >= -1e-9 && found <= count as f64 + half, "{round} {count}: {found}");
                before = found;
            }
        }
    }
}
