//! Renyi cost curves: the cost of one use of a mechanism at each order.
//!
//! A curve must never be below the divergence that it bounds, at any order and
//! in either direction; it may be above. Every value is therefore raised by
//! more than its rounding error (`proofs/curves.md`).

use libm::{exp, expm1, log, log1p};

use super::parameter::{Certified, order, positive, raise};

/// The default orders of a ledger (theory 3.4).
pub const ORDERS: [f64; 32] = [
    1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0,
    40.0, 48.0, 56.0, 64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 512.0, 1024.0,
];

/// Slack for formulas whose relative error stays below 1e-11.
const SLACK: f64 = 1e-10;
/// The slack that the specification requires for the pure curve.
const PURE_SLACK: f64 = 1e-8;
/// Below this epsilon the closed forms cancel and the quadratic bound is used.
const SMALL_EPSILON: f64 = 1e-3;

/// A bound for every pure mechanism: `min(eps, alpha eps^2 / 2)`.
fn quadratic(alpha: f64, epsilon: f64) -> f64 {
    epsilon.min(0.5 * alpha * epsilon * epsilon)
}

/// The cost of any `epsilon`-DP mechanism at order `alpha`; tight for the
/// class, attained by randomised response.
///
/// # Guarantee
/// For finite `alpha > 1`, `epsilon > 0`: at least the Renyi divergence of
/// order `alpha` between neighbours, in both directions. Anything else is
/// refused.
pub fn pure(alpha: f64, epsilon: f64) -> Certified<f64> {
    order(alpha)?;
    positive(epsilon, "epsilon")?;
    let ceiling = quadratic(alpha, epsilon);
    if epsilon < SMALL_EPSILON {
        return Ok(raise(ceiling, SLACK));
    }
    let saved = log1p(exp(-epsilon)) - log1p(exp(-(2.0 * alpha - 1.0) * epsilon));
    let cost = raise(epsilon - saved / (alpha - 1.0), PURE_SLACK) + 4.0 * f64::EPSILON / (alpha - 1.0);
    Ok(cost.min(raise(ceiling, SLACK)))
}

/// The cost of discrete Laplace noise of scale `units / epsilon` on a sum of
/// integer sensitivity `units`.
///
/// # Guarantee
/// As [`pure`], for every `units >= 1`.
pub fn discrete_laplace(alpha: f64, epsilon: f64, units: u64) -> Certified<f64> {
    let ceiling = pure(alpha, epsilon)?;
    positive(units as f64, "units")?;
    let per_unit = epsilon / units as f64;
    if epsilon < SMALL_EPSILON || !per_unit.is_normal() {
        return Ok(ceiling);
    }
    // With a = e^{-per_unit} and r = a^{2 alpha - 1}, and e^{(alpha-1) eps}
    // factored out, the moment is
    //   [1 + r^units + (1-a) r (1-r^{units-1})/(1-r)] / (1+a),
    // from which one is subtracted.
    let twice = 2.0 * alpha - 1.0;
    let below_one = -expm1(-per_unit);
    let ratio_below_one = -expm1(-twice * per_unit);
    let interior = exp(-twice * per_unit) * -expm1(-twice * (epsilon - per_unit));
    let inner = (below_one - 1.0 + exp(-twice * epsilon) + below_one * interior / ratio_below_one) / (2.0 - below_one);
    let cost = raise(epsilon + log1p(inner) / (alpha - 1.0), SLACK) + 16.0 * f64::EPSILON / (alpha - 1.0);
    Ok(cost.min(ceiling))
}

/// The cost of (discrete) Gaussian noise of `sigma` sensitivities.
///
/// # Guarantee
/// As [`pure`]: `alpha / (2 sigma^2)`, rounded up.
pub fn gaussian(alpha: f64, sigma: f64) -> Certified<f64> {
    order(alpha)?;
    positive(sigma, "sigma")?;
    // Divide twice: sigma^2 may overflow where the cost does not.
    Ok(raise(0.5 * (alpha / sigma) / sigma, 8.0 * f64::EPSILON))
}

/// `ln(1 + x)` given `ln x`.
pub(super) fn log_one_plus_exp(log_value: f64) -> f64 {
    if log_value < 0.0 { log1p(exp(log_value)) } else { log_value + log1p(exp(-log_value)) }
}

/// `ln(e^x - 1)` for `x > 0`, without overflow.
pub(super) fn log_expm1(value: f64) -> f64 {
    if value < 1.0 { log(expm1(value)) } else { value + log1p(-exp(-value)) }
}
