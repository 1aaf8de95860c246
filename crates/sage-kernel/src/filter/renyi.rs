//! The Rényi filter: many orders with weights fixed in advance, and order ∞ at no extra cost. Proof:
//! `proofs/renyi.md`.
//!
//! The analyst can choose which order to exhaust after seeing outputs. The weights account for that choice; without
//! them the δ would be exceeded by a factor above two (`tests/ledger/filters.rs` contains the attack).

use crate::accountant;
use crate::budget::Epsilon;
use crate::cost::Cost;
use crate::filter::price::{
    as_delta, as_epsilon, as_loss, ceiling_units, cost_units, deviation, or_infinite, pure_loss, spare_delta,
    total_curve,
};
use crate::filter::{Caps, Ceiling, Component};

/// The caps: δ (required), then every order with a positive cap, then order ∞.
pub(super) fn caps(ceiling: Ceiling) -> Caps {
    let (curves, spendable) = ceiling.halves();
    let mut caps = vec![(Component::Delta, spendable)];
    if curves > 0 {
        let epsilon = as_epsilon(ceiling.epsilon);
        for (index, &order) in (0u32..).zip(&accountant::ORDERS) {
            let share = weight(index as usize, primary(epsilon, as_delta(curves))) * as_delta(curves);
            let cap =
                ceiling_units(epsilon - or_infinite(accountant::conversion(order, share))).min(ceiling.epsilon.units());
            if cap > 0 {
                caps.push((Component::Order(index), cap));
            }
        }
    }
    caps.push((Component::Infinite, ceiling.epsilon.units()));
    caps
}

/// Whether the theorem holds for stored caps, for any weights: Σ c_α e^{−(α−1)(ε_g − cap_α)} is at most δ_r, each term
/// rounded up. An order with a cap of zero admits no divergence and needs no share of δ_r.
pub(super) fn theorem_holds(ceiling: Ceiling, components: &[Component], caps: &[u64]) -> bool {
    let (curves, spendable) = ceiling.halves();
    let (mut total, mut next) = (0.0, 0);
    for (component, &cap) in components.iter().zip(caps) {
        match *component {
            Component::Order(index) if index >= next && cap <= ceiling.epsilon.units() => {
                let order = accountant::ORDERS[index as usize];
                let below = as_loss(ceiling.epsilon.units() - cap);
                let log_share = (order - 1.0) * (libm::log1p(-1.0 / order) - below) - libm::log(order);
                total += if cap > 0 { libm::exp(log_share) * (1.0 + 1e-12) } else { 0.0 };
                next = index + 1;
            }
            Component::Delta if cap <= spendable => {}
            Component::Infinite if cap <= ceiling.epsilon.units() => {}
            _ => return false,
        }
    }
    total <= spare_delta(curves)
}

/// The index of the order that admits the largest number of Gaussian releases. It gets half of the weight.
fn primary(epsilon: f64, delta: f64) -> usize {
    let value = |order: f64| (epsilon - or_infinite(accountant::conversion(order, delta))) / order;
    let orders = accountant::ORDERS;
    (0..orders.len()).max_by(|&one, &other| value(orders[one]).total_cmp(&value(orders[other]))).unwrap_or(0)
}

/// The weight of an order: 1/2 for the primary order, 2^-(distance + 2) for the others.
fn weight(index: usize, primary: usize) -> f64 {
    match index.abs_diff(primary) {
        0 => 0.5,
        distance => libm::exp2(-(distance as f64 + 2.0)),
    }
}

/// The caps after a change of ε_g alone. The cap of an order is ε_g less a constant, so it shifts by the change of ε_g.
/// A cap that has reached zero stays zero, because its constant can no longer be recovered.
pub(super) fn shift_caps(caps: &[u64], from: Epsilon, to: Epsilon) -> Vec<u64> {
    let (required, orders) = caps.split_at(1);
    let shift = |&cap: &u64| if cap == 0 { 0 } else { (cap + to.units()).saturating_sub(from.units()) };
    required.iter().copied().chain(orders.iter().map(shift)).collect()
}

pub(super) fn price(cost: &Cost, ceiling: Ceiling, components: &[Component]) -> Vec<u64> {
    let totals = total_curve(cost.parts().iter());
    let mut infinite = 0u64;
    let mut delta = deviation(cost.parts(), ceiling);
    for part in cost.parts() {
        let (loss, probability) = pure_loss(part);
        infinite = infinite.saturating_add(loss);
        delta = delta.saturating_add(probability);
    }
    let units = |component: &Component| match component {
        Component::Order(index) => cost_units(totals[*index as usize]),
        Component::Infinite => infinite,
        _ => delta,
    };
    components.iter().map(units).collect()
}
