//! Adaptive sufficient-statistics perturbation (Wang 2018), with jointly calibrated releases.
//!
//! Three Gaussian releases with one noise multiplier: the smallest eigenvalue of the features' moment matrix,
//! the matrix, and the vector of its products with the label. The eigenvalue determines how much ridge the
//! noise still needs. As published, each release gets a third of ε and δ; calibrated together they are one Gaussian
//! release with √3 times the noise, which is more than a third less.

use sage_kernel::accountant::{AccountantError, Certified};
use sage_kernel::noise::NoiseSource;
use sage_kernel::{
    BlockPart, Contribution, Lane, Mechanism, MomentBounds, Moments, OneHotBounds, Permit, Rows, Session, SessionError,
    Sigma, Summary, SummaryTag,
};

use super::model::LinearModel;
use super::solve::solve_bounded;
use crate::encode::{Encoded, Example, Layout};
use crate::plan::gaussian_mu;

/// The probability that the noise of the matrix exceeds the bound that the ridge is chosen for.
const FAILURE: f64 = 0.1;
/// The probability that the noisy eigenvalue, less its margin, is above the true one.
const EIGENVALUE_FAILURE: f64 = 0.05;

/// How the ridge is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ridge {
    /// By a noisy eigenvalue: three releases. The exact eigenvalue takes cubic time in the width.
    Adaptive,
    /// By the noise alone: two releases, each with less noise for the same cost.
    Fixed,
}

impl Ridge {
    /// The number of Gaussian releases.
    pub const fn releases(self) -> u32 {
        match self {
            Self::Adaptive => 3,
            Self::Fixed => 2,
        }
    }
}

/// Why a model could not be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinearError {
    /// The session refused a release.
    Session(SessionError),
    /// The label's bounds or the feature norm are not finite, or not in order.
    Bounds,
    /// The released numbers are so large that the solution overflows.
    Unsolvable,
}

impl From<SessionError> for LinearError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl std::fmt::Display for LinearError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(error) => error.fmt(out),
            Self::Bounds => out.write_str("a label's bounds and a feature norm are finite, the lower bound first"),
            Self::Unsolvable => out.write_str("the noisy moments are too large to be solved in floats"),
        }
    }
}

impl std::error::Error for LinearError {}

/// The noise multiplier with which `releases` Gaussian releases are together (ε, δ)-differentially private,
/// rounded up.
///
/// # Errors
/// When ε or δ is out of its range, or no noise multiplier is large enough.
pub fn sigma_for(epsilon: f64, delta: f64, releases: u32) -> Certified<Sigma> {
    let exact = libm::sqrt(f64::from(releases)) / gaussian_mu(epsilon, delta)? * (1.0 + 4.0 * f64::EPSILON);
    let units = libm::ceil(exact * 1e9);
    // Beyond 2^53 an `f64` cannot represent every unit.
    let exact_units = units > 0.0 && units < 9_007_199_254_740_992.0;
    let sigma = if exact_units { Sigma::from_units(units as u64) } else { None };
    sigma.ok_or(AccountantError::Unbounded)
}

/// The ridge that covers the noise of a matrix over `width` features, in squared feature norms.
pub fn ridge_target(sigma: f64, width: f64) -> f64 {
    sigma * libm::sqrt(width * libm::log(2.0 * width * width / FAILURE))
}

/// A plan to fit a linear model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaSsp {
    layout: Layout,
    label: (f64, f64),
    feature_norm: f64,
    sigma: Sigma,
    ridge: Ridge,
    /// The largest norm of the weights, for unscaled features and labels from −1 to 1.
    weight_norm: f64,
    contribution: Contribution,
}

impl AdaSsp {
    /// For rows of this layout, whose labels lie between these bounds and whose numbers lie in [−1, 1]; every
    /// release has this noise multiplier.
    ///
    /// # Errors
    /// When the bounds are not finite or not in order.
    pub fn new(layout: Layout, label: (f64, f64), sigma: Sigma, ridge: Ridge) -> Result<Self, LinearError> {
        let feature_norm = libm::sqrt(f64::from(layout.numbers) + f64::from(layout.active) + 1.0);
        let half = 0.5 * (label.1 - label.0);
        let fine = label.0.is_finite() && half.is_finite() && half > 0.0;
        let (weight_norm, contribution) = (f64::INFINITY, Contribution::ONE);
        if fine {
            Ok(Self { layout, label, feature_norm, sigma, ridge, weight_norm, contribution })
        } else {
            Err(LinearError::Bounds)
        }
    }

    /// Clips rows to this norm, the constant feature included. A smaller norm means less noise and more
    /// clipping. Rows of one-hot indices alone are never clipped.
    ///
    /// # Errors
    /// When the norm is not finite and above zero.
    pub fn with_feature_norm(self, feature_norm: f64) -> Result<Self, LinearError> {
        let fine = feature_norm.is_finite() && feature_norm > 0.0;
        if fine { Ok(Self { feature_norm, ..self }) } else { Err(LinearError::Bounds) }
    }

    /// Bounds the norm of the weights, including the bias, for unscaled features and labels rescaled to [−1, 1]: the
    /// class that [`LeastLossCheck`](crate::validate::LeastLossCheck) tests. The ridge is raised until the bound holds.
    ///
    /// # Errors
    /// When the norm is not above zero.
    pub fn with_weight_norm(self, weight_norm: f64) -> Result<Self, LinearError> {
        if weight_norm > 0.0 { Ok(Self { weight_norm, ..self }) } else { Err(LinearError::Bounds) }
    }

