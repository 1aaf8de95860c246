//! Solves symmetric linear systems by Cholesky decomposition.
//!
//! Systems have at most a few thousand unknowns; for that, a linear algebra library would be this crate's largest
//! dependency.

/// The lower Cholesky factor of a positive definite matrix, row-major.
pub struct Cholesky {
    factor: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// The factor of `matrix` with `ridge` added to its diagonal; `None` if that is not positive definite.
    pub fn new(matrix: &[f64], ridge: f64, size: usize) -> Option<Self> {
        if matrix.len() != size * size {
            return None;
        }
        let mut factor = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..=row {
                let (above, current) = factor.split_at(row * size);
                let left = if column == row { &current[..column] } else { &above[column * size..][..column] };
                let rest = matrix[row * size + column] - dot(left, &current[..column]);
                factor[row * size + column] = if column < row {
                    rest / factor[column * size + column]
                } else {
                    let pivot = rest + ridge;
                    // Also false for NaN.
                    if !(pivot > 0.0 && pivot.is_finite()) {
                        return None;
                    }
                    libm::sqrt(pivot)
                };
            }
        }
        Some(Self { factor, size })
    }

    /// The solution for one right-hand side.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let size = self.size;
        let mut values = right.to_vec();
        for row in 0..size {
            let (before, rest) = values.split_at_mut(row);
            rest[0] = (rest[0] - dot(&self.factor[row * size..][..row], before)) / self.factor[row * size + row];
        }
        for row in (0..size).rev() {
            values[row] /= self.factor[row * size + row];
            let value = values[row];
            for (target, entry) in values[..row].iter_mut().zip(&self.factor[row * size..][..row]) {
                *target -= value * entry;
            }
        }
        values
    }
}

/// The dot product, in eight partial sums that the compiler keeps in registers.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let (left, right) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (left, right) in left.0.iter().zip(right.0) {
        for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
            *sum += left * right;
        }
    }
    let rest: f64 = left.1.iter().zip(right.1).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f64>() + rest
}

/// Like [`solve_ridge`], but raises the ridge until the norm of the solution is at most `longest`: the least such ridge
/// found by bisection, at the end that is within the bound.
///
/// `None` if the numbers are not finite or `longest` is not above zero.
pub fn solve_bounded(matrix: &[f64], right: &[f64], ridge: f64, step: f64, longest: f64) -> Option<(Vec<f64>, f64)> {
    let fits = |solution: &[f64]| libm::sqrt(dot(solution, solution)) <= longest;
    let first = solve_ridge(matrix, right, ridge, step).filter(|_| longest > 0.0)?;
    if fits(&first.0) {
        return Some(first);
    }
    let mut low = first.1;
    let mut high = (2.0 * low).max(step);
    let mut best = loop {
        let (solution, ridge) = solve_ridge(matrix, right, high, step)?;
        if fits(&solution) {
            break (solution, ridge);
        }
        (low, high) = (high, 2.0 * high);
        if !high.is_finite() {
            return None;
        }
    };
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + best.1);
        match solve_ridge(matrix, right, middle, step) {
            Some(trial) if fits(&trial.0) => best = trial,
            _ => low = middle,
        }
    }
    Some(best)
}

/// Enough for three digits of the ridge: a longer search gains nothing compared with the noise.
const BISECTIONS: usize = 10;

/// The solution of (matrix + ridge · I) x = right, and the ridge used: if the matrix is not positive definite with the
/// given ridge, the ridge is doubled, starting from `step`, until it is.
///
/// `None` if a number is not finite.
pub fn solve_ridge(matrix: &[f64], right: &[f64], ridge: f64, step: f64) -> Option<(Vec<f64>, f64)> {
    let mut ridge = ridge;
    // Twice the largest number of a float's exponents: enough for every finite matrix.
    for _ in 0..2100 {
        if let Some(factor) = Cholesky::new(matrix, ridge, right.len()) {
            let solution = factor.solve(right);
            if solution.iter().all(|value| value.is_finite()) {
                return Some((solution, ridge));
            }
        }
        ridge = (2.0 * ridge).max(step);
        if !ridge.is_finite() {
            return None;
        }
    }
    None
}
