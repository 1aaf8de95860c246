//! Pricing shared by the filters: converts real numbers to units, always rounded against the spender.

use crate::accountant::{self, Certified, Composition, Loss};
use crate::budget::{Delta, Epsilon, Sigma};
use crate::cost::{Cost, Mechanism, SCALE, UNBOUNDED};
use crate::filter::{Ceiling, PriceError};
use crate::noise::RoundedGaussian;

/// Units in one, for losses.
const LOSS_UNITS: f64 = 1e12;
/// Units in one, for probabilities.
const PROBABILITY_UNITS: f64 = 1e18;
/// The factor by which a computed cost is raised before it is rounded up: far above the error of the formulas.
const NUDGE: f64 = 1.0 + 1e-12;
/// The least exponent with which the distance of the noise from the ideal is priced, and the largest value to which ε_g
/// can be raised.
pub(crate) const RAISED_EPSILON_LIMIT: Epsilon = Epsilon::from_units(16_000_000_000_000).expect("below the limit");
/// The margin subtracted from a computed ceiling before it is rounded down, because its formulas cancel.
const CEILING_MARGIN: f64 = 1e-9;

pub(crate) fn as_epsilon(epsilon: Epsilon) -> f64 {
    as_loss(epsilon.units())
}

/// A loss as a float. Also used for sampling rates, which have the same unit.
pub(crate) fn as_loss(units: u64) -> f64 {
    units as f64 / LOSS_UNITS
}

pub(crate) fn as_delta(delta: u64) -> f64 {
    delta as f64 / PROBABILITY_UNITS
}

/// The δ of a cost as a float, rounded up.
fn cost_delta(delta: u64) -> f64 {
    as_delta(delta) * (1.0 + 2.0 * f64::EPSILON)
}

/// An available δ as a float, rounded down: the two roundings of [`as_delta`] are together less than two units in the
/// last place.
pub(crate) fn spare_delta(delta: u64) -> f64 {
    as_delta(delta) * (1.0 - 2.0 * f64::EPSILON)
}

pub(crate) fn as_sigma(sigma: Sigma) -> f64 {
    sigma.units() as f64 / 1e9
}

/// A computed loss in units, rounded up; NaN is above any ceiling.
pub(crate) fn cost_units(loss: f64) -> u64 {
    round_up(loss * LOSS_UNITS)
}

/// Rounds up to whole units: negative values are zero, NaN is [`UNBOUNDED`].
fn round_up(units: f64) -> u64 {
    let units = (units * NUDGE).ceil();
    if units < 9.0e18 { units.max(0.0) as u64 } else { UNBOUNDED }
}

/// A computed ceiling in units, rounded down; NaN is zero.
pub(crate) fn ceiling_units(loss: f64) -> u64 {
    let units = ((loss - CEILING_MARGIN) * LOSS_UNITS).floor();
    if units > 0.0 { (units as u64).min(Epsilon::LIMIT.units()) } else { 0 }
}

/// A computed cost, or infinity if the accountant returned an error.
pub(crate) fn or_infinite(cost: Certified<f64>) -> f64 {
    cost.unwrap_or(f64::INFINITY)
}

/// The δ that the distance of the drawn noise from the ideal noise costs.
///
/// A total-variation distance of t costs (1 + e^x) t, where x is at least ε_g and the privacy loss of a single release
/// exceeds x with a negligible probability: `proofs/rounded_gaussian.md`, section 5.
pub(crate) fn deviation<'part>(parts: impl IntoIterator<Item = &'part Mechanism>, ceiling: Ceiling) -> u64 {
    let least = as_epsilon(ceiling.epsilon.max(RAISED_EPSILON_LIMIT));
    let price = |part: &Mechanism| {
        let distance = part.draws() as f64 * RoundedGaussian::DEVIATION_PER_DRAW;
        distance * (1.0 + libm::exp(least.max(largest_loss(part))))
    };
    round_up(parts.into_iter().filter(|part| part.draws() > 0).map(price).sum::<f64>() * PROBABILITY_UNITS)
}

