//! The privacy-loss-distribution accountant: the epsilon of a composition
//! fixed beforehand, certified from above.
//!
//! Each mechanism is replaced by a dominating one on a common lattice of
//! losses (`discretise`); the lattice laws are convolved by a tilted Fourier
//! transform whose every error is bounded and charged (`sage_exact::Composed`); `plan`
//! chooses step, window and tilt and can only cost accuracy, never validity.
//! This module must never serve an adaptive filter: it accounts for parameters
//! declared before any data were read (`proofs/pld.md`).

mod discretise;
mod plan;
#[cfg(test)]
mod tests;

use libm::{expm1, log1p, sqrt};
use sage_exact::{Composed, Planner};

use super::convert::epsilon_from_curve;
use super::curve::{self, ORDERS};
use super::gaussian::gaussian_epsilon;
use super::parameter::{AccountantError, Certified, not_negative, positive, probability, rate};
use super::sampled::sampled_gaussian_curve;
use discretise::{Normal, discretise};
use plan::{Plan, step_for};

/// The privacy loss of one mechanism under add/remove.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// Gaussian noise of `sensitivity / deviation = mu`.
    Gaussian {
        /// Sensitivity over standard deviation.
        mu: f64,
    },
    /// Discrete Laplace noise of scale `units / epsilon`.
    DiscreteLaplace {
        /// The pure epsilon.
        epsilon: f64,
        /// The integer sensitivity.
        units: u64,
    },
    /// Any mechanism known only to be `(epsilon, delta)`-DP.
    BlackBox {
        /// Its epsilon.
        epsilon: f64,
        /// Its delta; may be zero.
        delta: f64,
    },
    /// One Poisson-sampled Gaussian step.
    SampledGaussian {
        /// The sampling rate.
        q: f64,
        /// Noise in sensitivities.
        sigma: f64,
    },
}

/// A mechanism as the lattice knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Normal(Normal),
    /// Discrete Laplace noise that fails outright with chance `delta`; on one
    /// unit it is randomised response.
    Laplace {
        epsilon: f64,
        units: u64,
        delta: f64,
    },
}

impl Part {
    fn new(loss: Loss) -> Certified<Self> {
        Ok(match loss {
            Loss::Gaussian { mu } => {
                positive(mu, "mu")?;
                Self::Normal(Normal { q: 1.0, sigma: 1.0 / mu })
            }
            Loss::SampledGaussian { q, sigma } => {
                rate(q, "sampling rate")?;
                positive(sigma, "sigma")?;
                Self::Normal(Normal { q, sigma })
            }
            Loss::DiscreteLaplace { epsilon, units } => {
                positive(epsilon, "epsilon")?;
                positive(units as f64, "units")?;
                // Randomised response stands for every pure mechanism.
                let units = if (epsilon / units as f64).is_normal() { units } else { 1 };
                Self::Laplace { epsilon, units, delta: 0.0 }
            }
            Loss::BlackBox { epsilon, delta } => {
                not_negative(epsilon, "epsilon")?;
                if delta != 0.0 {
                    probability(delta, "delta")?;
                }
                Self::Laplace { epsilon: epsilon.max(f64::MIN_POSITIVE), units: 1, delta }
            }
        })
    }

    fn curve(self) -> Certified<Vec<f64>> {
        match self {
            Self::Normal(Normal { q, sigma }) => sampled_gaussian_curve(&ORDERS, q, sigma),
            Self::Laplace { epsilon, units, .. } => {
                ORDERS.iter().map(|&order| curve::discrete_laplace(order, epsilon, units)).collect()
            }
        }
    }
}

/// The most uses of mechanisms one composition may hold.
const MOST_USES: u64 = 1 << 40;

/// A set of mechanisms, each with how often it is used, fixed beforehand.
#[derive(Debug, Clone)]
pub struct Composition {
    /// Gaussians are one item together, the last.
    items: Vec<(Part, u64)>,
    /// The error of epsilon that is aimed at, in parts of the usual one.
    aim: f64,
}

impl Composition {
    /// A composition of the given mechanisms and counts.
    ///
    /// # Guarantee
    /// Every parameter is in range and at most 2^40 uses are declared; order
    /// does not matter; Gaussians are merged exactly.
    pub fn new(declared: &[(Loss, u64)]) -> Certified<Self> {
        let mut items: Vec<(Part, u64)> = Vec::new();
        let (mut mu_square, mut uses) = (0.0, 0_u64);
        for &(loss, count) in declared {
            let part = Part::new(loss)?;
            uses = uses.saturating_add(count);
            match part {
                _ if count == 0 => {}
                Part::Normal(Normal { q: 0.0, .. }) => {}
                Part::Normal(Normal { q: 1.0, sigma }) => {
                    mu_square += (count as f64 / sigma / sigma).max(f64::MIN_POSITIVE) + 5e-16 * mu_square;
                }
                _ => match items.iter_mut().find(|(known, _)| *known == part) {
                    Some((_, known)) => *known = known.saturating_add(count),
                    None => items.push((part, count)),
                },
            }
        }
        let sigma = 1.0 / sqrt(mu_square) * (1.0 - 1e-13);
        if uses > MOST_USES || sigma == 0.0 {
            return Err(AccountantError::Parameter("composition"));
        }
        if sigma.is_finite() {
            items.push((Part::Normal(Normal { q: 1.0, sigma }), 1));
        }
        Ok(Self { items, aim: 1.0 })
    }

