//! The privacy-loss-distribution accountant: the epsilon of a composition
//! fixed beforehand, certified from above and, for an error bar, from below.
//!
//! Each mechanism is replaced by a dominating one on a common lattice of
//! losses (`discretise`); the lattice laws are convolved by a tilted Fourier
//! transform whose every error is bounded and charged (`compose`); `plan`
//! chooses step, window and tilt and can only cost accuracy, never validity.
//! This module must never serve an adaptive filter: it accounts for parameters
//! declared before any data were read (`proofs/pld.md`).

mod compose;
mod discretise;
mod plan;

use libm::{expm1, log1p};
use realfft::RealFftPlanner;

use super::convert::epsilon_from_curve;
use super::curve::{self, DENSE_ORDERS};
use super::gaussian::gaussian_epsilon;
use super::parameter::{AccountantError, Certified, not_negative, positive, probability, rate};
use super::sampled::sampled_gaussian_curve;
use compose::Composed;
use discretise::Lattice;
use plan::{Goal, Plan, Side};

/// The privacy loss of one mechanism under add/remove.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// Gaussian noise of `sensitivity / deviation = mu`.
    Gaussian {
        /// Sensitivity over standard deviation.
        mu: f64,
    },
    /// Continuous Laplace noise of scale `sensitivity / epsilon`.
    Laplace {
        /// The pure epsilon.
        epsilon: f64,
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

impl Loss {
    fn validate(self) -> Certified<()> {
        match self {
            Self::Gaussian { mu } => positive(mu, "mu"),
            Self::Laplace { epsilon } => positive(epsilon, "epsilon"),
            Self::DiscreteLaplace { epsilon, units } => {
                positive(epsilon, "epsilon")?;
                positive(units as f64, "units")
            }
            Self::BlackBox { epsilon, delta } => {
                not_negative(epsilon, "epsilon")?;
                if delta == 0.0 { Ok(()) } else { probability(delta, "delta") }
            }
            Self::SampledGaussian { q, sigma } => {
                rate(q, "sampling rate")?;
                positive(sigma, "sigma")
            }
        }
    }

    /// The pure epsilon, where there is one.
    fn pure_epsilon(self) -> Option<f64> {
        match self {
            Self::Laplace { epsilon }
            | Self::DiscreteLaplace { epsilon, .. }
            | Self::BlackBox { epsilon, .. } => Some(epsilon),
            Self::Gaussian { .. } | Self::SampledGaussian { .. } => None,
        }
    }

    fn certain_delta(self) -> f64 {
        if let Self::BlackBox { delta, .. } = self { delta } else { 0.0 }
    }

    fn curve(self, orders: &[f64]) -> Certified<Vec<f64>> {
        let each = |cost: &dyn Fn(f64) -> Certified<f64>| orders.iter().map(|&a| cost(a)).collect();
        match self {
            Self::Gaussian { mu } => each(&|a| curve::zcdp(a, 0.5 * mu * mu)),
            Self::Laplace { epsilon } => each(&|a| curve::laplace(a, epsilon)),
            Self::DiscreteLaplace { epsilon, units } => each(&|a| curve::discrete_laplace(a, epsilon, units)),
            Self::BlackBox { epsilon: 0.0, .. } => Ok(vec![0.0; orders.len()]),
            Self::BlackBox { epsilon, .. } => each(&|a| curve::pure(a, epsilon)),
            Self::SampledGaussian { q, sigma } => sampled_gaussian_curve(orders, q, sigma),
        }
    }
}

/// The most uses of mechanisms one composition may hold.
const MOST_USES: u64 = 1 << 40;

/// Up to this many different mechanisms Renyi accounting is always asked as
/// well: it is cheap, and better where a lattice cannot be fine enough.
const FEW: usize = 8;

/// A set of mechanisms, each with how often it is used, fixed beforehand.
#[derive(Debug, Clone)]
pub struct Composition {
    /// All but Gaussians, which are one item together.
    items: Vec<(Loss, u64)>,
    /// The combined `mu` of the Gaussians, zero if there are none.
    mu: f64,
}

impl Composition {
    /// A composition of the given mechanisms and counts.
    ///
    /// # Guarantee
    /// Every parameter is in range and at most 2^40 uses are declared; order
    /// does not matter; Gaussians are merged exactly.
    pub fn new(declared: &[(Loss, u64)]) -> Certified<Self> {
        let mut items: Vec<(Loss, u64)> = Vec::new();
        let mut mu_square = 0.0;
        let mut uses = 0_u64;
        for &(loss, count) in declared {
            loss.validate()?;
            uses = uses.saturating_add(count);
            let merged = match loss {
                Loss::Gaussian { mu } => Some(mu),
                Loss::SampledGaussian { q: 1.0, sigma } => Some(1.0 / sigma),
                _ => None,
            };
            if let Some(mu) = merged {
                mu_square += mu * mu * count as f64;
                continue;
            }
            let nothing = matches!(loss, Loss::SampledGaussian { q: 0.0, .. })
                || loss == (Loss::BlackBox { epsilon: 0.0, delta: 0.0 });
            if count > 0 && !nothing {
                match items.iter_mut().find(|(known, _)| *known == loss) {
                    Some((_, known)) => *known += count,
                    None => items.push((loss, count)),
                }
            }
        }
        let mu = mu_square.sqrt() * (1.0 + 1e-13);
        if uses > MOST_USES || !mu.is_finite() {
            return Err(AccountantError::Parameter("composition"));
        }
        Ok(Self { items, mu })
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
        let simple = self.simple_epsilon(delta);
        if delta == 0.0 || self.items.is_empty() {
            return finite(simple);
        }
        let found = match self.lattice_epsilon(delta) {
            Ok(found) if self.items.len() > FEW => found,
            Ok(found) => found.min(self.renyi_epsilon(delta)),
            Err(AccountantError::Unbounded) => self.renyi_epsilon(delta),
            Err(error) => return Err(error),
        };
        finite(found.min(simple))
    }

    /// The epsilon by composition on a lattice, refined while that pays.
    fn lattice_epsilon(&self, delta: f64) -> Certified<f64> {
        let items = self.all_items();
        let mut plan = Plan::new(&items, Goal::Delta(delta))?;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let (mut epsilon, mut steepness) = (0.0, 0.0);
            both_directions(&items, &plan, |composed, _, _| {
                let found = composed.epsilon(delta)?;
                if found.0 >= epsilon {
                    (epsilon, steepness) = found;
                }
                Ok(())
            })?;
            best = best.min(epsilon);
            match plan.refined(&items, epsilon, steepness) {
                Some(finer) => plan = finer,
                None => break,
            }
        }
        Ok(best)
    }

    /// A certified delta at `epsilon`.
    ///
    /// # Guarantee
    /// The composition is `(epsilon, delta)`-DP; at most one.
    pub fn delta(&self, epsilon: f64) -> Certified<f64> {
        not_negative(epsilon, "epsilon")?;
        if self.items.is_empty() {
            if self.mu == 0.0 {
                return Ok(0.0);
            }
            return super::gaussian_delta(self.mu, epsilon);
        }
        if self.basic_epsilon().is_some_and(|basic| basic <= epsilon) {
            return Ok(self.certain_delta());
        }
        // Cut tails are sized by a guess of delta; a guess far too large is
        // replaced by a smaller one. Every answer is a bound.
        let items = self.all_items();
        let mut best = 1.0_f64;
        let mut guess = 1e-6;
        for _ in 0..6 {
            let mut found = 0.0_f64;
            let attempt = Plan::new(&items, Goal::Epsilon(epsilon, guess)).and_then(|plan| {
                both_directions(&items, &plan, |composed, _, _| {
                    found = found.max(composed.delta(epsilon));
                    Ok(())
                })
            });
            if attempt.is_err() {
                break;
            }
            best = best.min(found);
            if best >= guess || guess < 1e-280 {
                break;
            }
            guess = best * 1e-3;
        }
        Ok(best)
    }

    /// A lower and an upper bound of the exact epsilon at `delta`.
    ///
    /// # Guarantee
    /// The second is [`Composition::epsilon`]; the composition is not
    /// `(e, delta)`-DP for any `e` below the first.
    pub fn epsilon_bounds(&self, delta: f64) -> Certified<(f64, f64)> {
        let above = self.epsilon(delta)?;
        if self.items.is_empty() {
            let below = if self.mu > 1e-5 { above * (1.0 - 1e-6) - 1e-12 } else { 0.0 };
            return Ok((below.max(0.0), above));
        }
        if delta == 0.0 {
            return Ok((0.0, above));
        }
        let items = self.all_items();
        let mut below = 0.0_f64;
        // No lattice, no lower bound: zero always is one.
        let _ = Plan::new(&items, Goal::Delta(delta)).and_then(|plan| {
            both_directions(&items, &plan, |composed, parts, side| {
                below = below.max(composed.epsilon_below(delta, parts, side));
                Ok(())
            })
        });
        Ok((below.min(above), above))
    }

    /// Every item, the merged Gaussians last.
    fn all_items(&self) -> Vec<(Loss, u64)> {
        let mut items = self.items.clone();
        if self.mu > 0.0 {
            items.push((Loss::Gaussian { mu: self.mu }, 1));
        }
        items
    }

    /// Basic composition, if no mechanism is Gaussian.
    fn basic_epsilon(&self) -> Option<f64> {
        let mut sum = 0.0;
        for (loss, count) in &self.items {
            sum += loss.pure_epsilon()? * *count as f64 * (1.0 + 2.0 * f64::EPSILON);
        }
        (self.mu == 0.0).then_some(sum)
    }

    /// The chance that a black box fails outright.
    fn certain_delta(&self) -> f64 {
        let log_none: f64 =
            self.items.iter().map(|(loss, count)| *count as f64 * log1p(-loss.certain_delta())).sum();
        -expm1(log_none) * (1.0 + 1e-12)
    }

    /// The best bound that needs no lattice; infinity if there is none.
    fn simple_epsilon(&self, delta: f64) -> f64 {
        if self.items.is_empty() && self.mu > 0.0 {
            return gaussian_epsilon(self.mu, delta).unwrap_or(f64::INFINITY);
        }
        match self.basic_epsilon() {
            Some(basic) if self.certain_delta() <= delta => basic,
            _ => f64::INFINITY,
        }
    }

    /// Renyi accounting, for compositions too wide for a lattice.
    fn renyi_epsilon(&self, delta: f64) -> f64 {
        let attempt = || {
            let mut total = vec![0.0; DENSE_ORDERS.len()];
            let gaussians = (self.mu > 0.0).then_some((Loss::Gaussian { mu: self.mu }, 1));
            for (loss, count) in self.items.iter().copied().chain(gaussians) {
                for (sum, cost) in total.iter_mut().zip(loss.curve(&DENSE_ORDERS)?) {
                    *sum += cost * count as f64 * (1.0 + 4.0 * f64::EPSILON);
                }
            }
            epsilon_from_curve(&DENSE_ORDERS, &total, delta - self.certain_delta())
        };
        attempt().unwrap_or(f64::INFINITY)
    }
}

/// Composes on the plan's lattice, first as a record is removed and then, if
/// that differs, as one is added.
fn both_directions(
    items: &[(Loss, u64)],
    plan: &Plan,
    mut see: impl FnMut(&Composed, &[(Lattice, u64)], &Side) -> Certified<()>,
) -> Certified<()> {
    let mut parts = Vec::with_capacity(items.len());
    for &(loss, count) in items {
        parts.push((discretise::discretise(loss, plan.step, plan.tail)?, count));
    }
    let mut planner = RealFftPlanner::new();
    let remove = Composed::new(&parts, plan, &plan.remove, &mut planner)?;
    see(&remove, &parts, &plan.remove)?;
    if items.iter().all(|(loss, _)| !matches!(loss, Loss::SampledGaussian { .. })) {
        return Ok(());
    }
    for (lattice, _) in &mut parts {
        *lattice = lattice.reversed(plan.step);
    }
    let add = Composed::new(&parts, plan, &plan.add, &mut planner)?;
    see(&add, &parts, &plan.add)
}

fn finite(epsilon: f64) -> Certified<f64> {
    if epsilon.is_finite() { Ok(epsilon) } else { Err(AccountantError::Unbounded) }
}