    /// The number of features: the inputs and the constant one.
    pub const fn width(&self) -> u32 {
        self.layout.inputs() + 1
    }

    /// Counts so many records of a privacy unit: each unit is the mean of them.
    #[must_use]
    pub fn with_contribution(self, contribution: Contribution) -> Self {
        Self { contribution, ..self }
    }

    /// What a lane is charged for one fit.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        let width = self.width();
        let triangle = u32::try_from(u64::from(width) * (u64::from(width) + 1) / 2).unwrap_or(u32::MAX);
        let release = |coordinates| Mechanism::Gaussian { sigma: self.sigma, coordinates, count: 1 };
        // The smallest first: a release consumes the first one that is large enough.
        match self.ridge {
            Ridge::Adaptive => vec![release(1), release(width), release(triangle)],
            Ridge::Fixed => vec![release(width), release(triangle)],
        }
    }

    /// Fits a model to the rows of a lane.
    ///
    /// # Errors
    /// When the charge does not cover it, or there are more features than moments take.
    pub fn train<N: NoiseSource>(
        &self, session: &mut Session<Encoded, N>, lane: Lane,
    ) -> Result<LinearModel, LinearError> {
        let label = self.signed_label();
        let moments = match self.one_hot_bounds() {
            Some(bounds) => session.one_hot_moments(lane, self.contribution.per_unit(bounds), |row, indices| {
                copy_indices(&row, indices);
                label(row.label)
            })?,
            None => session.moments(lane, self.contribution.per_unit(self.moment_bounds()), |row, features| {
                row.fill_features(features);
                label(row.label)
            })?,
        };
        self.fit(session, &moments)
    }

    /// Summarises the rows of a block, to replace them in a session; `None` if the sums overflow.
    ///
    /// # Errors
    /// When the permit does not cover the block or there are more features than moments take.
    pub fn summarise(
        &self, permit: &Permit, (part, tag): (BlockPart, SummaryTag), rows: &[Encoded],
    ) -> Result<Option<Summary>, SessionError> {
        let label = self.signed_label();
        match self.one_hot_bounds() {
            Some(bounds) => {
                permit.summarise_one_hot(part, tag, self.contribution.per_unit(bounds), rows, |row, indices| {
                    copy_indices(&row, indices);
                    label(row.label)
                })
            }
            None => permit.summarise_moments(
                part,
                tag,
                self.contribution.per_unit(self.moment_bounds()),
                rows,
                |row, features| {
                    row.fill_features(features);
                    label(row.label)
                },
            ),
        }
    }

    /// Fits a model to moments of this plan's shape.
    ///
    /// # Errors
    /// As [`AdaSsp::train`].
    pub fn fit<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, moments: &Moments,
    ) -> Result<LinearModel, LinearError> {
        let square = self.square();
        let deviation = self.sigma.units() as f64 / 1e9 * square;
        let target = ridge_target(self.sigma.units() as f64 / 1e9, f64::from(self.width())) * square;
        let ridge = match self.ridge {
            Ridge::Fixed => target,
            Ridge::Adaptive => {
                let noisy = session.noisy_smallest_eigenvalue(moments, self.sigma)?;
                let margin = deviation * libm::sqrt(-2.0 * libm::log(EIGENVALUE_FAILURE));
                (target - (noisy - margin).max(0.0)).max(0.0)
            }
        };
        let matrix = session.noisy_matrix(moments, self.sigma)?;
        let cross = session.noisy_cross(moments, self.sigma)?;
        let solved = solve_bounded(&matrix, &cross, ridge, deviation, self.weight_norm);
        let (mut weights, ridge) = solved.ok_or(LinearError::Unsolvable)?;
        let (centre, half) = self.centre();
        weights.iter_mut().for_each(|weight| *weight *= half);
        let bias = weights.pop().unwrap_or(0.0) + centre;
        Ok(LinearModel { weights, bias, label: self.label, ridge: ridge / square })
    }

    /// The bounds of the moments if rows are one-hot indices alone.
    pub fn one_hot_bounds(&self) -> Option<OneHotBounds> {
        let Layout { numbers, active, columns } = self.layout;
        (numbers == 0).then_some(OneHotBounds { active, columns, label_size: 1.0 })
    }

    /// The bounds of the moments if rows have numbers.
    pub const fn moment_bounds(&self) -> MomentBounds {
        MomentBounds { width: self.width(), feature_norm: self.feature_norm, label_size: 1.0 }
    }

    /// The function that rescales a row's label to [−1, 1].
    pub fn signed_label(&self) -> impl Fn(f32) -> f64 {
        let (centre, half) = self.centre();
        let scale = 1.0 / half;
        move |label| (f64::from(label) - centre) * scale
    }

    fn centre(&self) -> (f64, f64) {
        let half = 0.5 * (self.label.1 - self.label.0);
        (self.label.0 + half, half)
    }

    /// The squared feature norm.
    fn square(&self) -> f64 {
        match self.one_hot_bounds() {
            Some(bounds) => f64::from(bounds.active) + 1.0,
            None => self.feature_norm * self.feature_norm,
        }
    }
}

/// Copies the one-hot indices of a row. Inlined, since it runs for every row.
#[inline(always)]
fn copy_indices(row: &Example<'_>, indices: &mut [u32]) {
    indices.iter_mut().zip(row.indices).for_each(|(target, &index)| *target = index);
}
