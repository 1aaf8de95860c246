//! The regularised incomplete beta function for real arguments, and the limits of Clopper and Pearson.
//!
//! The factor before the continued fraction is computed from the deviance of a binomial and the remainders of
//! Stirling's formula (Loader 2000), because a difference of log-factorials loses eight digits at ten million rows.
//! The fraction is evaluated by Lentz's method; it takes about √n steps for n rows.

use libm::{exp, log1p, sqrt};

use super::decide::evidence;
use sage_numerics::bisect;

/// The largest sum of arguments: more rows than any lane has; the fraction still converges within seconds.
const LARGEST: f64 = 1e12;

/// The most steps of the continued fraction, several times what the largest arguments take.
const STEPS: u32 = 20_000_000;

/// I_x(a, b), the probability that a beta variable is below x; for whole numbers the probability of at least `a`
/// successes in a + b − 1 trials.
///
/// Relative error below 1e-10 where it is at most one half. `None` unless a and b are above zero, together at most
/// 10^12, and x is from zero to one.
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> Option<f64> {
    let fine = a >= f64::MIN_POSITIVE && b >= f64::MIN_POSITIVE && a + b <= LARGEST && (0.0..=1.0).contains(&x);
    if !fine {
        return None;
    }
    if x == 0.0 || x == 1.0 {
        return Some(x);
    }
    // The fraction converges fast where x is on this side of the mean; otherwise use the symmetry.
    if x <= (a + 1.0) / (a + b + 2.0) {
        Some((factor(x, a, b) / a * fraction(x, a, b)?).min(1.0))
    } else {
        Some((1.0 - factor(x, a, b) / b * fraction(1.0 - x, b, a)?).max(0.0))
    }
}

/// x^a (1 − x)^b / B(a, b).
fn factor(x: f64, a: f64, b: f64) -> f64 {
    let root = sqrt(a / (a + b)) * sqrt(b) / sqrt(2.0 * std::f64::consts::PI);
    root * exp(stirling(a + b) - stirling(a) - stirling(b) - evidence(a, b, x))
}

/// ln Γ(z) − (z − 1/2) ln z + z − ln √(2π), by its series beyond sixteen and by recurrence below.
fn stirling(z: f64) -> f64 {
    if z < 16.0 {
        return stirling(z + 1.0) + (z + 0.5) * log1p(1.0 / z) - 1.0;
    }
    let square = 1.0 / (z * z);
    let tail = 1.0 / 1680.0 - square * (1.0 / 1188.0 - square * (691.0 / 360_360.0 - square / 156.0));
    (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * tail))) / z
}

/// The continued fraction of I_x(a, b) by Lentz's method; `None` if it does not converge.
fn fraction(x: f64, a: f64, b: f64) -> Option<f64> {
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = denominator;
    for step in 1..=STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        denominator = 1.0 / away_from_zero(1.0 + even * denominator);
        numerator = away_from_zero(1.0 + even / numerator);
        result *= denominator * numerator;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        denominator = 1.0 / away_from_zero(1.0 + odd * denominator);
        numerator = away_from_zero(1.0 + odd / numerator);
        let change = denominator * numerator;
        result *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            return Some(result);
        }
    }
    None
}

/// Clopper-Pearson limits of a success rate after `successes` in `trials`, each missed with probability at most
/// `chance`.
///
/// Both counts may be real numbers. If a limit cannot be computed, it is zero or one.
pub fn clopper_pearson(successes: f64, trials: f64, chance: f64) -> (f64, f64) {
    let failures = trials - successes;
    (lower_limit(successes, failures, chance), 1.0 - lower_limit(failures, successes, chance))
}

/// The largest rate at which `successes` or more have probability at most `chance`.
pub(super) fn lower_limit(successes: f64, failures: f64, chance: f64) -> f64 {
    if !(successes > 0.0 && failures >= 0.0 && chance > 0.0) {
        return 0.0;
    }
    bisect(0.0, 1.0, |rate| incomplete_beta(rate, successes, failures + 1.0).is_some_and(|tail| tail <= chance))
}
