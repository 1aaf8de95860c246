//! One-sided quantiles of noise, rounded outward.
//!
//! They are used for intervals around released numbers: post-processing, which must never decide a charge.

use libm::{ceil, expm1, log};
use sage_kernel::accountant::{AccountantError, Certified};

use super::gaussian::normal_quantile;
use super::number::{positive, probability};

/// The `t` with `P(X > t) <= beta` for continuous Laplace noise of scale
/// `1 / epsilon`.
///
/// # Guarantee
/// `t >= ln(1/(2 beta)) / epsilon`, and at least zero.
pub fn laplace_quantile(epsilon: f64, beta: f64) -> Certified<f64> {
    positive(epsilon, "epsilon")?;
    probability(beta, "beta")?;
    if beta >= 0.5 {
        return Ok(0.0);
    }
    Ok(-log(2.0 * beta) / epsilon * (1.0 + 4.0 * f64::EPSILON))
}

/// The smallest integer `t` with `P(X > t) <= beta` for discrete Laplace noise
/// of scale `scale` (mass proportional to `e^{-|x|/scale}`).
///
/// # Guarantee
/// `P(X > t) <= beta`; never one too small, at most one too large.
pub fn discrete_laplace_quantile(scale: f64, beta: f64) -> Certified<u64> {
    positive(scale, "scale")?;
    probability(beta, "beta")?;
    // P(X > t) = a^{t+1}/(1+a) with a = e^{-1/scale}; 1 + a without loss.
    let one_plus = 2.0 + expm1(-1.0 / scale);
    let exact = -scale * log(beta * one_plus) - 1.0;
    let outward = exact + 1e-14 * (1.0 + scale * (1.0 + log(beta).abs()));
    integer_at_least(outward)
}

/// An integer `t` with `P(X > t) <= beta` for discrete Gaussian noise, by
/// `P(X >= m) <= P(N(0, sigma^2) >= m - 1)`.
///
/// # Guarantee
/// `P(X > t) <= beta`.
pub fn discrete_gaussian_quantile(sigma: f64, beta: f64) -> Certified<u64> {
    positive(sigma, "sigma")?;
    let quantile = -normal_quantile(beta)?;
    integer_at_least(sigma * quantile * (1.0 + 1e-12 * quantile.signum()))
}

fn integer_at_least(value: f64) -> Certified<u64> {
    let integer = ceil(value.max(0.0));
    // Beyond 2^53 an `f64` cannot represent every integer.
    if integer < 9_007_199_254_740_992.0 { Ok(integer as u64) } else { Err(AccountantError::Unbounded) }
}
