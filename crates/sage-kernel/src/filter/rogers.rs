//! The filter of Rogers and others 2016, the strong theorem the block-composition paper names. Kept for
//! comparison: `strong` admits everything it admits and more. Proof: `proofs/strong.md`.
//!
//! Its bound is no sum within a cap, so admission evaluates the formula on the integer sums.

use crate::cost::{Amounts, Cost};
use crate::filter::price::{as_delta, as_epsilon, as_loss, cost_units, pairs};
use crate::filter::{Caps, Ceiling, Component, Unpriced};

/// Sums of δ, of ε², and of ε(e^ε − 1)/2; the last two are bounded together, by the formula.
pub(super) fn caps(ceiling: Ceiling) -> (Caps, usize) {
    let together = u64::MAX - 1;
    let caps = vec![
        (Component::Delta, ceiling.delta.units() / 2),
        (Component::Squares, together),
        (Component::Mean, together),
    ];
    (caps, 3)
}

pub(super) fn price(cost: &Cost, ceiling: Ceiling) -> Result<Vec<u64>, Unpriced> {
    let (mut squares, mut mean, mut delta) = (0.0, 0.0, 0u64);
    for (epsilon, part_delta, count) in pairs(cost, ceiling)? {
        let (epsilon, count) = (as_loss(epsilon), u64::from(count));
        squares += count as f64 * epsilon * epsilon;
        mean += count as f64 * epsilon * libm::expm1(epsilon) / 2.0;
        delta = delta.saturating_add(part_delta.units().saturating_mul(count));
    }
    Ok(vec![delta, cost_units(squares), cost_units(mean)])
}

pub(super) fn admits(ceiling: Ceiling, spent: &[u128], asked: &[u64]) -> bool {
    let after = |place: usize| spent[place] + u128::from(asked[place]);
    loss(after(1), after(2), ceiling) <= as_epsilon(ceiling.epsilon)
}

/// The most repetitions the formula allows, at most `most`; it grows with each, so halving finds it.
pub(super) fn fits(ceiling: Ceiling, spent: &[u128], asked: &Amounts, most: u64) -> u64 {
    let after = |place: usize, times: u64| {
        spent[place].saturating_add(u128::from(asked.0[place]).saturating_mul(u128::from(times)))
    };
    let (mut fits, mut fails) = (0, most.saturating_add(1));
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        if loss(after(1, middle), after(2, middle), ceiling) <= as_epsilon(ceiling.epsilon) {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits
}

pub(super) fn odometer(spent: &[u128], ceiling: Ceiling) -> u64 {
    if spent[1] == 0 { 0 } else { cost_units(loss(spent[1], spent[2], ceiling)) }
}

/// Their theorem 5.1, moved up a little; without a bound where δ_g is out of its range.
fn loss(squares: u128, mean: u128, ceiling: Ceiling) -> f64 {
    let (epsilon, delta) = (as_epsilon(ceiling.epsilon), as_delta(ceiling.delta.units()));
    if delta <= 0.0 || delta >= 1.0 / std::f64::consts::E {
        return f64::INFINITY;
    }
    let (squares, mean) = (squares as f64 / 1e12, mean as f64 / 1e12);
    let tuning = epsilon * epsilon / (28.04 * libm::log(1.0 / delta));
    let spread = 1.0 + 0.5 * libm::log1p(squares / tuning);
    let deviation = libm::sqrt(2.0 * (squares + tuning) * spread * libm::log(2.0 / delta));
    (mean + deviation) * (1.0 + 1e-12)
}
