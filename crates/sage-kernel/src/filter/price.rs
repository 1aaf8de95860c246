//! From real numbers to units, always against the spender; shared by the filters' price lists.

use crate::accountant::{self, Certified, Composition, Loss};
use crate::budget::{Delta, Epsilon, Sigma};
use crate::cost::{Cost, Mechanism, SCALE, UNBOUNDED};
use crate::filter::{Ceiling, Unpriced};
use crate::noise::RoundedGaussian;

/// Units in one, for losses.
const LOSS_UNITS: f64 = 1e12;
/// Units in one, for probabilities.
const PROBABILITY_UNITS: f64 = 1e18;
/// How far a computed cost is moved up before it is rounded: far above the error of the formulas.
const NUDGE: f64 = 1.0 + 1e-12;
/// The distance of noise from the ideal is priced as if ε_g were at least this, so that a charge still
/// covers it after ε_g was raised this far; further it may not be.
pub(crate) const RAISED: Epsilon = Epsilon::from_units(16_000_000_000_000).expect("below the limit");
/// What a computed ceiling gives up before it is rounded down; its formulas cancel.
const CEILING_MARGIN: f64 = 1e-9;

pub(crate) fn as_epsilon(epsilon: Epsilon) -> f64 {
    as_loss(epsilon.units())
}

/// Also for sampling rates, which have the same unit.
pub(crate) fn as_loss(units: u64) -> f64 {
    units as f64 / LOSS_UNITS
}

pub(crate) fn as_delta(delta: u64) -> f64 {
    delta as f64 / PROBABILITY_UNITS
}

pub(crate) fn as_sigma(sigma: Sigma) -> f64 {
    sigma.units() as f64 / 1e9
}

/// A computed loss as units, rounded up; what is no number costs more than any ceiling.
pub(crate) fn cost_units(loss: f64) -> u64 {
    up(loss * LOSS_UNITS)
}

/// Units rounded up: none below zero, and anything that is not a number without bound.
fn up(units: f64) -> u64 {
    let units = (units * NUDGE).ceil();
    if units < 9.0e18 { units.max(0.0) as u64 } else { UNBOUNDED }
}

/// A computed ceiling as units, rounded down; what is no number allows nothing.
pub(crate) fn ceiling_units(loss: f64) -> u64 {
    let units = ((loss - CEILING_MARGIN) * LOSS_UNITS).floor();
    if units > 0.0 { (units as u64).min(Epsilon::LIMIT.units()) } else { 0 }
}

/// A computed cost, or more than any ceiling where there is none.
pub(crate) fn known(cost: Certified<f64>) -> f64 {
    cost.unwrap_or(f64::INFINITY)
}

/// The δ that the distance of the drawn noise from the ideal one costs.
///
/// A total-variation distance of t makes (ε, δ) into (ε, δ + (1 + e^ε) t): `proofs/rounded_gaussian.md`.
pub(crate) fn deviation<'part>(parts: impl IntoIterator<Item = &'part Mechanism>, ceiling: Ceiling) -> u64 {
    let draws: u128 = parts.into_iter().map(Mechanism::draws).sum();
    if draws == 0 {
        return 0;
    }
    let distance = draws as f64 * RoundedGaussian::DEVIATION_PER_DRAW;
    up(distance * (1.0 + libm::exp(as_epsilon(ceiling.epsilon.max(RAISED)))) * PROBABILITY_UNITS)
}

/// Visits the mechanisms of a cost as an (ε, δ) filter counts them: each pair with how often it occurs.
///
/// Pure mechanisms and black boxes stand as they are. All others are put together and stated as one
/// pair at the cost's δ, by the tightest accountant that knows them; the deviation of their noise is
/// taken out of that δ first. The ε is in units, for it may be above every ε that a ceiling can have.
pub(crate) fn each_pair(cost: &Cost, ceiling: Ceiling, mut visit: impl FnMut(u64, Delta, u32)) -> Result<(), Unpriced> {
    let mut curved = Vec::new();
    for part in cost.parts() {
        match *part {
            Mechanism::Pure { epsilon } => visit(epsilon.units(), Delta::ZERO, 1),
            Mechanism::Laplace { epsilon, count } => visit(epsilon.units(), Delta::ZERO, count),
            Mechanism::BlackBox { epsilon, delta } => visit(epsilon.units(), delta, 1),
            _ => curved.push(part),
        }
    }
    if !curved.is_empty() {
        if cost.delta() == Delta::ZERO {
            return Err(Unpriced::NeedsDelta);
        }
        let spare = cost.delta().units().saturating_sub(deviation(curved.iter().copied(), ceiling));
        visit(cost_units(epsilon_at(&curved, as_delta(spare))), cost.delta(), 1);
    }
    Ok(())
}

