//! Moment matrices: exact sums of products of a row's features and label. Proof: `proofs/moments.md` and
//! `proofs/spectral.md`.
//!
//! The sums themselves must never leave the session. It can release the matrix Σ x xᵀ and the vector Σ x y with Gaussian
//! noise, the smallest eigenvalue with Gaussian noise, and the least squared loss of a bounded linear model with Laplace
//! noise. Each release consumes its own part of the charge.
//!
//! Features are dense vectors or one-hot indices. One-hot rows all have the same norm, so they need neither clipping nor
//! rounding, and counting replaces multiplication. Where m records of a row count, its moments are the means of those of
//! m records, taken in turn.

use crate::block::Lane;
use crate::budget::{Epsilon, Sigma};
use crate::contribution::{Contribution, PerUnit};
use crate::cost::{Mechanism, SCALE};
use crate::noise::NoiseSource;
use crate::session::{Rows, Session, SessionError};
use crate::table::laplace;
use crate::vector::{Lattice, check_clip, grid_unit, quantise_vector};
use sage_numerics::{
    DenseMoments, GAP, OneHotMoments, could_be_moments, least_loss, smallest_eigenvalue, triangle_row,
};

/// The largest norm of a feature vector, and the largest label, in units of the grid.
const SIZE: u64 = 1 << 20;
/// √2 in units of 2^-16, rounded down.
const ROOT_OF_TWO: i128 = 92_681;
/// The largest number of features.
const WIDTH_LIMIT: u32 = 4096;
/// The largest number of rows for which the error of the spectral computations is proved: `proofs/spectral.md`.
pub(crate) const ROWS_LIMIT: u64 = 1 << 38;

/// The bounds to which a row with dense features is clipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MomentBounds {
    /// Number of features.
    pub width: u32,
    /// The largest L2 norm of a feature vector; longer ones are clipped.
    pub feature_norm: f64,
    /// The largest absolute label; larger ones are clipped.
    pub label_size: f64,
}

/// The bounds of a row with one-hot features.
///
/// Its features are ones at the active columns, zeros elsewhere, and a constant one. So there are `columns` + 1 features,
/// and the feature norm is √(active + 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneHotBounds {
    /// The number of active columns of a row.
    pub active: u32,
    /// The number of one-hot columns.
    pub columns: u32,
    /// The largest absolute label; larger ones are clipped.
    pub label_size: f64,
}

/// Exact moments of one lane. They cannot be copied, printed or read.
pub struct Moments {
    session: u64,
    lane: Lane,
    units: Units,
    /// (width + 1)² sums; the label is the last column.
    sums: Vec<i128>,
    rows: u64,
}

/// The scale of the integers in moments.
#[derive(Clone, Copy)]
pub(crate) struct Units {
    pub(crate) width: u32,
    /// Grid units per counted unit of a feature: 1 for dense features, the value of a one for one-hot features.
    one: i128,
    /// The largest norm of a record's features, and its largest label, in units of the grid.
    size: u64,
    feature: f64,
    label: f64,
}

/// The result of [`Session::least_squared_loss`]. The noise on `loss` and `rest` has a scale of at most (1 + 2 gap) / ε
/// rows each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestLoss {
    /// The noisy sum of the best model's losses, in units of [`BestLoss::bound`]; without noise at most [`BestLoss::gap`]
    /// too high.
    pub loss: f64,
    /// The noisy number of rows less that sum.
    pub rest: f64,
    /// The largest possible loss of a row.
    pub bound: f64,
    /// The largest excess of `loss` over the best model's, in units of `bound`.
    pub gap: f64,
    /// The largest change of one row's loss by rounding to the grid, in units of `bound`.
    pub rounding: f64,
}

impl PerUnit<MomentBounds> {
    pub(crate) fn units(self) -> Result<Units, SessionError> {
        let MomentBounds { width, feature_norm, label_size } = self.bounds;
        check_clip(feature_norm)?;
        check_width(width)?;
        let size = self.contribution.length(SIZE);
        // The sum over m records in these units is their mean in the caller's.
        let feature = grid_unit(feature_norm, size, width as usize) / self.contribution.root();
        Ok(Units { width, one: 1, size, feature, label: label_unit(label_size, self.contribution)? })
    }

    pub(crate) fn form(self) -> Vec<u64> {
        let MomentBounds { width, feature_norm, label_size } = self.bounds;
        self.contribution.form(vec![0, u64::from(width), feature_norm.to_bits(), label_size.to_bits()])
    }

