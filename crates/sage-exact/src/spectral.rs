//! Two numbers of a symmetric matrix of whole numbers: its smallest eigenvalue, and the least value of a
//! quadratic form in a ball.
//!
//! Both turn the matrix into three diagonals and work there, in numbers of about 106 bits, so that the error
//! of the computation is bounded for every input. The bounds are proved where they are used, in the kernel's
//! `proofs/spectral.md`.

use crate::double::Double;

/// How far above the least loss the computed one may lie, in rows.
pub const GAP: f64 = 1.0 / 1024.0;

/// 2^-200. What a column has below the diagonal is dropped if it is shorter: squares of such numbers lose
/// their digits, and a mirror made of them would bend everything it is applied to.
const NEGLIGIBLE: f64 = 1.0 / (1u128 << 100) as f64 / (1u128 << 100) as f64;

/// A symmetric matrix with three diagonals, and a vector in the same basis.
struct Tridiagonal {
    diagonal: Vec<Double>,
    beside: Vec<Double>,
    vector: Vec<Double>,
}

/// The smallest eigenvalue of a symmetric matrix of whole numbers, rounded down.
///
/// # Guarantee
/// Within 2^20 of the true one for a matrix of at most 4096 rows whose eigenvalues are below 2^80.
pub fn smallest_eigenvalue(matrix: &[i128], size: usize) -> i128 {
    let reduced = reduce(matrix, &vec![0; size], size);
    let mut bound = Double::from(1.0);
    for place in 0..size {
        let before = if place > 0 { reduced.beside[place - 1].abs() } else { Double::ZERO };
        let after = reduced.beside.get(place).map_or(Double::ZERO, |value| value.abs());
        let reach = reduced.diagonal[place].abs() + before + after + Double::from(1.0);
        bound = if reach > bound { reach } else { bound };
    }
    let (mut low, mut high) = (-bound, bound);
    let half = Double::from(0.5);
    while high - low > Double::from(0.25) {
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

/// Sylvester's law: a negative pivot of the shifted matrix shows an eigenvalue below the shift.
fn has_eigenvalue_below(reduced: &Tridiagonal, shift: Double) -> bool {
    let mut pivot = Double::from(1.0);
    reduced.diagonal.iter().enumerate().any(|(place, &diagonal)| {
        let before = if place > 0 { reduced.beside[place - 1] } else { Double::ZERO };
        pivot = diagonal - shift - before * before / pivot;
        if pivot == Double::ZERO {
            pivot = Double::from(1e-30);
        }
        pivot.is_negative()
    })
}

/// The least of vᵀAv − 2bᵀv + c over all v no longer than `radius`, over `scale`.
///
/// # Guarantee
/// The value at some v within the radius, and at most [`GAP`] above the least, for matrices as in
/// [`smallest_eigenvalue`] and `scale` at least the largest value one row can add.
pub fn least_loss(matrix: &[i128], cross: &[i128], squares: i128, size: usize, radius: f64, scale: f64) -> f64 {
    let reduced = reduce(matrix, cross, size);
    let radius = Double::from(radius);
    let limit = radius * radius;
    // Below this multiplier nothing is gained that the gap does not allow to lose.
    let lowest = Double::from(GAP * scale) / (limit + limit);
    let mut solution = solve(&reduced, lowest);
    if length(&solution) > limit {
        let reach = length(&reduced.vector).sqrt() / radius + lowest;
        let (mut low, mut high) = (lowest, reach + reach);
        solution = solve(&reduced, high);
        for _ in 0..160 {
            let middle = (low + high) * Double::from(0.5);
            let trial = solve(&reduced, middle);
            if length(&trial) > limit {
                low = middle;
            } else {
                high = middle;
                solution = trial;
            }
        }
    }
    let curved = quadratic(&reduced, &solution);
    let linear = dot(&reduced.vector, &solution);
    let value = curved - (linear + linear) + Double::from_whole(squares);
    (value / Double::from(scale)).high
}

/// The v with (A + multiplier) v = b.
fn solve(reduced: &Tridiagonal, multiplier: Double) -> Vec<Double> {
    let size = reduced.diagonal.len();
    let mut pivots = Vec::with_capacity(size);
    let mut values: Vec<Double> = Vec::with_capacity(size);
    for place in 0..size {
        let mut pivot = reduced.diagonal[place] + multiplier;
        let mut value = reduced.vector[place];
        if place > 0 {
            let factor = reduced.beside[place - 1] / pivots[place - 1];
            pivot = pivot - factor * reduced.beside[place - 1];
            value = value - factor * values[place - 1];
        }
        // A + multiplier has no eigenvalue below the multiplier, and neither has a pivot.
        pivots.push(if pivot < multiplier { multiplier } else { pivot });
        values.push(value);
    }
    for place in (0..size).rev() {
        let after = if place + 1 < size { reduced.beside[place] * values[place + 1] } else { Double::ZERO };
        values[place] = (values[place] - after) / pivots[place];
    }
    values
}

fn dot(one: &[Double], other: &[Double]) -> Double {
    one.iter().zip(other).fold(Double::ZERO, |sum, (&one, &other)| sum + one * other)
}

fn length(vector: &[Double]) -> Double {
    dot(vector, vector)
}

fn quadratic(reduced: &Tridiagonal, vector: &[Double]) -> Double {
    let mut sum = Double::ZERO;
    for (place, &value) in vector.iter().enumerate() {
        sum = sum + reduced.diagonal[place] * value * value;
        if let Some(&after) = vector.get(place + 1) {
            let beside = reduced.beside[place] * value * after;
            sum = sum + beside + beside;
        }
    }
    sum
}

/// Householder's reduction of a symmetric matrix to three diagonals, taking the vector along.
fn reduce(matrix: &[i128], vector: &[i128], size: usize) -> Tridiagonal {
    let mut matrix: Vec<Double> = matrix.iter().map(|&entry| Double::from_whole(entry)).collect();
    let mut vector: Vec<Double> = vector.iter().map(|&entry| Double::from_whole(entry)).collect();
    for column in 0..size.saturating_sub(2) {
        let below: Vec<Double> = (column + 1..size).map(|row| matrix[row * size + column]).collect();
        let norm = length(&below).sqrt();
        // Too short to be mirrored without loss, and too short to matter.
        if norm < Double::from(NEGLIGIBLE) {
            continue;
        }
        // The mirror that takes the column below the diagonal to one entry.
        let mut mirror = below;
        let end = if mirror[0].is_negative() { -norm } else { norm };
        mirror[0] = mirror[0] + end;
        let half = length(&mirror) * Double::from(0.5);
        reflect(&mut matrix, size, column, &mirror, half);
        for (row, value) in (column + 1..size).zip(0..) {
            let entry = if value == 0 { -end } else { Double::ZERO };
            matrix[row * size + column] = entry;
            matrix[column * size + row] = entry;
        }
        let share = dot(&mirror, &vector[column + 1..]) / half;
        for (value, &mirror) in vector[column + 1..].iter_mut().zip(&mirror) {
            *value = *value - share * mirror;
        }
    }
    let diagonal = (0..size).map(|place| matrix[place * size + place]).collect();
    let beside = (1..size).map(|place| matrix[place * size + place - 1]).collect();
    Tridiagonal { diagonal, beside, vector }
}

/// A ← (1 − uuᵀ/h) A (1 − uuᵀ/h) on the rows and columns after `column`.
fn reflect(matrix: &mut [Double], size: usize, column: usize, mirror: &[Double], half: Double) {
    let first = column + 1;
    let row_of = |row: usize| (first + row) * size + first;
    let mut image: Vec<Double> =
        (0..mirror.len()).map(|row| dot(&matrix[row_of(row)..row_of(row) + mirror.len()], mirror) / half).collect();
    let share = dot(mirror, &image) / (half + half);
    for (image, &mirror) in image.iter_mut().zip(mirror) {
        *image = *image - share * mirror;
    }
    for (row, (&mirror_row, &image_row)) in mirror.iter().zip(&image).enumerate() {
        let entries = &mut matrix[row_of(row)..row_of(row) + mirror.len()];
        for ((entry, &mirror), &image) in entries.iter_mut().zip(mirror).zip(&image) {
            *entry = *entry - mirror_row * image - image_row * mirror;
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
        assert!((smallest_eigenvalue(&[0, 9, 9, 0], 2) + 9).abs() <= 1);
        let (size, scale) = (40usize, 1i128 << 70);
        let mut matrix = vec![0; size * size];
        for place in 0..size {
            matrix[place * size + place] = 2 * scale;
            if place + 1 < size {
                matrix[place * size + place + 1] = -scale;
                matrix[(place + 1) * size + place] = -scale;
            }
        }
        let sine = libm::sin(std::f64::consts::PI / 82.0);
        let exact = 4.0 * sine * sine * scale as f64;
        let found = smallest_eigenvalue(&matrix, size) as f64;
        assert!((found / exact - 1.0).abs() < 1e-13, "{found} {exact}");
    }

    /// The same matrix in a mirrored basis has the same smallest eigenvalue, to far below the promise.
    #[test]
    fn a_change_of_basis_moves_the_eigenvalue_by_almost_nothing() {
        let size = 24usize;
        let eigenvalues: Vec<i128> = (0..size as i128).map(|place| (place * place + 3) << 60).collect();
        // Mirror by the vector of ones: A = D − (2/n)(uw + wu − (2/n) s) with whole numbers kept by n².
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

    /// Rank one and full symmetry: every mirror leaves only rounding noise, whose noise is smaller again,
    /// until squares of it are no longer numbers of full precision.
    #[test]
    fn noise_of_noise_bends_nothing() {
        for size in [3usize, 8, 17, 40] {
            for (same, own) in [(1i128, 0i128), (3, 7), ((1 << 70) + 1, 0), (1 << 79, 5), (7, 1 << 60)] {
                let matrix: Vec<i128> =
                    (0..size * size).map(|place| if place % (size + 1) == 0 { same + own } else { same }).collect();
                let found = smallest_eigenvalue(&matrix, size);
                assert!((found - own).abs() <= 1 << 10, "{size} {same} {own}: {found}");
                // A part apart from it, larger than its noise by far.
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

    /// Fewer rows than features: the smallest eigenvalue is zero, whatever the rows; and one row more moves
    /// it up by its squared length at most.
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
                for place in 0..size * size {
                    matrix[place] += row[place / size] * row[place % size];
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
        for (a, b, c, radius) in [(4i128, 2i128, 9i128, 10.0), (4, 40, 900, 2.0), (0, 7, 50, 3.0), (0, 0, 5, 1.0)] {
            let best = if a > 0 { (b as f64 / a as f64).clamp(-radius, radius) } else { radius * (b.signum() as f64) };
            let exact = a as f64 * best * best - 2.0 * b as f64 * best + c as f64;
            let found = least_loss(&[a], &[b], c, 1, radius, 1.0);
            assert!(found >= exact - 1e-9 && found <= exact + GAP, "{a} {b} {c}: {found} {exact}");
        }
    }
    /// One row more moves the computed least loss by −GAP/2 at the least and 1 + GAP/2 at the most (the
    /// other half of the gap is for numbers of rows that no test has), for radii and ranks of every size.
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
                // Lengths up to the largest, labels of both signs at their bound; now and then the same row.
                let limit = (1_048_576.0 / libm::sqrt(size as f64)) as i128;
                let word = draw();
                let row: Vec<i128> = (0..size as u64)
                    .map(|place| match (word >> (2 * place)) & 3 {
                        0 => limit,
                        1 => -limit,
                        2 => i128::from(word >> 50) % limit,
                        _ => i128::from(round % 2),
                    })
                    .collect();
                let label = if word >> 63 == 0 { 1 << 20 } else { -(1 << 20) + i128::from(count % 3) };
                for place in 0..size * size {
                    matrix[place] += row[place / size] * row[place % size];
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
