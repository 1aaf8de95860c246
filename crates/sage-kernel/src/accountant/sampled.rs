//! The Poisson-sampled Gaussian: the cost of one step of private training.
//!
//! Integer orders use the exact binomial sum of Mironov, Talwar and Zhang
//! (2019). A ledger must use [`sampled_gaussian`] alone at fractional orders:
//! it interpolates the exact sums, which stays an upper bound for noise drawn
//! on a grid. The quadrature is for continuous noise and for planning.

use libm::{exp, expm1, log, log1p};

use super::convert::conversion;
use super::curve::{DENSE_ORDERS, log_expm1, log_one_plus_exp};
use super::gaussian::LOG_SQRT_TWO_PI;
use super::parameter::{AccountantError, Certified, order, positive, raise, rate};

/// The largest order summed term by term; above it the unsampled cost is used.
const LARGEST_SUMMED: f64 = 4096.0;
/// Terms this far below the largest, in log, are bounded and not evaluated.
const NEGLIGIBLE: f64 = 42.0;

/// The parts of the binomial sum that do not depend on the order.
struct Moments {
    log_factorial: Vec<f64>,
    /// `k ln(q/(1-q)) + ln(e^{k(k-1)/(2 sigma^2)} - 1)` for each `k >= 2`.
    log_term: Vec<f64>,
    log_rest: f64,
    log_odds: f64,
}

impl Moments {
    fn new(largest: usize, q: f64, sigma: f64) -> Self {
        let log_rest = log1p(-q);
        let log_odds = log(q) - log_rest;
        let mut log_factorial = Vec::with_capacity(largest + 1);
        let mut log_term = Vec::with_capacity(largest + 1);
        // A compensated sum: a plain one would lose up to 3e-10 by order 1024.
        let (mut sum, mut lost) = (0.0, 0.0);
        for index in 0..=largest {
            let k = index as f64;
            if index >= 2 {
                let term = log(k) - lost;
                let next = sum + term;
                (lost, sum) = ((next - sum) - term, next);
            }
            log_factorial.push(sum);
            let exponent = 0.5 * (k * (k - 1.0) / sigma) / sigma;
            log_term.push(k * log_odds + log_expm1(exponent));
        }
        Self { log_factorial, log_term, log_rest, log_odds }
    }

    /// An upper bound of `ln A` at an integer order: the log of the moment
    /// `E_Q[(P/Q)^order]`.
    fn log_moment(&self, order: usize, exponents: &mut Vec<f64>) -> f64 {
        if order < 2 {
            return 0.0;
        }
        let top = self.log_factorial[order] + order as f64 * self.log_rest;
        exponents.clear();
        let mut largest = f64::NEG_INFINITY;
        for k in 2..=order {
            let exponent = self.log_term[k] - self.log_factorial[k] - self.log_factorial[order - k];
            exponents.push(exponent);
            largest = largest.max(exponent);
        }
        if largest == f64::INFINITY {
            return f64::INFINITY;
        }
        if largest == f64::NEG_INFINITY {
            return f64::MIN_POSITIVE;
        }
        let mut sum = 0.0;
        for &exponent in exponents.iter() {
            // The difference, not the exponent, is compared: beyond 1e18 `largest - 42` is `largest` again,
            // and without its largest term the sum would be nothing.
            let below = largest - exponent;
            if below < NEGLIGIBLE {
                sum += exp(-below);
            }
        }
        let log_sum = top + largest + log(sum);
        // What the exponents may have lost, the terms left out included.
        let slack = 1e-10 + 1e-15 * order as f64 * (10.0 + self.log_odds.abs());
        raise(log_one_plus_exp(log_sum), slack)
    }
}

/// The cost at `alpha` from the log moments at the integers around it; log
/// moments are convex in the order, so the chord is above.
fn interpolate(alpha: f64, mut log_moment: impl FnMut(usize) -> f64) -> f64 {
    let floor = alpha.floor();
    let fraction = alpha - floor;
    let below = log_moment(floor as usize);
    let total = if fraction == 0.0 {
        below
    } else {
        (1.0 - fraction) * below + fraction * log_moment(floor as usize + 1)
    };
    raise(total / (alpha - 1.0), 8.0 * f64::EPSILON)
}

/// The cost of one step at each order, for rate `q` and noise `sigma`.
///
/// # Guarantee
/// Each value is at least the Renyi divergence of its order in both
/// directions under add/remove, for continuous and for discrete noise, if
/// every record is drawn independently with probability `q`. Never more than
/// the unsampled Gaussian's cost, up to rounding.
pub fn sampled_gaussian_curve(orders: &[f64], q: f64, sigma: f64) -> Certified<Vec<f64>> {
    rate(q, "sampling rate")?;
    positive(sigma, "sigma")?;
    let mut largest = 2;
    for &alpha in orders {
        order(alpha)?;
        if alpha <= LARGEST_SUMMED {
            largest = largest.max(alpha.ceil() as usize);
        }
    }
    if q == 0.0 {
        return Ok(vec![0.0; orders.len()]);
    }
    let unsampled = |alpha: f64| raise(0.5 * (alpha / sigma) / sigma, 8.0 * f64::EPSILON);
    if q == 1.0 {
        return Ok(orders.iter().map(|&alpha| unsampled(alpha)).collect());
    }
    let moments = Moments::new(largest, q, sigma);
    let mut known = vec![f64::NAN; largest + 1];
    let mut scratch = Vec::with_capacity(largest);
    let mut cost = |alpha: f64| {
        if alpha > LARGEST_SUMMED {
            return unsampled(alpha);
        }
        let sampled = interpolate(alpha, |integer| {
            if known[integer].is_nan() {
                known[integer] = moments.log_moment(integer, &mut scratch);
            }
            known[integer]
        });
        sampled.min(unsampled(alpha))
    };
    Ok(orders.iter().map(|&alpha| cost(alpha)).collect())
}

/// The cost of one step at one order; what a ledger charges.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A threshold that rounded up to the largest term once dropped every term: no noise cost nothing.
    #[test]
    fn almost_no_noise_is_never_cheap() {
        for sigma in [1e-9, 1e-8, 1e-7, 5e-7, 1e-6, 1e-5, 1e-3] {
            let orders = super::super::DENSE_ORDERS;
            let curve = sampled_gaussian_curve(&orders, 0.01, sigma).expect("in range");
            for (&alpha, &cost) in orders.iter().zip(&curve) {
                // The last term of the moment alone: q^alpha e^{alpha(alpha-1)/(2 sigma^2)}.
                let least = (alpha * log(0.01) / (alpha - 1.0)) + 0.5 * (alpha / sigma) / sigma;
                assert!(cost >= least * (1.0 - 1e-9), "sigma {sigma}, order {alpha}: {cost} < {least}");
            }
        }
    }
}
