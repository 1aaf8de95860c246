//! The sum of squares of Whitehouse and others 2022 (`proofs/strong.md`).

use libm::{log, sqrt};

use super::parameter::{Certified, bisect, not_negative, positive, probability, raise};

/// The epsilon of a sum `squares` of squared epsilons: `sqrt(2 ln(1/delta) squares) + squares/2`.
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