/// The smallest ε known for the composition of the mechanisms at δ.
pub(crate) fn epsilon_at(parts: &[&Mechanism], delta: f64) -> f64 {
    let by_curve = || {
        let set_aside: f64 = parts.iter().map(|part| as_delta(pure_loss(part).1)).sum();
        let total = total_curve(parts.iter().copied());
        known(accountant::epsilon_from_curve(&accountant::ORDERS, &total, delta - set_aside))
    };
    match losses(parts.iter().map(|part| (*part, 1))) {
        Some(composition) => composition.epsilon(delta).unwrap_or_else(|_| by_curve()),
        None => by_curve(),
    }
}

/// The most a mechanism loses, exactly, but for the mass set aside, and that mass.
pub(crate) fn pure_loss(part: &Mechanism) -> (u64, u64) {
    match part {
        Mechanism::Pure { epsilon } => (epsilon.units(), 0),
        Mechanism::Laplace { epsilon, count } => (epsilon.units().saturating_mul(u64::from(*count)), 0),
        Mechanism::BlackBox { epsilon, delta } => (epsilon.units(), delta.units()),
        Mechanism::Curve(curve) => (curve.infinite.map_or(UNBOUNDED, |loss| loss.units()), curve.delta.units()),
        _ => (UNBOUNDED, 0),
    }
}

/// The mechanisms, each so often, as privacy losses; nothing where one's distribution is not known.
pub(crate) fn losses<'part>(parts: impl Iterator<Item = (&'part Mechanism, u32)>) -> Option<Composition> {
    let mut items = Vec::new();
    for (part, times) in parts {
        let (loss, count) = match *part {
            Mechanism::Pure { epsilon } => (Loss::BlackBox { epsilon: as_epsilon(epsilon), delta: 0.0 }, 1),
            Mechanism::Laplace { epsilon, count } => {
                (Loss::DiscreteLaplace { epsilon: as_epsilon(epsilon), units: SCALE }, count)
            }
            Mechanism::Gaussian { sigma, count, .. } => (Loss::Gaussian { mu: 1.0 / as_sigma(sigma) }, count),
            Mechanism::SampledGaussian { rate, sigma, steps, .. } => {
                (Loss::SampledGaussian { q: as_loss(rate.units()), sigma: as_sigma(sigma) }, steps)
            }
            Mechanism::BlackBox { epsilon, delta } => {
                (Loss::BlackBox { epsilon: as_epsilon(epsilon), delta: as_delta(delta.units()) }, 1)
            }
            Mechanism::Zcdp { .. } | Mechanism::Curve(_) => return None,
        };
        items.push((loss, u64::from(count) * u64::from(times)));
    }
    Composition::new(&items).ok().map(Composition::finely)
}

/// The Rényi divergence of all of the mechanisms at every order of the grid, without their δ.
pub(crate) fn total_curve<'part>(parts: impl Iterator<Item = &'part Mechanism>) -> Vec<f64> {
    let mut total = vec![0.0; accountant::ORDERS.len()];
    parts.for_each(|part| total.iter_mut().zip(curve(part)).for_each(|(total, value)| *total += value));
    total
}

/// The Rényi divergence of a mechanism at every order of the grid, without its δ.
fn curve(part: &Mechanism) -> Vec<f64> {
    let orders = accountant::ORDERS;
    let each = |value: &dyn Fn(f64) -> f64| orders.iter().map(|&order| value(order)).collect();
    match part {
        Mechanism::Pure { epsilon } | Mechanism::BlackBox { epsilon, .. } => {
            each(&|order| known(accountant::pure(order, as_epsilon(*epsilon))))
        }
        Mechanism::Laplace { epsilon, count } => {
            each(&|order| f64::from(*count) * known(accountant::discrete_laplace(order, as_epsilon(*epsilon), SCALE)))
        }
        Mechanism::Gaussian { sigma, count, .. } => {
            each(&|order| f64::from(*count) * known(accountant::gaussian(order, as_sigma(*sigma))))
        }
        Mechanism::SampledGaussian { rate, sigma, steps, .. } => {
            let step = accountant::sampled_gaussian_curve(&orders, as_loss(rate.units()), as_sigma(*sigma));
            let mut values = step.unwrap_or_else(|_| vec![f64::INFINITY; orders.len()]);
            values.iter_mut().for_each(|value| *value *= f64::from(*steps));
            values
        }
        Mechanism::Zcdp { rho } => each(&|order| order * as_epsilon(*rho)),
        Mechanism::Curve(curve) => curve.orders.iter().map(|value| value.map_or(f64::INFINITY, as_epsilon)).collect(),
    }
}