    /// Adds the moments of the rows to the upper triangle `total`; returns the number of rows.
    pub(crate) fn sum<R: Rows>(
        self, rows: &[R], total: &mut [i128], value: impl Fn(R::Row<'_>, &mut [f64]) -> f64,
    ) -> u64 {
        let width = self.bounds.width as usize;
        let mut products = DenseMoments::new(width + 1, total);
        let (mut features, mut units) = (vec![0.0; width], vec![0i64; width + 1]);
        let size = self.contribution.length(SIZE);
        let label = label_grid(self.bounds.label_size, size);
        let count = self.contribution.each_turn(rows, |row| {
            features.fill(0.0);
            units[width] = label(value(row, &mut features));
            quantise_vector(&features, self.bounds.feature_norm, size, &mut units[..width]);
            products.push(&units);
        });
        products.finish();
        count
    }
}

impl PerUnit<OneHotBounds> {
    pub(crate) fn units(self) -> Result<Units, SessionError> {
        let OneHotBounds { active, columns, label_size } = self.bounds;
        let width = columns.saturating_add(1);
        check_width(width)?;
        if active > columns {
            return Err(SessionError::Parameter("a row cannot have more active columns than there are columns"));
        }
        // The norm of a record's features stays within the grid: (active + 1) · one² ≤ size².
        let size = self.contribution.length(SIZE);
        let one = (size * size / (u64::from(active) + 1)).isqrt();
        let (feature, label) =
            (1.0 / one as f64 / self.contribution.root(), label_unit(label_size, self.contribution)?);
        Ok(Units { width, one: i128::from(one), size, feature, label })
    }

    pub(crate) fn form(self) -> Vec<u64> {
        let OneHotBounds { active, columns, label_size } = self.bounds;
        self.contribution.form(vec![1, u64::from(active), u64::from(columns), label_size.to_bits()])
    }

    /// As the sum of dense moments.
    pub(crate) fn sum<R: Rows>(
        self, rows: &[R], total: &mut [i128], value: impl Fn(R::Row<'_>, &mut [u32]) -> f64,
    ) -> u64 {
        let mut sums = OneHotMoments::new(self.bounds.active as usize, self.bounds.columns as usize, total);
        let label = label_grid(self.bounds.label_size, self.contribution.length(SIZE));
        let count = self.contribution.each_turn(rows, |row| sums.push(|indices| label(value(row, indices))));
        sums.finish();
        count
    }
}

impl Units {
    /// The size of the upper triangle of the moments of all features and the label.
    pub(crate) const fn triangle(self) -> usize {
        (self.width as usize + 1) * (self.width as usize + 2) / 2
    }

