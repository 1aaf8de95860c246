//! The privacy-loss-distribution accountant: a certified upper bound on the epsilon
//! of a composition that is fixed in advance.
//!
//! Each mechanism is replaced by a dominating one on a common lattice of
//! losses (`discretise`). The lattice distributions are convolved by a tilted Fourier
//! transform whose errors are all bounded and charged (`sage_numerics::Convolution`). Step,
//! window and tilt (`sage_numerics::LatticeChoice`) affect accuracy but never validity.
//! This module must never serve an adaptive filter: it accounts for parameters
//! that were declared before any data were read (`proofs/pld.md`).

mod discretise;
#[cfg(test)]
mod tests;

use libm::{exp, expm1, log, log1p, sqrt};
use sage_numerics::{Convolution, FftPlanner, GUESS, LatticeChoice, LossSketch, step_for};

use super::convert::epsilon_from_curve;
use super::curve::{self, ORDERS};
use super::gaussian::gaussian_epsilon;
use super::parameter::{AccountantError, Certified, not_negative, positive, probability, rate};
use super::sampled::sampled_gaussian_curve;
use discretise::{Normal, discretise};

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

/// A mechanism in the form that is discretised.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Normal(Normal),
    /// Discrete Laplace noise that reveals everything with probability `delta`; for
    /// one unit it is randomised response.
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
                // Randomised response dominates every pure mechanism.
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

    /// A sketch of its loss for the choice of a lattice, with Gaussian tails cut at this mass.
    fn sketch(self, tail: f64) -> LossSketch {
        match self {
            Self::Laplace { epsilon, .. } => {
                LossSketch { points: vec![(1.0, epsilon), (exp(-epsilon), -epsilon)], pure: Some(epsilon) }
            }
            Self::Normal(normal) => {
                let (low, high) = normal.range(tail);
                let node = |index: u32| {
                    let z = low + (high - low) * f64::from(index) / 128.0;
                    let loss = normal.loss(z);
                    (exp(loss - 0.5 * (z / normal.sigma) * (z / normal.sigma)), loss)
                };
                LossSketch { points: (0..=128).map(node).collect(), pure: None }
            }
        }
    }
}

/// The most uses of mechanisms in one composition.
const MOST_USES: u64 = 1 << 40;

/// A set of mechanisms with their numbers of uses, fixed in advance.
#[derive(Debug, Clone)]
pub struct Composition {
    /// All Gaussians together are one item, the last.
    items: Vec<(Part, u64)>,
    /// The target error of epsilon, relative to the default.
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

    /// The same composition with a target error of epsilon about fourteen times smaller, where the lattice allows it.
    ///
    /// For a final number; a search starts with the default.
    pub fn finely(self) -> Self {
        Self { aim: 0.07, ..self }
    }

    /// The smallest certified epsilon at `delta`.
    ///
    /// # Guarantee
    /// The composition is `(epsilon, delta)`-DP in both directions. A `delta`
    /// of zero has a result only if every mechanism is pure.
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

    /// The epsilon by composition on a lattice, refined while that improves it.
    fn lattice_epsilon(&self, delta: f64) -> Certified<f64> {
        let choose = |found| LatticeChoice::new(&self.items, Part::sketch, self.aim, delta, found);
        let mut plan = choose(None).ok_or(AccountantError::Unbounded)?;
        let mut best = self.on_lattice(&plan, delta)?;
        for _ in 0..3 {
            let (far, wanted) = (best.0 < GUESS * plan.epsilon, step_for(&self.items, self.aim, best));
            if best.0 == 0.0 || !far && wanted > 0.4 * plan.step {
                break;
            }
            // If a pass fails, the result of the earlier one is kept.
            let Some(finer) = choose(Some(best)) else { break };
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

    /// Composes on the plan's lattice in the remove direction and, if it differs,
    /// in the add direction. Returns the larger epsilon and the slope with which
    /// the log of delta falls there.
    fn on_lattice(&self, plan: &LatticeChoice, delta: f64) -> Certified<(f64, f64)> {
        let mut parts = Vec::with_capacity(self.items.len());
        for &(part, count) in &self.items {
            parts.push((discretise(part, plan.step, plan.tail)?, count));
        }
        let mut planner = FftPlanner::new();
        let mut compose = |parts: &[_], window| {
            let sum = Convolution::new(parts, plan.length, window, &mut planner);
            let found = sum.and_then(|sum| sum.epsilon(delta)).ok_or(AccountantError::Unbounded)?;
            // Wrapped mass ends in a cliff that is steeper than any real slope of delta.
            Ok((found.0, found.1.min(-3.0 * log(delta) / found.0)))
        };
        let remove = compose(&parts, &plan.remove)?;
        let sampled = |part| matches!(part, Part::Normal(Normal { q, .. }) if q < 1.0);
        // Total variation is the same in both directions, and an added record loses at most `-ln(1 - q)` per step.
        let added = |part| match part {
            Part::Normal(Normal { q, .. }) => -log1p(-q),
            Part::Laplace { epsilon, delta, .. } => {
                if delta > 0.0 {
                    f64::INFINITY
                } else {
                    epsilon
                }
            }
        };
        if remove.0 == 0.0 || remove.0 >= self.sum(added) || !self.items.iter().any(|item| sampled(item.0)) {
            return Ok(remove);
        }
        parts.iter_mut().for_each(|(lattice, _)| *lattice = lattice.reversed());
        let add = compose(&parts, &plan.add)?;
        Ok(if add.0 > remove.0 { add } else { remove })
    }

    /// The probability that some black box reveals everything.
    fn certain_delta(&self) -> f64 {
        let log_none = |&(part, count): &(Part, u64)| match part {
            Part::Laplace { delta, .. } => count as f64 * log1p(-delta),
            Part::Normal(_) => 0.0,
        };
        -expm1(self.items.iter().map(log_none).sum()) * (1.0 + 1e-12)
    }

    /// An upper bound on the sum, over all uses, of a bound on the loss of one use.
    fn sum(&self, bound: impl Fn(Part) -> f64) -> f64 {
        let raise = 1.0 + 1e-15 * (4.0 + self.items.len() as f64);
        self.items.iter().map(|&(part, count)| bound(part) * count as f64 * raise).sum()
    }

    /// Basic composition; infinite if a mechanism is Gaussian.
    fn basic_epsilon(&self, delta: f64) -> f64 {
        let own = |part| if let Part::Laplace { epsilon, .. } = part { epsilon } else { f64::INFINITY };
        if self.certain_delta() > delta { f64::INFINITY } else { self.sum(own) }
    }

    /// Renyi accounting, for compositions whose losses are too wide for a lattice.
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