    /// The same, with an error of epsilon about fourteen times smaller where the lattice allows.
    ///
    /// For a number that is kept. Who searches for one looks roughly first.
    pub fn finely(self) -> Self {
        Self { aim: 0.07, ..self }
    }

    /// The smallest certified epsilon at `delta`.
    ///
    /// # Guarantee
    /// The composition is `(epsilon, delta)`-DP in both directions. A `delta`
    /// of zero is answered where every mechanism is pure.
    pub fn epsilon(&self, delta: f64) -> Certified<f64> {
        if delta != 0.0 {
            probability(delta, "delta")?;
        }
        let found = match *self.items {
            [] => 0.0,
            [(Part::Normal(Normal { q: 1.0, sigma }), 1)] => gaussian_epsilon(1.0 / sigma * (1.0 + 1e-15), delta)?,
            _ => {
                let lattice = self.lattice_epsilon(delta).unwrap_or(f64::INFINITY);
                lattice.min(self.renyi_epsilon(delta).unwrap_or(f64::INFINITY)).min(self.basic_epsilon(delta))
            }
        };
        if found.is_finite() { Ok(found) } else { Err(AccountantError::Unbounded) }
    }

    /// The epsilon by composition on a lattice, refined while that pays.
    fn lattice_epsilon(&self, delta: f64) -> Certified<f64> {
        let mut plan = Plan::new(&self.items, self.aim, delta, None)?;
        let mut best = self.on_lattice(&plan, delta)?;
        for _ in 0..2 {
            let (far, wanted) = (plan.epsilon > 3.0 * best.0, step_for(&self.items, self.aim, best));
            if !far && wanted > 0.4 * plan.step {
                break;
            }
            // A pass that fails leaves what an earlier one has found.
            let Ok(finer) = Plan::new(&self.items, self.aim, delta, Some(best)) else { break };
            if !far && finer.step > 0.9 * plan.step {
                break;
            }
            let Ok(found) = self.on_lattice(&finer, delta) else { break };
            plan = finer;
            if found.0 < best.0 {
                best = found;
            }
        }
        Ok(best.0)
    }

    /// Composes on the plan's lattice, first as a record is removed and then,
    /// if that differs, as one is added: the larger epsilon, and how fast the
    /// log of delta falls there.
    fn on_lattice(&self, plan: &Plan, delta: f64) -> Certified<(f64, f64)> {
        let mut parts = Vec::with_capacity(self.items.len());
        for &(part, count) in &self.items {
            parts.push((discretise(part, plan.step, plan.tail)?, count));
        }
        let mut planner = Planner::new();
        let mut compose = |parts: &[_], side| {
            let composed = Composed::new(parts, plan.length, side, &mut planner);
            composed.and_then(|composed| composed.epsilon(delta)).ok_or(AccountantError::Unbounded)
        };
        let remove = compose(&parts, &plan.remove)?;
        if self.items.iter().all(|(part, _)| !matches!(part, Part::Normal(Normal { q, .. }) if *q < 1.0)) {
            return Ok(remove);
        }
        parts.iter_mut().for_each(|(lattice, _)| *lattice = lattice.reversed());
        let add = compose(&parts, &plan.add)?;
        Ok(if add.0 > remove.0 { add } else { remove })
    }

    /// The chance that a black box fails outright.
    fn certain_delta(&self) -> f64 {
        let log_none = |&(part, count): &(Part, u64)| match part {
            Part::Laplace { delta, .. } => count as f64 * log1p(-delta),
            Part::Normal(_) => 0.0,
        };
        -expm1(self.items.iter().map(log_none).sum()) * (1.0 + 1e-12)
    }

    /// Basic composition; infinity if a mechanism is Gaussian.
    fn basic_epsilon(&self, delta: f64) -> f64 {
        let own = |&(part, count): &(Part, u64)| match part {
            Part::Laplace { epsilon, .. } => epsilon * count as f64 * (1.0 + 5e-16 * self.items.len() as f64),
            Part::Normal(_) => f64::INFINITY,
        };
        if self.certain_delta() > delta { f64::INFINITY } else { self.items.iter().map(own).sum() }
    }

    /// Renyi accounting, for compositions too wide for a lattice.
    fn renyi_epsilon(&self, delta: f64) -> Certified<f64> {
        let mut total = [0.0; ORDERS.len()];
        for (part, count) in &self.items {
            for (sum, cost) in total.iter_mut().zip(part.curve()?) {
                *sum += cost * *count as f64 * (1.0 + 4.0 * f64::EPSILON);
            }
        }
        epsilon_from_curve(&ORDERS, &total, delta - self.certain_delta())
    }
}
