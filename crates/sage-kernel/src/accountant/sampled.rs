//! The Poisson-sampled Gaussian: the cost of one step of private training.
//!
//! Integer orders use the exact binomial sum of Mironov, Talwar and Zhang
//! (2019). Fractional orders interpolate the exact sums, which stays an upper
//! bound for noise drawn on a grid; a quadrature for continuous noise would not.

use libm::{exp, log, log1p};

use super::curve::{log_expm1, log_one_plus_exp};
use super::parameter::{Certified, order, positive, raise, rate};

/// The largest order that is summed term by term; above it the unsampled cost is used.
const LARGEST_SUMMED: f64 = 4096.0;
/// Terms this far below the largest, in log, are covered by the slack and not evaluated.
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

    /// An upper bound on `ln A` at an integer order: the log of the moment
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
            // The difference is compared, not the exponent: beyond 1e18 `largest - 42` rounds to `largest`,
            // and the sum would lose its largest term.
            let below = largest - exponent;
            if below < NEGLIGIBLE {
                sum += exp(-below);
            }
        }
        let log_sum = top + largest + log(sum);
        // Covers the rounding of the exponents and the omitted terms.
        let slack = 1e-10 + 1e-15 * order as f64 * (10.0 + self.log_odds.abs());
        raise(log_one_plus_exp(log_sum), slack)
    }
}

/// The cost at `alpha` from the log moments at the adjacent integers. Log moments
/// are convex in the order, so the chord is an upper bound.
fn interpolate(alpha: f64, mut log_moment: impl FnMut(usize) -> f64) -> f64 {
    let floor = alpha.floor();
    let fraction = alpha - floor;
    let below = log_moment(floor as usize);
    let total =
        if fraction == 0.0 { below } else { (1.0 - fraction) * below + fraction * log_moment(floor as usize + 1) };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A threshold that rounded to the largest term once dropped every term, so that almost no noise was free.
    #[test]
    fn almost_no_noise_is_never_cheap() {
        for sigma in [1e-9, 1e-8, 1e-7, 5e-7, 1e-6, 1e-5, 1e-3] {
            let orders = super::super::ORDERS;
            let curve = sampled_gaussian_curve(&orders, 0.01, sigma).expect("in range");
            for (&alpha, &cost) in orders.iter().zip(&curve) {
                // The last term of the moment alone: q^alpha e^{alpha(alpha-1)/(2 sigma^2)}.
                let least = (alpha * log(0.01) / (alpha - 1.0)) + 0.5 * (alpha / sigma) / sigma;
                assert!(cost >= least * (1.0 - 1e-9), "sigma {sigma}, order {alpha}: {cost} < {least}");
            }
        }
    }
}
