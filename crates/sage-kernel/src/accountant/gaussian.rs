//! The normal distribution and the exact privacy of Gaussian noise.
//!
//! `mu` is sensitivity over standard deviation. Deltas are rounded up and the
//! largest admissible `mu` down. The tail must not underflow, so the normal
//! distribution is computed in logs (`proofs/gaussian.md`).

use libm::{erfc, exp, expm1, log, log1p};

use sage_numerics::bisect;

use super::parameter::{Certified, not_negative, positive, probability, raise};

/// `ln sqrt(2 pi)`.
pub(super) const LOG_SQRT_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// `P(Z > x)` for a standard normal `Z`, to a few units in the last place.
pub(super) fn normal_tail(x: f64) -> f64 {
    0.5 * erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `ln P(Z <= x)` for a standard normal `Z`, accurate far into the tail.
///
/// # Guarantee
/// Relative error below 1e-14 for finite `x`; NaN only if `x` is NaN.
pub fn log_normal_cdf(x: f64) -> f64 {
    if x > 0.0 {
        return log1p(-normal_tail(x));
    }
    if x > -25.0 {
        return log(normal_tail(-x));
    }
    if x < -1e150 {
        return f64::NEG_INFINITY;
    }
    // Mills' asymptotic series; at 25 its eighth term is below 1e-16.
    let inverse_square = 1.0 / (x * x);
    let mut term = 1.0;
    let mut series = 0.0;
    for k in 1..=8 {
        term *= -f64::from(2 * k - 1) * inverse_square;
        series += term;
    }
    -0.5 * x * x - LOG_SQRT_TWO_PI - log(-x) + log1p(series)
}

/// An upper bound on delta at `epsilon` for a Gaussian mechanism of `mu`.
fn delta_above(mu: f64, epsilon: f64) -> f64 {
    let ratio = epsilon / mu;
    let (near, far) = (0.5 * mu - ratio, -0.5 * mu - ratio);
    if near > 40.0 {
        return 1.0;
    }
    let log_near = log_normal_cdf(near);
    if near < -40.0 {
        return raise(exp(log_near), 1e-9);
    }
    let log_far = epsilon + log_normal_cdf(far);
    let difference = -expm1((log_far - log_near).min(0.0));
    // Each log has an error of some units in the last place of the squared
    // argument; the difference of the two may cancel down to that error.
    let error = 16.0 * f64::EPSILON * (1.0 + (ratio + mu) * (ratio + mu));
    raise(exp(log_near) * (difference + error), 8.0 * f64::EPSILON).min(1.0)
}

/// Delta at `epsilon` for Gaussian noise of `sensitivity / deviation = mu`
/// (Balle and Wang 2018).
///
/// # Guarantee
/// At least the exact delta; above it by a relative 1e-9 where `mu > 1e-5`.
pub fn gaussian_delta(mu: f64, epsilon: f64) -> Certified<f64> {
    positive(mu, "mu")?;
    not_negative(epsilon, "epsilon")?;
    Ok(delta_above(mu, epsilon))
}

/// The epsilon of a Gaussian mechanism of `mu` at `delta`.
///
/// # Guarantee
/// The mechanism is `(epsilon, delta)`-DP for the returned epsilon: the upper
/// end of a bisection down to adjacent floats.
pub fn gaussian_epsilon(mu: f64, delta: f64) -> Certified<f64> {
    positive(mu, "mu")?;
    probability(delta, "delta")?;
    if delta_above(mu, 0.0) <= delta {
        return Ok(0.0);
    }
    let mut high = mu;
    while delta_above(mu, high) > delta {
        high *= 2.0;
        if !high.is_finite() {
            return Err(super::AccountantError::Unbounded);
        }
    }
    Ok(bisect(high, 0.0, |epsilon| delta_above(mu, epsilon) <= delta))
}
