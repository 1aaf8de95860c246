//! What a session may still do: the mechanisms its cost listed, used up one by one.
//!
//! A mechanism that asks for less than a listed one (more noise, a smaller chance, fewer numbers) may
//! use the listed one up, since it loses no more. It must never give more than was charged.

use crate::budget::Epsilon;
use crate::cost::{Cost, Mechanism};
use crate::session::SessionError;

/// The mechanisms of a cost that are still to be used.
pub(crate) struct Plan(Vec<Mechanism>);

impl Plan {
    pub(crate) fn new(cost: Cost) -> Self {
        Self(cost.parts().to_vec())
    }

    /// Uses up the first mechanism that `used` can take from.
    fn take(&mut self, used: impl FnMut(&mut Mechanism) -> bool) -> Result<(), SessionError> {
        if self.0.iter_mut().any(used) { Ok(()) } else { Err(SessionError::NotCovered) }
    }

    /// Uses up one release with discrete Laplace noise at this loss: a listed one, or a piece of a
    /// listed pure loss.
    pub(crate) fn take_laplace(&mut self, asked: Epsilon) -> Result<(), SessionError> {
        self.take(|part| match part {
            Mechanism::Laplace { epsilon, count } => *epsilon >= asked && take_one(count),
            Mechanism::Pure { epsilon } => take_piece(epsilon, asked),
            _ => false,
        })
    }

    /// Uses up a release with discrete Gaussian noise: a piece of a listed concentrated loss.
    pub(crate) fn take_zcdp(&mut self, asked: Epsilon) -> Result<(), SessionError> {
        self.take(|part| if let Mechanism::Zcdp { rho } = part { take_piece(rho, asked) } else { false })
    }

    /// Uses up one Gaussian release that is at least as costly as the one asked for.
    pub(crate) fn take_gaussian(&mut self, asked: &Mechanism) -> Result<(), SessionError> {
        self.take(|part| match (part, asked) {
            (
                Mechanism::Gaussian { sigma, coordinates, count },
                Mechanism::Gaussian { sigma: asked, coordinates: wanted, .. },
            ) => *sigma <= *asked && *coordinates >= *wanted && take_one(count),
            (
                Mechanism::SampledGaussian { rate, sigma, coordinates, steps },
                Mechanism::SampledGaussian { rate: often, sigma: asked, coordinates: wanted, .. },
            ) => *rate >= *often && *sigma <= *asked && *coordinates >= *wanted && take_one(steps),
            _ => false,
        })
    }
}

fn take_one(left: &mut u32) -> bool {
    left.checked_sub(1).map(|rest| *left = rest).is_some()
}

fn take_piece(left: &mut Epsilon, asked: Epsilon) -> bool {
    let rest = left.units().checked_sub(asked.units()).and_then(Epsilon::from_units);
    rest.map(|rest| *left = rest).is_some()
}
