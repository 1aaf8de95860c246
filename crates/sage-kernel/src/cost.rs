//! What a query costs: the mechanisms it is made of.
//!
//! A cost lists the mechanisms of a computation (a number of Gaussian releases, a number of sampled steps) and not only
//! the privacy loss that is claimed for it. The filter of a stream converts it to integers once, when it is charged
//! (`filter/`). The session that runs under the charge can only run what the cost lists (`plan.rs`). This module must
//! never price a mechanism below its privacy loss.

use crate::accountant;
use crate::budget::{Delta, Epsilon, Rate, Sigma};
use crate::message::display;

/// An amount above every cap, for a cost without a bound. Sums of it are exact.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

/// Units of the fixed-point grid on which scalars are summed, for the whole range of a value.
///
/// A row contributes an integer from 0 to `SCALE` to a scalar sum, so adding or removing one row changes the sum by at
/// most `SCALE`.
pub const SCALE: u64 = 1 << 20;

/// The number of Rényi orders for which a curve has a value.
pub const ORDER_COUNT: usize = accountant::ORDERS.len();

/// A Rényi curve declared by an author: one bound for each order of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The divergence at each order of [`crate::accountant::ORDERS`], or `None` where it is not bounded.
    pub orders: [Option<Epsilon>; ORDER_COUNT],
    /// The divergence at order ∞, or `None` where it is not bounded.
    pub infinite: Option<Epsilon>,
    /// The probability δ outside of which the bounds hold.
    pub delta: Delta,
}

/// A differentially private mechanism, with the parameters that determine its privacy loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Any ε-differentially private computation. It can be consumed in parts.
    Pure {
        /// The bound on the privacy loss.
        epsilon: Epsilon,
    },
    /// Releases of fixed-point sums with discrete Laplace noise.
    Laplace {
        /// The privacy loss of one release.
        epsilon: Epsilon,
        /// How many releases.
        count: u32,
    },
    /// Releases of vectors with Gaussian noise, rounded to a lattice.
    Gaussian {
        /// The noise multiplier of one release.
        sigma: Sigma,
        /// Coordinates of one release.
        coordinates: u32,
        /// How many releases.
        count: u32,
    },
    /// Steps of DP-SGD: each samples every row independently and releases a sum with Gaussian noise.
    SampledGaussian {
        /// The probability that a row is sampled in a step.
        rate: Rate,
        /// The noise multiplier of one step.
        sigma: Sigma,
        /// Coordinates of one step.
        coordinates: u32,
        /// How many steps.
        steps: u32,
    },
    /// Any ρ-zero-concentrated differentially private computation, such as a table with discrete Gaussian noise. It can
    /// be consumed in parts.
    Zcdp {
        /// The bound ρ.
        rho: Epsilon,
    },
    /// Any computation for which an author attests a Rényi curve.
    Curve(Box<Curve>),
    /// Any (ε, δ)-differentially private computation.
    BlackBox {
        /// ε.
        epsilon: Epsilon,
        /// δ.
        delta: Delta,
    },
}

impl Mechanism {
    /// Whether the kernel implements the mechanism, clipping and noise included.
    pub const fn is_enforceable(&self) -> bool {
        !matches!(self, Self::Curve(_) | Self::BlackBox { .. })
    }

    fn check(&self) -> Result<(), CostError> {
        let fine = match *self {
            Self::Pure { epsilon } => epsilon > Epsilon::ZERO,
            Self::Laplace { epsilon, count } => epsilon > Epsilon::ZERO && count > 0,
            Self::Gaussian { sigma, coordinates, count } => sigma > Sigma::ZERO && coordinates > 0 && count > 0,
            Self::SampledGaussian { rate, sigma, coordinates, steps } => {
                rate > Rate::ZERO && sigma > Sigma::ZERO && coordinates > 0 && steps > 0
            }
            Self::Zcdp { rho } => rho > Epsilon::ZERO,
            // A divergence of zero at one order means that the output does not depend on the rows at all.
            Self::Curve(ref curve) => {
                let mut bounds = curve.orders.iter().chain([&curve.infinite]);
                curve.delta > Delta::ZERO || bounds.all(|bound| *bound != Some(Epsilon::ZERO))
            }
            Self::BlackBox { epsilon, delta } => epsilon > Epsilon::ZERO || delta > Delta::ZERO,
        };
        if fine { Ok(()) } else { Err(CostError::Zero) }
    }

    /// The number of rounded Gaussian draws of the mechanism.
    pub(crate) fn draws(&self) -> u128 {
        match *self {
            Self::Gaussian { coordinates, count, .. } => u128::from(coordinates) * u128::from(count),
            Self::SampledGaussian { coordinates, steps, .. } => u128::from(coordinates) * u128::from(steps),
            _ => 0,
        }
    }
}

/// Why a list of mechanisms is not a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// The list is empty.
    Empty,
    /// More than 4096 mechanisms.
    TooMany,
    /// A parameter of a mechanism is zero, so it would be free or have an infinite cost.
    Zero,
}

display!(error CostError {
    Self::Empty => "a cost needs at least one mechanism",
    Self::TooMany => "a cost lists at most 4096 mechanisms",
    Self::Zero => "every parameter of a mechanism must be more than zero",
});

/// The largest number of mechanisms in a cost.
const PARTS_LIMIT: usize = 4096;

/// The cost of one query on one lane: the composition of its mechanisms.
///
/// # Guarantee
/// It contains at least one mechanism, and every mechanism has a positive privacy loss and valid parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    parts: Vec<Mechanism>,
    delta: Delta,
}

impl Cost {
    /// The composition of the mechanisms.
    ///
    /// # Errors
    /// When the list is empty or too long, or a parameter is zero.
    pub fn new(parts: Vec<Mechanism>) -> Result<Self, CostError> {
        Self::at_delta(parts, Delta::ZERO)
    }

    /// The composition of the mechanisms, with the δ at which a filter that counts (ε, δ) states mechanisms that have
    /// no ε without a δ.
    ///
    /// # Errors
    /// As [`Cost::new`].
    pub fn at_delta(parts: Vec<Mechanism>, delta: Delta) -> Result<Self, CostError> {
        if parts.is_empty() {
            return Err(CostError::Empty);
        }
        if parts.len() > PARTS_LIMIT {
            return Err(CostError::TooMany);
        }
        parts.iter().try_for_each(Mechanism::check)?;
        Ok(Self { parts, delta })
    }

    /// The cost of one ε-differentially private computation.
    ///
    /// # Errors
    /// When ε is zero.
    pub fn pure(epsilon: Epsilon) -> Result<Self, CostError> {
        Self::new(vec![Mechanism::Pure { epsilon }])
    }

    /// The mechanisms.
    pub fn parts(&self) -> &[Mechanism] {
        &self.parts
    }

    /// The δ at which (ε, δ) filters state mechanisms that need one.
    pub const fn delta(&self) -> Delta {
        self.delta
    }

    /// Whether the kernel implements all mechanisms.
    pub fn is_enforceable(&self) -> bool {
        self.parts.iter().all(Mechanism::is_enforceable)
    }
}

/// A cost under one filter: one integer for each component of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amounts(pub(crate) Vec<u64>);

impl Amounts {
    /// The integers, in units of 10⁻¹² (losses) and 10⁻¹⁸ (probabilities).
    pub fn units(&self) -> &[u64] {
        &self.0
    }
}
