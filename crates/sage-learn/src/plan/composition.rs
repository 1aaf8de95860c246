//! Composition of (epsilon, delta) statements: two adaptive filters and the
//! exact optimum for a fixed number of equal queries.
//!
//! The filters are valid for adaptively chosen parameters; the optimum is not, and must never be used by an adaptive
//! ledger (`proofs/composition.md`).

use libm::{exp, expm1, lgamma, log, log1p, sqrt};
use sage_kernel::accountant::{AccountantError, Certified};

use sage_numerics::bisect;

use super::number::{log_one_plus_exp, not_negative, positive, probability, raise};

/// The left side of Rogers et al. 2016, Theorem 5.1, for the epsilons spent so
/// far under a ceiling of `(epsilon_ceiling, delta_ceiling)`.
///
/// # Guarantee
/// Rounded up. Kept for comparison: [`whitehouse_epsilon`] is never larger in
/// the ranges of interest.
pub fn rogers_epsilon(epsilons: &[f64], epsilon_ceiling: f64, delta_ceiling: f64) -> Certified<f64> {
    let (mut drift, mut squares) = (0.0, 0.0);
    for &epsilon in epsilons {
        not_negative(epsilon, "epsilon")?;
        drift += 0.5 * epsilon * expm1(epsilon);
        squares += epsilon * epsilon;
    }
    rogers_sums(drift, squares, epsilon_ceiling, delta_ceiling)
}

/// [`rogers_epsilon`] from the sum of `e (e^e - 1)/2` and that of `e^2`.
pub(super) fn rogers_sums(drift: f64, squares: f64, epsilon_ceiling: f64, delta_ceiling: f64) -> Certified<f64> {
    positive(epsilon_ceiling, "epsilon ceiling")?;
    probability(delta_ceiling, "delta ceiling")?;
    if delta_ceiling >= 1.0 / std::f64::consts::E {
        return Err(AccountantError::Parameter("delta ceiling"));
    }
    let log_inverse = -log(delta_ceiling);
    let mixture = epsilon_ceiling * epsilon_ceiling / (28.04 * log_inverse);
    let spread = 2.0 * (squares + mixture) * (1.0 + 0.5 * log1p(squares / mixture));
    Ok(raise(drift + sqrt(spread * (log_inverse + std::f64::consts::LN_2)), 1e-12))
}

/// The epsilon of Whitehouse et al. 2022 for a sum `squares` of squared
/// epsilons: `sqrt(2 ln(1/delta) squares) + squares/2`.
///
/// # Guarantee
/// Rounded up. While it stays within the ceiling, adaptively chosen pure
/// mechanisms together are `(ceiling, delta)`-DP.
pub fn whitehouse_epsilon(squares: f64, delta: f64) -> Certified<f64> {
    not_negative(squares, "sum of squares")?;
    probability(delta, "delta")?;
    Ok(raise(sqrt(-2.0 * log(delta) * squares) + 0.5 * squares, 1e-14))
}

/// The largest sum of squares [`whitehouse_epsilon`] admits.
///
/// # Guarantee
/// Rounded down: `whitehouse_epsilon(result, delta) <= epsilon`.
pub fn whitehouse_capacity(epsilon: f64, delta: f64) -> Certified<f64> {
    positive(epsilon, "epsilon")?;
    probability(delta, "delta")?;
    let holds = |squares: f64| whitehouse_epsilon(squares, delta).is_ok_and(|k| k <= epsilon);
    Ok(if holds(2.0 * epsilon) { 2.0 * epsilon } else { bisect(0.0, 2.0 * epsilon, holds) })
}

/// The exact delta at `target` of `count` mechanisms, each `(epsilon, delta)`,
/// fixed beforehand (Kairouz, Oh and Viswanath 2015).
///
/// # Guarantee
/// Rounded up by a relative 1e-9. Attained by randomised response.
pub fn optimal_delta(epsilon: f64, delta: f64, count: u32, target: f64) -> Certified<f64> {
    positive(epsilon, "epsilon")?;
    not_negative(target, "target")?;
    if delta != 0.0 {
        probability(delta, "delta")?;
    }
    let count_float = f64::from(count);
    let log_count_factorial = lgamma(count_float + 1.0);
    let log_normaliser = count_float * log_one_plus_exp(epsilon);
    let mut sum = 0.0;
    // With `ups` positive responses the loss is (2 ups - count) epsilon.
    for ups in (0..=count).rev() {
        let ups = f64::from(ups);
        let loss = (2.0 * ups - count_float) * epsilon;
        if loss <= target {
            break;
        }
        let log_choose = log_count_factorial - lgamma(ups + 1.0) - lgamma(count_float - ups + 1.0);
        sum += exp(log_choose + ups * epsilon - log_normaliser) * -expm1(target - loss);
    }
    let none_fired = count_float * log1p(-delta);
    let total = -expm1(none_fired) + exp(none_fired) * sum;
    Ok(raise(total, 1e-9).min(1.0))
}

/// The exact epsilon of the same composition at `target` delta.
///
/// # Guarantee
/// Rounded up: [`optimal_delta`] at the result is at most `target`.
pub fn optimal_epsilon(epsilon: f64, delta: f64, count: u32, target: f64) -> Certified<f64> {
    let holds = |at: f64| optimal_delta(epsilon, delta, count, at).is_ok_and(|found| found <= target);
    optimal_delta(epsilon, delta, count, 0.0)?;
    probability(target, "target delta")?;
    let most = epsilon * f64::from(count);
    if holds(0.0) {
        return Ok(0.0);
    }
    if !holds(most) {
        return Err(AccountantError::Unbounded);
    }
    Ok(bisect(most, 0.0, holds))
}
