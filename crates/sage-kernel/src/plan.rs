//! What a session may still do: the mechanisms its cost listed, used up one by one.
//!
//! A mechanism that asks for less than a listed one (more noise, a smaller chance, fewer numbers) may
//! use the listed one up, since it loses no more. It must never give more than was charged.

use crate::budget::Epsilon;
use crate::cost::{Cost, Mechanism};
use crate::session::SessionError::{self, NotCovered};

/// The mechanisms of a cost that are still to be used.
pub(crate) struct Plan(Vec<Mechanism>);

impl Plan {
    pub(crate) fn new(cost: Cost) -> Self {
        Self(cost.parts().to_vec())
    }

    /// Uses up one release with discrete Laplace noise at this loss: a listed one, or a piece of a
    /// listed pure loss.
    pub(crate) fn take_laplace(&mut self, asked: Epsilon) -> Result<(), SessionError> {
        for part in &mut self.0 {
            match part {
                Mechanism::Laplace { epsilon, count } if *epsilon >= asked && *count > 0 => {
                    *count -= 1;
                    return Ok(());
                }
                Mechanism::Pure { epsilon } if *epsilon >= asked => {
                    let left = epsilon.units() - asked.units();
                    *epsilon = Epsilon::from_units(left).ok_or(NotCovered)?;
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(NotCovered)
    }

    /// Uses up a release with discrete Gaussian noise: a piece of a listed concentrated loss.
    pub(crate) fn take_zcdp(&mut self, asked: Epsilon) -> Result<(), SessionError> {
        for part in &mut self.0 {
            if let Mechanism::Zcdp { rho } = part
                && let Some(left) = rho.units().checked_sub(asked.units())
            {
                *rho = Epsilon::from_units(left).ok_or(NotCovered)?;
                return Ok(());
            }
        }
        Err(NotCovered)
    }

    /// Uses up one Gaussian release that is at least as costly as the one asked for.
    pub(crate) fn take_gaussian(&mut self, asked: &Mechanism) -> Result<(), SessionError> {
        for part in &mut self.0 {
            let left = match (part, asked) {
                (
                    Mechanism::Gaussian { sigma, coordinates, count },
                    Mechanism::Gaussian { sigma: asked, coordinates: wanted, .. },
                ) if *sigma <= *asked && *coordinates >= *wanted => count,
                (
                    Mechanism::SampledGaussian { rate, sigma, coordinates, steps },
                    Mechanism::SampledGaussian { rate: often, sigma: asked, coordinates: wanted, .. },
                ) if *rate >= *often && *sigma <= *asked && *coordinates >= *wanted => steps,
                _ => continue,
            };
            if *left > 0 {
                *left -= 1;
                return Ok(());
            }
        }
        Err(NotCovered)
    }
}
