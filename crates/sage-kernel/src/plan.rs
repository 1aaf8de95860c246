//! The mechanisms of a charge that a session has not used yet.
//!
//! A mechanism with a smaller privacy loss than a listed one (more noise, a smaller sampling rate, fewer coordinates) can
//! consume the listed one. A plan must never admit more than was charged.

use crate::budget::Epsilon;
use crate::cost::{Cost, Mechanism};
use crate::session::SessionError;

/// The mechanisms of a cost that are not consumed yet.
pub(crate) struct Plan(Vec<Mechanism>);

impl Plan {
    pub(crate) fn new(cost: Cost) -> Self {
        Self(cost.parts().to_vec())
    }

    /// Consumes the first mechanism for which `consume` returns true.
    fn take(&mut self, consume: impl FnMut(&mut Mechanism) -> bool) -> Result<(), SessionError> {
        if self.0.iter_mut().any(consume) { Ok(()) } else { Err(SessionError::NotCovered) }
    }

    /// Consumes one release with discrete Laplace noise at this ε: a listed one, or a part of a listed pure loss.
    pub(crate) fn take_laplace(&mut self, requested: Epsilon) -> Result<(), SessionError> {
        self.take(|part| match part {
            Mechanism::Laplace { epsilon, count } => *epsilon >= requested && take_one(count),
            Mechanism::Pure { epsilon } => take_part(epsilon, requested),
            _ => false,
        })
    }

    /// Consumes a release with discrete Gaussian noise at this ρ: a part of a listed zCDP loss.
    pub(crate) fn take_zcdp(&mut self, requested: Epsilon) -> Result<(), SessionError> {
        self.take(|part| if let Mechanism::Zcdp { rho } = part { take_part(rho, requested) } else { false })
    }

    /// Consumes one listed Gaussian release whose cost is at least that of the requested one.
    pub(crate) fn take_gaussian(&mut self, requested: &Mechanism) -> Result<(), SessionError> {
        self.take(|part| match (part, requested) {
            (
                Mechanism::Gaussian { sigma, coordinates, count },
                Mechanism::Gaussian { sigma: needed_sigma, coordinates: needed, .. },
            ) => *sigma <= *needed_sigma && *coordinates >= *needed && take_one(count),
            (
                Mechanism::SampledGaussian { rate, sigma, coordinates, steps },
                Mechanism::SampledGaussian { rate: needed_rate, sigma: needed_sigma, coordinates: needed, .. },
            ) => *rate >= *needed_rate && *sigma <= *needed_sigma && *coordinates >= *needed && take_one(steps),
            _ => false,
        })
    }
}

fn take_one(left: &mut u32) -> bool {
    left.checked_sub(1).map(|rest| *left = rest).is_some()
}

fn take_part(left: &mut Epsilon, requested: Epsilon) -> bool {
    let rest = left.units().checked_sub(requested.units()).and_then(Epsilon::from_units);
    rest.map(|rest| *left = rest).is_some()
}
