//! The Rényi filter: many orders with weights fixed in advance, and order ∞ for free. Proof:
//! `proofs/renyi.md`.
//!
//! The analyst may choose which order to exhaust after seeing outputs. The weights pay for that choice;
//! without them the rule is wrong by a factor above two (`tests/ledger/filters.rs` mounts the attack).

use crate::accountant;
use crate::budget::Epsilon;
use crate::cost::Cost;
use crate::filter::price::{
    as_delta, as_epsilon, as_loss, ceiling_units, cost_units, deviation, known, pure_loss, spare_delta, total_curve,
};
use crate::filter::{Caps, Ceiling, Component};

/// δ first and required; then every order that can ever be within its cap; then order ∞.
pub(super) fn caps(ceiling: Ceiling) -> Caps {
    let (curves, spendable) = ceiling.halves();
    let mut caps = vec![(Component::Delta, spendable)];
    if curves > 0 {
        let epsilon = as_epsilon(ceiling.epsilon);
        for (place, &order) in (0u32..).zip(&accountant::ORDERS) {
            let share = weight(place as usize, primary(epsilon, as_delta(curves))) * as_delta(curves);
            let cap = ceiling_units(epsilon - known(accountant::conversion(order, share))).min(ceiling.epsilon.units());
            if cap > 0 {
                caps.push((Component::Order(place), cap));
            }
        }
    }
    caps.push((Component::Infinite, ceiling.epsilon.units()));
    caps
}

/// Whether the theorem holds for stored caps, whatever weights they were made with: Σ c_α e^{−(α−1)(ε_g − cap_α)} is at
/// most δ_r, each term rounded up. An order with a cap of zero admits no divergence and needs no share of δ_r.
pub(super) fn hold(ceiling: Ceiling, components: &[Component], caps: &[u64]) -> bool {
    let (curves, spendable) = ceiling.halves();
    let (mut total, mut next) = (0.0, 0);
    for (component, &cap) in components.iter().zip(caps) {
        match *component {
            Component::Order(place) if place >= next && cap <= ceiling.epsilon.units() => {
                let order = accountant::ORDERS[place as usize];
                let below = as_loss(ceiling.epsilon.units() - cap);
                let log_share = (order - 1.0) * (libm::log1p(-1.0 / order) - below) - libm::log(order);
                total += if cap > 0 { libm::exp(log_share) * (1.0 + 1e-12) } else { 0.0 };
                next = place + 1;
            }
            Component::Delta if cap <= spendable => {}
            Component::Infinite if cap <= ceiling.epsilon.units() => {}
            _ => return false,
        }
    }
    total <= spare_delta(curves)
}

/// The place of the order at which a Gaussian fits most often: it gets half of the weight.
fn primary(epsilon: f64, delta: f64) -> usize {
    let value = |order: f64| (epsilon - known(accountant::conversion(order, delta))) / order;
    let orders = accountant::ORDERS;
    (0..orders.len()).max_by(|&one, &other| value(orders[one]).total_cmp(&value(orders[other]))).unwrap_or(0)
}

/// One half at the primary order, then a quarter of what is left on each side, halving outwards.
fn weight(place: usize, primary: usize) -> f64 {
    match place.abs_diff(primary) {
        0 => 0.5,
        distance => libm::exp2(-(distance as f64 + 2.0)),
    }
}

/// The caps when ε_g changes and nothing else: that of an order is ε_g less a constant, so it moves along.
/// One that has come down to nothing stays there, since it no longer tells its constant.
pub(super) fn moved(caps: &[u64], from: Epsilon, to: Epsilon) -> Vec<u64> {
    let (required, orders) = caps.split_at(1);
    let move_one = |&cap: &u64| if cap == 0 { 0 } else { (cap + to.units()).saturating_sub(from.units()) };
    required.iter().copied().chain(orders.iter().map(move_one)).collect()
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
        Component::Order(place) => cost_units(totals[*place as usize]),
        Component::Infinite => infinite,
        _ => delta,
    };
    components.iter().map(units).collect()
}
