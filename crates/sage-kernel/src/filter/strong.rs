//! Strong composition for adaptive queries: approximate zero-concentrated privacy. Proof:
//! `proofs/strong.md`.

use crate::accountant;
use crate::cost::{Cost, Mechanism};
use crate::filter::price::{
    as_delta, as_epsilon, as_loss, as_sigma, ceiling_units, cost_units, deviation, each_pair, known,
};
use crate::filter::{Caps, Ceiling, Component, Unpriced};

pub(super) fn caps(ceiling: Ceiling) -> Caps {
    vec![(Component::Rho, ceiling_units(rho_of(ceiling))), (Component::Delta, ceiling.halves().1)]
}

/// ρ_g of the theorem, rounded down.
fn rho_of(ceiling: Ceiling) -> f64 {
    accountant::rho_for(as_epsilon(ceiling.epsilon), as_delta(ceiling.halves().0)).unwrap_or(0.0)
}

/// Whether the theorem holds for stored caps on ρ and on δ: [`caps`] gives up more than a recomputation can differ by.
pub(super) fn hold(ceiling: Ceiling, caps: &[u64]) -> bool {
    matches!(*caps, [rho, delta] if as_loss(rho) <= rho_of(ceiling) && delta <= ceiling.halves().1)
}

/// Gaussians count by their own ρ; everything that is a pair (ε, δ) by ε tanh(ε/2) and its δ.
pub(super) fn price(cost: &Cost, ceiling: Ceiling) -> Result<Vec<u64>, Unpriced> {
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
                rho += f64::from(count) * known(accountant::pure_to_zcdp(as_loss(epsilon)));
            }
            delta = delta.saturating_add(part_delta.units().saturating_mul(u64::from(count)));
        })?;
    }
    Ok(vec![cost_units(rho), delta])
}
