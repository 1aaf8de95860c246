//! Exact confidence bounds for binomial trials, and quantiles of the normal distribution.

use libm::sqrt;

use crate::plan::normal_quantile;
use crate::validate::incomplete_beta;
use sage_numerics::bisect;

/// The upper Clopper-Pearson bound of a success probability; it fails with probability at most `chance`.
pub(super) fn upper(successes: usize, trials: usize, chance: f64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    let (k, n) = (successes as f64, trials as f64);
    bisect(1.0, 0.0, |p| incomplete_beta(p, k + 1.0, n - k).is_some_and(|below| below >= 1.0 - chance))
}

/// The lower Clopper-Pearson bound of a success probability; it fails with probability at most `chance`.
pub(super) fn lower(successes: usize, trials: usize, chance: f64) -> f64 {
    1.0 - upper(trials - successes, trials, chance)
}

/// Wilson's score interval, a fast approximation of both bounds: it is used to choose an event, never to judge one.
pub(super) fn wilson_interval(successes: usize, trials: usize, deviations: f64) -> (f64, f64) {
    let (n, share) = (trials as f64, successes as f64 / trials as f64);
    let square = deviations * deviations;
    let middle = share + square / (2.0 * n);
    let reach = deviations * sqrt(share * (1.0 - share) / n + square / (4.0 * n * n));
    let scale = 1.0 + square / n;
    ((middle - reach) / scale, (middle + reach) / scale)
}

/// The probability of at least `successes` successes in `trials` trials.
pub(super) fn at_least(successes: usize, trials: usize, probability: f64) -> f64 {
    match successes {
        0 => 1.0,
        _ if successes > trials => 0.0,
        // If the tail cannot be computed, one is a safe bound.
        _ => incomplete_beta(probability, successes as f64, (trials - successes) as f64 + 1.0).unwrap_or(1.0),
    }
}

/// Φ⁻¹, with infinite values at zero and one.
pub(super) fn quantile(p: f64) -> f64 {
    normal_quantile(p).unwrap_or(if p <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability of exactly `successes` successes, by multiplication.
    fn exactly(successes: usize, trials: usize, p: f64) -> f64 {
        let choose: f64 = (0..successes).map(|index| (trials - index) as f64 / (index + 1) as f64).product();
        choose * p.powi(successes as i32) * (1.0 - p).powi((trials - successes) as i32)
    }

    #[test]
    fn tails_are_sums() {
        for (trials, p) in [(1, 0.3), (7, 0.5), (40, 0.9), (40, 0.01)] {
            for successes in 0..=trials + 1 {
                let sum: f64 = (successes..=trials).map(|k| exactly(k, trials, p)).sum();
                let found = at_least(successes, trials, p);
                assert!((found - sum).abs() < 1e-12, "{successes} of {trials} at {p}: {found}, {sum}");
            }
        }
    }

    /// At the bound the tail has the requested probability.
    #[test]
    fn bounds_leave_the_chance_they_were_given() {
        for trials in [10, 1000, 50_000] {
            for successes in [0, 1, trials / 3, trials - 1] {
                for chance in [0.025, 1e-7] {
                    let high = upper(successes, trials, chance);
                    let left = 1.0 - at_least(successes + 1, trials, high);
                    // Near one, floats are too coarse for exactly this tail; it may be smaller.
                    let share = left / chance;
                    assert!((0.999..1.0 + 1e-6).contains(&share), "{successes} of {trials}: {share} of {chance}");
                    assert!(lower(successes, trials, chance) <= successes as f64 / trials as f64);
                }
            }
            assert!(upper(trials, trials, 0.01) == 1.0 && lower(0, trials, 0.01) == 0.0);
        }
    }

    #[test]
    fn wilson_interval_approximates_the_exact_bounds() {
        let (low, high) = wilson_interval(300, 1000, 1.96);
        assert!((low - lower(300, 1000, 0.025)).abs() < 2e-3 && (high - upper(300, 1000, 0.025)).abs() < 2e-3);
    }
}