/// A privacy loss that one release of Gaussian noise exceeds with probability below 2^-108, sampled or not: twelve
/// standard deviations above the mean.
fn largest_loss(part: &Mechanism) -> f64 {
    match part {
        Mechanism::Gaussian { sigma, .. } | Mechanism::SampledGaussian { sigma, .. } => {
            let mu = 1.0 / as_sigma(*sigma);
            mu * (12.0 + 0.5 * mu)
        }
        _ => 0.0,
    }
}

/// Visits a cost as pairs (ε, δ), each with its number of occurrences.
///
/// Pure mechanisms and black boxes are visited as they are. All others are composed by the tightest applicable accountant
/// and stated as one pair at the cost's δ; the deviation of their noise is subtracted from that δ first. The ε is in
/// units, because it can be above [`Epsilon::LIMIT`].
pub(crate) fn each_pair(
    cost: &Cost, ceiling: Ceiling, mut visit: impl FnMut(u64, Delta, u32),
) -> Result<(), PriceError> {
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
            return Err(PriceError::NeedsDelta);
        }
        let spare = cost.delta().units().saturating_sub(deviation(curved.iter().copied(), ceiling));
        visit(cost_units(epsilon_at(&curved, spare)), cost.delta(), 1);
    }
    Ok(())
}

/// The smallest known ε of the composition of the mechanisms at `delta` units of δ. The δ of the mechanisms themselves is
/// subtracted first, in whole units.
pub(crate) fn epsilon_at(parts: &[&Mechanism], delta: u64) -> f64 {
    let by_curve = || {
        let left = parts.iter().fold(delta, |left, part| left.saturating_sub(pure_loss(part).1));
        let total = total_curve(parts.iter().copied());
        or_infinite(accountant::epsilon_from_curve(&accountant::ORDERS, &total, spare_delta(left)))
    };
    match losses(parts.iter().map(|part| (*part, 1))) {
        Some(composition) => composition.epsilon(spare_delta(delta)).unwrap_or_else(|_| by_curve()),
        None => by_curve(),
    }
}

/// The pure privacy loss of a mechanism, which holds outside of a probability δ, and that δ; both exact, in units.
pub(crate) fn pure_loss(part: &Mechanism) -> (u64, u64) {
    match part {
        Mechanism::Pure { epsilon } => (epsilon.units(), 0),
        Mechanism::Laplace { epsilon, count } => (epsilon.units().saturating_mul(u64::from(*count)), 0),
        Mechanism::BlackBox { epsilon, delta } => (epsilon.units(), delta.units()),
        Mechanism::Curve(curve) => (curve.infinite.map_or(UNBOUNDED, |loss| loss.units()), curve.delta.units()),
        _ => (UNBOUNDED, 0),
    }
}

/// The composition of the mechanisms, each repeated; `None` if the privacy-loss distribution of one is not known.
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
                (Loss::BlackBox { epsilon: as_epsilon(epsilon), delta: cost_delta(delta.units()) }, 1)
            }
            Mechanism::Zcdp { .. } | Mechanism::Curve(_) => return None,
        };
        items.push((loss, u64::from(count) * u64::from(times)));
    }
    Composition::new(&items).ok().map(Composition::finely)
}

