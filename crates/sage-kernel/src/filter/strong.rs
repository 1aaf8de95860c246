//! Strong composition for adaptive queries: approximate zero-concentrated privacy. Proof:
//! `proofs/strong.md`.

use crate::accountant;
use crate::cost::{Cost, Mechanism};
use crate::filter::price::{
    as_delta, as_epsilon, as_loss, as_sigma, ceiling_units, cost_units, deviation, each_pair, known,
};
use crate::filter::{Caps, Ceiling, Component, Unpriced};

pub(super) fn caps(ceiling: Ceiling) -> Caps {
    let (curves, spendable) = ceiling.halves();
    let rho = accountant::rho_for(as_epsilon(ceiling.epsilon), as_delta(curves)).unwrap_or(0.0);
    vec![(Component::Rho, ceiling_units(rho)), (Component::Delta, spendable)]
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
            rho += f64::from(count) * known(accountant::pure_to_zcdp(as_loss(epsilon)));
            delta = delta.saturating_add(part_delta.units().saturating_mul(u64::from(count)));
        })?;
    }
    Ok(vec![cost_units(rho), delta])
}
