//! Inverses of the exact privacy of Gaussian noise, and quantiles of the normal distribution
//! (`proofs/gaussian.md`).

use libm::{exp, log};
use sage_kernel::accountant::{AccountantError, Certified, gaussian_delta, log_normal_cdf};

use sage_numerics::bisect;

use super::number::{LOG_SQRT_TWO_PI, not_negative, positive, probability, raise};

/// The `p` quantile of the standard normal distribution.
///
/// # Guarantee
/// Within 1e-12 relative (or 1e-15) of the quantile, for `0 < p < 1`.
pub fn normal_quantile(p: f64) -> Certified<f64> {
    probability(p, "probability")?;
    if p == 0.5 {
        return Ok(0.0);
    }
    if p > 0.5 {
        return Ok(-lower_quantile(1.0 - p));
    }
    Ok(lower_quantile(p))
}

/// The quantile at `p <= 1/2`, by Newton steps on the concave `ln Phi`: from
/// the left of the root they never overshoot.
fn lower_quantile(p: f64) -> f64 {
    let target = log(p);
    let mut x = -(-2.0 * (target + std::f64::consts::LN_2)).max(0.0).sqrt();
    for _ in 0..60 {
        let value = log_normal_cdf(x);
        let slope = exp(-0.5 * x * x - LOG_SQRT_TWO_PI - value);
        let next = x - (value - target) / slope;
        if (next - x).abs() <= 1e-16 * (1.0 + x.abs()) || !next.is_finite() {
            break;
        }
        x = next.min(0.0);
    }
    x
}

/// The largest `mu` whose Gaussian mechanism is `(epsilon, delta)`-DP.
///
/// # Guarantee
/// The `mu` returned satisfies [`gaussian_delta`]`(mu, epsilon) <= delta`: the
/// lower end of a bisection.
pub fn gaussian_mu(epsilon: f64, delta: f64) -> Certified<f64> {
    not_negative(epsilon, "epsilon")?;
    probability(delta, "delta")?;
    let holds = |mu: f64| gaussian_delta(mu, epsilon).is_ok_and(|found| found <= delta);
    let mut high = 1.0;
    while holds(high) && high < 1e150 {
        high *= 2.0;
    }
    let mut low = high;
    while !holds(low) {
        low *= 0.5;
        if low < 1e-290 {
            return Err(AccountantError::Unbounded);
        }
    }
    Ok(bisect(low, high, holds))
}

/// The smallest noise, in sensitivities, that makes one Gaussian release
/// `(epsilon, delta)`-DP.
///
/// # Guarantee
/// Rounded up: the release with this sigma is `(epsilon, delta)`-DP.
pub fn gaussian_sigma(epsilon: f64, delta: f64) -> Certified<f64> {
    let mu = gaussian_mu(epsilon, delta)?;
    Ok((1.0 / mu) * (1.0 + 4.0 * f64::EPSILON))
}

/// The `mu` of a Gaussian mechanism that dominates every `epsilon`-DP one.
///
/// # Guarantee
/// Rounded up. Above epsilon 700 no useful `mu` exists and none is given.
pub fn pure_to_gdp(epsilon: f64) -> Certified<f64> {
    positive(epsilon, "epsilon")?;
    if epsilon > 700.0 {
        return Err(AccountantError::Unbounded);
    }
    if epsilon < 1e-6 {
        // 2 Phi^{-1} has slope sqrt(2 pi)/2 at the centre and the logistic is
        // concave above it; the quantile itself would cancel here.
        return Ok(raise(epsilon * 1.253_314_137_315_500_4, 1e-12));
    }
    let quantile = normal_quantile(1.0 / (1.0 + exp(epsilon)))?;
    Ok(raise(-2.0 * quantile, 1e-9))
}
