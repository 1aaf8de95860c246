//! What a query costs: the mechanisms it is made of.
//!
//! A cost says what a computation *is* (so many Gaussian releases, so many sampled steps), not only
//! what it claims. The filter of a stream turns it into integers once, when it is charged
//! (`filter/`); the session that runs under the charge may only do what the cost lists (`plan.rs`).
//! This module must never price anything below what its mechanisms lose.

use crate::accountant;
use crate::budget::{Delta, Epsilon, Rate, Sigma};
use crate::message::says;

/// A stand-in for "more than any ceiling": no cap reaches it, and sums of it are exact.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

/// Whole units in one step of the fixed-point grid that scalars are summed on.
///
/// A row's share of a scalar sum is a whole number from 0 to this, so one row more or less moves the
/// sum by at most this many units.
pub const SCALE: u64 = 1 << 20;

/// The number of Rényi orders a curve has a value for.
pub const ORDER_COUNT: usize = accountant::ORDERS.len();

/// A Rényi curve as its author declares it: one value for each order of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The divergence at each order of [`crate::accountant::ORDERS`], or nothing where it has no bound.
    pub orders: [Option<Epsilon>; ORDER_COUNT],
    /// The bound at order ∞, where there is one.
    pub infinite: Option<Epsilon>,
    /// The probability mass set aside.
    pub delta: Delta,
}

/// One kind of private computation, with what its loss depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Anything that is ε-differentially private. May be used up in pieces.
    Pure {
        /// The bound on the loss.
        epsilon: Epsilon,
    },
    /// Releases of fixed-point sums with discrete Laplace noise.
    Laplace {
        /// The loss of one release.
        epsilon: Epsilon,
        /// How many releases.
        count: u32,
    },
    /// Releases of vectors with Gaussian noise, rounded to a lattice.
    Gaussian {
        /// Noise over sensitivity, of one release.
        sigma: Sigma,
        /// Numbers in one release.
        coordinates: u32,
        /// How many releases.
        count: u32,
    },
    /// Steps that each take every row with a chance and release a sum with Gaussian noise.
    SampledGaussian {
        /// The chance of a row to be in a step.
        rate: Rate,
        /// Noise over sensitivity, of one step.
        sigma: Sigma,
        /// Numbers in one step.
        coordinates: u32,
        /// How many steps.
        steps: u32,
    },
    /// Anything that is ρ-zero-concentrated differentially private, such as tables with discrete Gaussian
    /// noise. May be used up in pieces.
    Zcdp {
        /// The bound.
        rho: Epsilon,
    },
    /// Anything whose author vouches for a Rényi curve.
    Curve(Box<Curve>),
    /// Anything that is (ε, δ)-differentially private.
    BlackBox {
        /// The bound on the loss.
        epsilon: Epsilon,
        /// The probability with which the bound may fail.
        delta: Delta,
    },
}

impl Mechanism {
    /// Whether the kernel itself can run it, clipping and noise included.
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
            // No divergence at one order is none at all: such a mechanism looks at nothing.
            Self::Curve(ref curve) => {
                let mut bounds = curve.orders.iter().chain([&curve.infinite]);
                curve.delta > Delta::ZERO || bounds.all(|bound| *bound != Some(Epsilon::ZERO))
            }
            Self::BlackBox { epsilon, delta } => epsilon > Epsilon::ZERO || delta > Delta::ZERO,
        };
        if fine { Ok(()) } else { Err(CostError::Zero) }
    }

    /// Draws of approximate Gaussian noise the mechanism makes.
    pub(crate) fn draws(&self) -> u128 {
        match *self {
            Self::Gaussian { coordinates, count, .. } => u128::from(coordinates) * u128::from(count),
            Self::SampledGaussian { coordinates, steps, .. } => u128::from(coordinates) * u128::from(steps),
            _ => 0,
        }
    }
}

/// Why a list of mechanisms is no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// No mechanism is named.
    Empty,
    /// More mechanisms than a cost may list.
    TooMany,
    /// A mechanism with no loss, no noise or no release: nothing is free, and nothing is infinite.
    Zero,
}

says!(error CostError {
    Self::Empty => "a cost needs at least one mechanism",
    Self::TooMany => "a cost lists at most 4096 mechanisms",
    Self::Zero => "every number of a mechanism must be more than zero",
});

/// The most mechanisms one cost may list.
const PARTS_LIMIT: usize = 4096;

/// What one query costs on one lane: its mechanisms, composed.
///
/// # Guarantee
/// At least one mechanism, each with a loss above zero and every parameter in range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    parts: Vec<Mechanism>,
    delta: Delta,
}

impl Cost {
    /// The composition of the mechanisms.
    ///
    /// # Errors
    /// When there is none, there are too many, or one has a parameter of zero.
    pub fn new(parts: Vec<Mechanism>) -> Result<Self, CostError> {
        Self::at_delta(parts, Delta::ZERO)
    }

    /// The composition of the mechanisms, to be stated at this δ where the stream's filter knows only
    /// (ε, δ) and a mechanism has no ε without a δ.
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

    /// The δ at which (ε, δ) filters state the mechanisms that need one.
    pub const fn delta(&self) -> Delta {
        self.delta
    }

    /// Whether the kernel can run all of it.
    pub fn is_enforceable(&self) -> bool {
        self.parts.iter().all(Mechanism::is_enforceable)
    }
}

/// The integers a cost comes to under one filter, one for each of its components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amounts(pub(crate) Vec<u64>);

impl Amounts {
    /// The numbers, in units of 10⁻¹² (losses) and 10⁻¹⁸ (probabilities).
    pub fn units(&self) -> &[u64] {
        &self.0
    }
}
