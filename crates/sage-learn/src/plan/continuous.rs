//! Renyi costs of continuous noise, and the epsilon of a training run by them.
//!
//! Samplers draw on grids, so a ledger must never charge these: they are for planning and for
//! comparison with accountants that assume continuous noise (`proofs/continuous.md`).

use libm::{exp, expm1, log1p};
use sage_kernel::accountant::{AccountantError, Certified, conversion, pure, sampled_gaussian_curve};

use super::number::{LOG_SQRT_TWO_PI, raise};

/// Orders for calibration: every integer up to 64, then a coarser tail.
pub const DENSE_ORDERS: [f64; 80] = dense_orders();

const fn dense_orders() -> [f64; 80] {
    let mut orders = [0.0; 80];
    let tail = [
        72.0, 80.0, 88.0, 96.0, 112.0, 128.0, 160.0, 192.0, 224.0, 256.0, 320.0, 384.0, 448.0, 512.0, 640.0, 768.0,
        1024.0,
    ];
    let mut index = 0;
    while index < 63 {
        orders[index] = (index + 2) as f64;
        index += 1;
    }
    while index < 80 {
        orders[index] = tail[index - 63];
        index += 1;
    }
    orders
}

/// Below this epsilon the closed form cancels and the bound of all pure mechanisms is used.
const SMALL_EPSILON: f64 = 1e-3;

/// The cost of continuous Laplace noise of scale `sensitivity / epsilon`.
///
/// # Guarantee
/// As [`pure`], for continuous noise alone: a sampler on a grid must declare
/// the discrete cost.
pub fn laplace(alpha: f64, epsilon: f64) -> Certified<f64> {
    let ceiling = pure(alpha, epsilon)?;
    if epsilon < SMALL_EPSILON {
        return Ok(ceiling);
    }
    // Factor e^{(alpha-1) eps} out: what remains lies in (0, 1].
    let inner = ((alpha - 1.0) * expm1(-(2.0 * alpha - 1.0) * epsilon)) / (2.0 * alpha - 1.0);
    let cost = epsilon + log1p(inner) / (alpha - 1.0);
    Ok((raise(cost, 1e-10) + 16.0 * f64::EPSILON / (alpha - 1.0)).min(ceiling))
}

/// The cost of one step at one order.
///
/// # Guarantee
/// As [`sampled_gaussian_curve`].
pub fn sampled_gaussian(alpha: f64, q: f64, sigma: f64) -> Certified<f64> {
    let curve = sampled_gaussian_curve(&[alpha], q, sigma)?;
    curve.first().copied().ok_or(AccountantError::Unbounded)
}

/// The cost of one step at any real order, for continuous noise.
///
/// # Guarantee
/// At least the divergence of order `alpha` for continuous Gaussian noise,
/// to the relative accuracy of the quadrature (below 1e-9, added); never more
/// than [`sampled_gaussian`]. Not valid for discrete noise.
pub fn sampled_gaussian_continuous(alpha: f64, q: f64, sigma: f64) -> Certified<f64> {
    let ceiling = sampled_gaussian(alpha, q, sigma)?;
    if alpha.fract() == 0.0 || q == 0.0 || q == 1.0 {
        return Ok(ceiling);
    }
    let excess = moment_excess(alpha, q, sigma);
    if !excess.is_finite() {
        return Ok(ceiling);
    }
    Ok(raise(log1p(excess) / (alpha - 1.0), 1e-9).min(ceiling))
}

/// `E_Q[(P/Q)^alpha] - 1` by the trapezium rule, or infinity where the rule
/// would need too many nodes.
///
/// The mean of `P/Q - 1` is zero, so its multiple is subtracted inside the
/// mean; the integrand is then non-negative and of the order of the answer.
fn moment_excess(alpha: f64, q: f64, sigma: f64) -> f64 {
    // The integrand is analytic up to imaginary part pi sigma^2.
    let step = (0.35 * sigma).min(0.5 * sigma * sigma);
    let (low, high) = (-9.5 * sigma, alpha + 9.5 * sigma);
    let nodes = (high - low) / step;
    if nodes.is_nan() || nodes > 20_000.0 {
        return f64::INFINITY;
    }
    let mut sum = 0.0;
    for index in 0..=(nodes as usize) {
        let z = low + step * index as f64;
        let excess_ratio = q * expm1(0.5 * ((2.0 * z - 1.0) / sigma) / sigma);
        let log_ratio = log1p(excess_ratio);
        let log_weight = -0.5 * (z / sigma) * (z / sigma);
        let power = alpha * log_ratio;
        sum += if power > 30.0 {
            exp(power + log_weight)
        } else {
            exp(log_weight) * (expm1(power) - alpha * excess_ratio).max(0.0)
        };
    }
    sum * exp(-LOG_SQRT_TWO_PI) * step / sigma
}

/// The epsilon of `steps` steps at `delta` by Renyi accounting, over integer
/// orders and then over the real orders beside the best of them.
///
/// # Guarantee
/// The composition of `steps` continuous sampled Gaussians is
/// `(epsilon, delta)`-DP for the epsilon returned.
pub fn sampled_gaussian_epsilon(q: f64, sigma: f64, steps: u64, delta: f64) -> Certified<f64> {
    let steps = steps as f64;
    let curve = sampled_gaussian_curve(&DENSE_ORDERS, q, sigma)?;
    let mut best = f64::INFINITY;
    let mut best_order = 2.0;
    for (&alpha, &cost) in DENSE_ORDERS.iter().zip(&curve) {
        let epsilon = steps * cost + conversion(alpha, delta)?;
        if epsilon < best {
            (best, best_order) = (epsilon, alpha);
        }
    }
    if best_order < 64.0 {
        let mut step = 0.5;
        while step > 0.05 {
            let centre = best_order;
            for alpha in [centre - step, centre + step] {
                if alpha > 1.01 {
                    let cost = sampled_gaussian_continuous(alpha, q, sigma)?;
                    let epsilon = steps * cost + conversion(alpha, delta)?;
                    if epsilon < best {
                        (best, best_order) = (epsilon, alpha);
                    }
                }
            }
            step *= 0.5;
        }
    }
    Ok(raise(best, 8.0 * f64::EPSILON))
}