/// The Rényi divergence of the composition at every order of the grid, without the δ of the mechanisms.
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
        // A mechanism with ε = 0 costs only its δ.
        Mechanism::BlackBox { epsilon: Epsilon::ZERO, .. } => vec![0.0; orders.len()],
        Mechanism::Pure { epsilon } | Mechanism::BlackBox { epsilon, .. } => {
            each(&|order| or_infinite(accountant::pure(order, as_epsilon(*epsilon))))
        }
        Mechanism::Laplace { epsilon, count } => each(&|order| {
            f64::from(*count) * or_infinite(accountant::discrete_laplace(order, as_epsilon(*epsilon), SCALE))
        }),
        Mechanism::Gaussian { sigma, count, .. } => {
            each(&|order| f64::from(*count) * or_infinite(accountant::gaussian(order, as_sigma(*sigma))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use dashu::integer::{IBig, UBig};
    use dashu::rational::RBig;

    /// Compares floats of δ with the exact fraction: an available δ is never larger, the δ of a cost never smaller, and
    /// both are close.
    #[test]
    fn deltas_are_rounded_against_the_spender() {
        let mut state = 21u64;
        for round in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let units = (state >> (4 + round % 55)).min(Delta::LIMIT.units());
            let exact = RBig::from_parts(IBig::from(units), UBig::from(10u8).pow(18));
            let [spare, cost] =
                [spare_delta(units), cost_delta(units)].map(|delta| RBig::try_from(delta).expect("finite"));
            assert!(spare <= exact && exact <= cost, "{units}");
            let close = &exact * RBig::from_parts(IBig::ONE, UBig::ONE << 49);
            assert!(&exact - spare <= close && cost - &exact <= close, "{units}");
        }
        assert_eq!((spare_delta(0), cost_delta(0)), (0.0, 0.0));
    }

    /// The normal tail, as a continued fraction.
    fn tail(z: f64) -> f64 {
        let fraction = (1..=400).rev().fold(0.0, |rest, k| f64::from(k) / (z + rest));
        libm::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt() / (z + fraction)
    }

    /// The price covers the proof's bound on the distance of n draws, and the power of the most powerful test at that
    /// level, which has a closed form for Gaussian noise.
    #[test]
    fn the_price_of_a_distance_covers_the_most_powerful_test() {
        for (epsilon, sigma) in ["0.5", "8", "20"]
            .into_iter()
            .flat_map(|epsilon| ["100", "2", "0.9", "0.75", "0.6", "0.4", "0.3", "0.2"].map(|sigma| (epsilon, sigma)))
        {
            let ceiling = Ceiling {
                epsilon: Epsilon::cost(epsilon).expect("an epsilon"),
                delta: Delta::cost("0.000001").expect("a delta"),
            };
            let sigma = Sigma::cost(sigma).expect("a sigma");
            for coordinates in [1, 1_000, 1_000_000] {
                let distance = f64::from(coordinates) * libm::exp2(-104.0);
                let (mut low, mut high) = (1.0, 40.0);
                for _ in 0..200 {
                    let middle = 0.5 * (low + high);
                    (low, high) = if tail(middle) > distance { (middle, high) } else { (low, middle) };
                }
                let power = tail(low - 1.0 / as_sigma(sigma));
                let price = deviation(&[Mechanism::Gaussian { sigma, coordinates, count: 1 }], ceiling);
                assert!(as_delta(price) >= distance + power, "{ceiling:?} {sigma:?} {coordinates}: {price} {power}");
            }
        }
    }

    /// Compares the units of costs and ceilings with the exact fraction of the float.
    #[test]
    fn units_are_rounded_against_the_spender() {
        let mut state = 22u64;
        for round in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let loss = (state >> 11) as f64 / (1u64 << 53) as f64 * libm::exp2(round as f64 % 40.0 - 20.0);
            let exact = RBig::try_from(loss).expect("finite") * RBig::from(1_000_000_000_000u64);
            assert!(RBig::from(cost_units(loss)) >= exact, "{loss}");
            assert!(
                RBig::from(cost_units(loss))
                    <= &exact * RBig::from_parts(IBig::from(1_000_001), UBig::from(1_000_000u32)) + RBig::ONE
            );
            // The margin is 10^-9, of which the rounding of floats of this size can take back at most 122 units.
            let given = RBig::from(ceiling_units(loss)) + RBig::from(1_000 - 122);
            assert!(given <= exact || ceiling_units(loss) == 0, "{loss}");
        }
        for (loss, cost, ceiling) in [
            (0.0, 0, 0),
            (-1.0, 0, 0),
            (f64::NAN, UNBOUNDED, 0),
            (f64::INFINITY, UNBOUNDED, Epsilon::LIMIT.units()),
            (1e30, UNBOUNDED, Epsilon::LIMIT.units()),
            (f64::MIN_POSITIVE, 1, 0),
        ] {
            assert_eq!((cost_units(loss), ceiling_units(loss)), (cost, ceiling), "{loss}");
        }
    }
}
