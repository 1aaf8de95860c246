//! Conversion from Renyi curves to (epsilon, delta) and back.
//!
//! The conversion is Canonne, Kamath and Steinke 2020, Proposition 12. An adaptive
//! filter must never use it to choose an order after the fact: the minimum over
//! orders is valid only for compositions that are fixed in advance
//! (`proofs/conversion.md`).

use libm::{exp, log, log1p, tanh};

use super::parameter::{AccountantError, Certified, lowest_point, not_negative, order, positive, probability, raise};

/// The amount to add to a cost at order `alpha` to get the epsilon at `delta`; may
/// be negative.
///
/// # Guarantee
/// At least `ln(1 - 1/alpha) - (ln delta + ln alpha)/(alpha - 1)`, and above it by at
/// most a few units in the last place of its terms.
pub fn conversion(alpha: f64, delta: f64) -> Certified<f64> {
    order(alpha)?;
    probability(delta, "delta")?;
    Ok(conversion_above(alpha, delta))
}

fn conversion_above(alpha: f64, delta: f64) -> f64 {
    let first = log1p(-1.0 / alpha);
    let (log_delta, log_alpha) = (log(delta), log(alpha));
    let second = (log_delta + log_alpha) / (alpha - 1.0);
    let size = first.abs() + (log_delta.abs() + log_alpha) / (alpha - 1.0);
    first - second + 8.0 * f64::EPSILON * size
}

/// The smallest epsilon over the orders of a composed curve.
///
/// # Guarantee
/// If `costs[i]` bounds the divergence of order `orders[i]`, the composition
/// is `(epsilon, delta)`-DP. Infinite costs are skipped; if no cost is finite,
/// the result is `Unbounded`.
pub fn epsilon_from_curve(orders: &[f64], costs: &[f64], delta: f64) -> Certified<f64> {
    if orders.len() != costs.len() {
        return Err(AccountantError::Parameter("curve length"));
    }
    let mut best = f64::INFINITY;
    for (&alpha, &cost) in orders.iter().zip(costs) {
        let added = conversion(alpha, delta)?;
        if cost.is_nan() || cost < 0.0 {
            return Err(AccountantError::Parameter("cost"));
        }
        best = best.min((cost + added).max(0.0) * (1.0 + 2.0 * f64::EPSILON));
    }
    if best.is_finite() { Ok(best) } else { Err(AccountantError::Unbounded) }
}

/// The largest `rho` whose zCDP implies `(epsilon, delta)`-DP.
///
/// # Guarantee
/// Rounded down: there is an order at which `rho` converts to at most
/// `epsilon`. Zero if there is none.
pub fn rho_for(epsilon: f64, delta: f64) -> Certified<f64> {
    not_negative(epsilon, "epsilon")?;
    probability(delta, "delta")?;
    let shortfall = |log_excess: f64| {
        let alpha = 1.0 + exp(log_excess);
        (conversion_above(alpha, delta) - epsilon) / alpha
    };
    // Every useful order has its `ln(alpha - 1)` in this interval.
    let best = -shortfall(lowest_point(-20.0, 60.0, shortfall));
    // The subtraction may cancel; the specification lowers caps by 1e-9 later.
    let lowered = best * (1.0 - 1e-13) - 4.0 * f64::EPSILON * (epsilon + 1e-3);
    Ok(if lowered.is_finite() { lowered.max(0.0) } else { 0.0 })
}

/// The zCDP cost of any `epsilon`-DP mechanism: `epsilon tanh(epsilon / 2)`.
///
/// # Guarantee
/// Rounded up; at most `epsilon^2 / 2` up to rounding.
pub fn pure_to_zcdp(epsilon: f64) -> Certified<f64> {
    positive(epsilon, "epsilon")?;
    Ok(raise(epsilon * tanh(0.5 * epsilon), 1e-14))
}