    /// Whether `triangle` has the properties of the moments of `rows` rows that `proofs/spectral.md` relies on: squared
    /// norms within their bounds, the Cauchy-Schwarz inequality for all pairs, and no negative eigenvalue.
    pub(crate) fn could_have(self, rows: u64, triangle: &[i64]) -> bool {
        let most = i128::from(rows) * i128::from(SIZE * SIZE);
        rows <= ROWS_LIMIT && could_be_moments(triangle, self.width as usize, most / (self.one * self.one), most)
    }
}

fn check_width(width: u32) -> Result<(), SessionError> {
    let fits = (1..=WIDTH_LIMIT).contains(&width);
    if fits { Ok(()) } else { Err(SessionError::Parameter("moments take from 1 to 4096 features")) }
}

fn label_unit(label_size: f64, contribution: Contribution) -> Result<f64, SessionError> {
    check_clip(label_size)?;
    Ok(grid_unit(label_size, contribution.length(SIZE), 1) / contribution.root())
}

/// Quantises a label to at most `length` units in absolute value, for every bit pattern; NaN is zero.
fn label_grid(size: f64, length: u64) -> impl Fn(f64) -> i64 {
    let scale = 1.0 / grid_unit(size, length, 1);
    move |label| {
        let units = label.clamp(-size, size) * scale;
        // Rounds to nearest; the cast truncates towards zero and maps NaN to zero.
        let half = if units < 0.0 { -0.5 } else { 0.5 };
        ((units + half) as i64).clamp(-(length as i64), length as i64)
    }
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// Sums the moments of all rows of a lane with dense features. Costs nothing by itself, because nothing is released.
    ///
    /// `value` writes the features of a row and returns its label. [`Contribution::per_unit`] makes bounds of which several
    /// records of a row count; each row is then the mean of that many of its records, taken in turn.
    ///
    /// # Errors
    /// When the lane is not granted or a bound is out of range.
    pub fn moments(
        &self, lane: Lane, bounds: impl Into<PerUnit<MomentBounds>>, value: impl Fn(R::Row<'_>, &mut [f64]) -> f64,
    ) -> Result<Moments, SessionError> {
        let bounds = bounds.into();
        self.gather_moments(lane, bounds.units()?, &bounds.form(), |rows, total| bounds.sum(rows, total, value))
    }

    /// Sums the moments of all rows of a lane with one-hot features. Costs nothing by itself.
    ///
    /// `value` writes the active columns of a row in ascending order, without duplicates, and returns its label. A row with
    /// other indices has no features.
    ///
    /// # Errors
    /// As [`Session::moments`].
    pub fn one_hot_moments(
        &self, lane: Lane, bounds: impl Into<PerUnit<OneHotBounds>>, value: impl Fn(R::Row<'_>, &mut [u32]) -> f64,
    ) -> Result<Moments, SessionError> {
        let bounds = bounds.into();
        self.gather_moments(lane, bounds.units()?, &bounds.form(), |rows, total| bounds.sum(rows, total, value))
    }

    /// The moments of a lane, in units of the grid, from cached summaries of this form and from the rows.
    fn gather_moments(
        &self, lane: Lane, units: Units, form: &[u64], sum: impl FnOnce(&[R], &mut [i128]) -> u64,
    ) -> Result<Moments, SessionError> {
        let size = units.width as usize + 1;
        let mut triangle = vec![0; units.triangle()];
        let rows = self.gather(lane, form, &mut triangle, sum)?;
        let mut sums = vec![0; size * size];
        for row in 0..size {
            for column in row..size {
                let labels = usize::from(row + 1 == size) + usize::from(column + 1 == size);
                let weight = [units.one * units.one, units.one, 1][labels];
                let sum = triangle[triangle_row(size, row) + column] * weight;
                sums[row * size + column] = sum;
                sums[column * size + row] = sum;
            }
        }
        Ok(Moments { session: self.identity, lane, units, sums, rows })
    }

    /// The noisy matrix Σ x xᵀ, row by row, symmetric.
    ///
    /// # Guarantee
    /// One [`Mechanism::Gaussian`] with width (width + 1) / 2 coordinates. The standard deviation of the noise is σ times
    /// the squared feature norm on the diagonal and 1/√2 of that elsewhere: `proofs/moments.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or the moments are another session's.
    pub fn noisy_matrix(&mut self, moments: &Moments, sigma: Sigma) -> Result<Vec<f64>, SessionError> {
        let width = moments.units.width as usize;
        let coordinates = moments.units.width * (moments.units.width + 1) / 2;
        // Each coordinate has 16 more bits, for the factor √2.
        let length = (u128::from(SIZE) * u128::from(SIZE)) << 16;
        let lattice = self.admit_gaussian(moments, sigma, length, coordinates)?;
        let cells = (0..width).flat_map(|row| (row..width).map(move |column| (row, column)));
        let weighted = cells.clone().map(|(row, column)| {
            let sum = moments.sums[row * (width + 1) + column];
            if row == column { sum << 16 } else { sum * ROOT_OF_TWO }
        });
        let mut noisy = Vec::with_capacity(coordinates as usize);
        lattice.release(weighted, &mut self.noise, |value| noisy.push(value))?;
        let unit = moments.units.feature * moments.units.feature;
        let mut matrix = vec![0.0; width * width];
        for ((row, column), value) in cells.zip(noisy) {
            let weight = if row == column { 65_536.0 } else { ROOT_OF_TWO as f64 };
            matrix[row * width + column] = value / weight * unit;
            matrix[column * width + row] = value / weight * unit;
        }
        Ok(matrix)
    }

    /// The noisy vector Σ x y.
    ///
    /// # Guarantee
    /// One [`Mechanism::Gaussian`] with one coordinate per feature. The standard deviation of the noise is σ times the
    /// feature norm times the label size: `proofs/moments.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or the moments are another session's.
    pub fn noisy_cross(&mut self, moments: &Moments, sigma: Sigma) -> Result<Vec<f64>, SessionError> {
        let width = moments.units.width as usize;
        let length = u128::from(SIZE) * u128::from(SIZE);
        let lattice = self.admit_gaussian(moments, sigma, length, moments.units.width)?;
        let unit = moments.units.feature * moments.units.label;
        let sums = (0..width).map(|row| moments.sums[row * (width + 1) + width]);
        let mut noisy = Vec::with_capacity(width);
        lattice.release(sums, &mut self.noise, |value| noisy.push(value * unit))?;
        Ok(noisy)
    }

    /// The noisy smallest eigenvalue of Σ x xᵀ.
    ///
    /// # Guarantee
    /// One [`Mechanism::Gaussian`] with one coordinate. The standard deviation of the noise is σ times the squared feature
    /// norm: `proofs/spectral.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or the moments are another session's.
    pub fn noisy_smallest_eigenvalue(&mut self, moments: &Moments, sigma: Sigma) -> Result<f64, SessionError> {
        // One row changes the eigenvalue by at most its squared norm; each computation has an error of at most 2^20.
        let length = u128::from(SIZE) * u128::from(SIZE) + (1 << 21) + 1;
        let lattice = self.admit_gaussian(moments, sigma, length, 1)?;
        let width = moments.units.width as usize;
        let value = if moments.within_limit() { smallest_eigenvalue(&moments.matrix(), width) } else { 0 };
        let unit = moments.units.feature * moments.units.feature;
        let mut noisy = 0.0;
        lattice.release(std::iter::once(value), &mut self.noise, |value| noisy = value * unit)?;
        Ok(noisy)
    }

    /// The noisy least sum of squared losses of a linear model whose weights have an L2 norm of at most `weight_norm`.
    ///
    /// # Guarantee
    /// ε-differentially private, one [`Mechanism::Laplace`]: `proofs/spectral.md`.
    ///
    /// # Errors
    /// When the charge does not cover it, the moments are another session's or the bound is out of range.
    pub fn least_squared_loss(
        &mut self, moments: &Moments, weight_norm: f64, epsilon: Epsilon,
    ) -> Result<BestLoss, SessionError> {
        check_clip(weight_norm)?;
        self.check_owner(moments)?;
        let width = moments.units.width as usize;
        let (feature_unit, label_unit) = (moments.units.feature, moments.units.label);
        // In grid units a weight vector v predicts v·x and the label is an integer.
        let radius = weight_norm * feature_unit / label_unit;
        let reach = radius * SIZE as f64 + SIZE as f64;
        let scale = reach * reach;
        if !(radius.is_finite() && scale.is_finite() && radius > 1e-12 && radius < 1e12) {
            return Err(SessionError::Parameter("weight norm times feature norm must be comparable to the label size"));
        }
        let gap_units = libm::ceil(GAP * SCALE as f64) as u64;
        let sensitivity = SCALE + 2 * gap_units;
        let sampler = laplace(epsilon, sensitivity)?;
        self.plan(moments.lane)?.take_laplace(epsilon)?;
        let mut noise = [0; 2];
        sampler.fill(&mut self.noise, &mut noise)?;
        let cross: Vec<i128> = (0..width).map(|row| moments.sums[row * (width + 1) + width]).collect();
        let squares = moments.sums[width * (width + 1) + width];
        let rows = moments.rows as f64;
        let loss = if moments.within_limit() {
            least_loss(&moments.matrix(), &cross, squares, width, radius, scale).clamp(0.0, rows)
        } else {
            0.0
        };
        let units = libm::floor(loss * SCALE as f64) as i128;
        let rest = i128::from(moments.rows) * i128::from(SCALE) - units;
        let in_rows = |units: i128| units as f64 / SCALE as f64;
        let moved = radius * 0.5 * libm::sqrt(width as f64) + radius + 1.5;
        let size = moments.units.size as f64;
        Ok(BestLoss {
            loss: in_rows(units + noise[0]),
            rest: in_rows(rest + noise[1]),
            bound: scale * label_unit * label_unit,
            gap: GAP + 1.0 / SCALE as f64,
            rounding: 2.0 * moved / (radius * size + size),
        })
    }

    fn check_owner(&self, moments: &Moments) -> Result<(), SessionError> {
        if moments.session == self.identity { Ok(()) } else { Err(SessionError::NotCovered) }
    }

    fn admit_gaussian(
        &mut self, moments: &Moments, sigma: Sigma, length: u128, coordinates: u32,
    ) -> Result<Lattice, SessionError> {
        self.check_owner(moments)?;
        let lattice = Lattice::new(length, sigma, u64::from(coordinates))?;
        self.plan(moments.lane)?.take_gaussian(&Mechanism::Gaussian { sigma, coordinates, count: 1 })?;
        Ok(lattice)
    }
}

impl Moments {
    /// Whether the number of rows is within the limit up to which the error of the spectral computations is proved. Beyond
    /// it the smallest eigenvalue and the least loss count as zero, which leads to the largest ridge and never rejects.
    fn within_limit(&self) -> bool {
        u128::from(self.rows) * (u128::from(self.units.width) + 4) <= u128::from(ROWS_LIMIT)
    }

    /// The matrix Σ x xᵀ.
    fn matrix(&self) -> Vec<i128> {
        let width = self.units.width as usize;
        (0..width).flat_map(|row| self.sums[row * (width + 1)..][..width].iter().copied()).collect()
    }
}
