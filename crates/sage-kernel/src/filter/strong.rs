//! Strong composition for adaptive queries: approximate zero-concentrated differential privacy. Proof:
//! `proofs/strong.md`.

use crate::accountant;
use crate::cost::{Cost, Mechanism};
use crate::filter::price::{
    as_delta, as_epsilon, as_loss, as_sigma, ceiling_units, cost_units, deviation, each_pair, or_infinite,
};
use crate::filter::{Caps, Ceiling, Component, PriceError};

pub(super) fn caps(ceiling: Ceiling) -> Caps {
    vec![(Component::Rho, ceiling_units(ceiling_rho(ceiling))), (Component::Delta, ceiling.halves().1)]
}

/// ρ_g of the theorem for a ceiling, rounded down.
fn ceiling_rho(ceiling: Ceiling) -> f64 {
    accountant::rho_for(as_epsilon(ceiling.epsilon), as_delta(ceiling.halves().0)).unwrap_or(0.0)
}

/// Whether the theorem holds for stored caps on ρ and on δ. The margin in [`caps`] is larger than the difference between
/// two computations of ρ_g.
pub(super) fn theorem_holds(ceiling: Ceiling, caps: &[u64]) -> bool {
    matches!(*caps, [rho, delta] if as_loss(rho) <= ceiling_rho(ceiling) && delta <= ceiling.halves().1)
}

/// Prices a cost: Gaussian mechanisms by their ρ, pairs (ε, δ) by ρ = ε tanh(ε/2) and their δ.
pub(super) fn price(cost: &Cost, ceiling: Ceiling) -> Result<Vec<u64>, PriceError> {
    let (mut rho, mut delta) = (0.0, 0u64);
    let mut others = Vec::new();
    for part in cost.parts() {
        match *part {
            Mechanism::Gaussian { sigma, count, .. } => {
                delta = delta.saturating_add(deviation([part], ceiling));
                rho += f64::from(count) / (2.0 * as_sigma(sigma) * as_sigma(sigma));
            }
            Mechanism::Zcdp { rho: more } => rho += as_epsilon(more),
            _ => others.push(part.clone()),
        }
    }
    if let Ok(others) = Cost::at_delta(others, cost.delta()) {
        each_pair(&others, ceiling, |epsilon, part_delta, count| {
            if epsilon > 0 {
                rho += f64::from(count) * or_infinite(accountant::pure_to_zcdp(as_loss(epsilon)));
            }
            delta = delta.saturating_add(part_delta.units().saturating_mul(u64::from(count)));
        })?;
    }
    Ok(vec![cost_units(rho), delta])
}
