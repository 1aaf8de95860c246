//! The decision functions of released numbers, targets and margins. Proof: `proofs/validate.md`.
//!
//! Each shifts the released sums by the reach of the noise in the unfavourable direction and tests whether such
//! sums would still be too unlikely if the claim were false. Sums are in rows, as the kernel returns them;
//! targets are shares of the range. An input that is not finite, or a target outside (0, 1), returns `false`.

use libm::{log, log1p, sqrt};
use sage_kernel::{Pair, Triple};

use super::beta::incomplete_beta;
use super::margin::Margin;
use sage_numerics::bisect;

/// A bound on how far a mean of shares falls from its expectation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Chernoff's, with the Kullback-Leibler divergence. The others follow from it and are never stronger.
    #[default]
    KullbackLeibler,
    /// Bernstein's: close to the first where the target is small.
    Bernstein,
    /// Hoeffding's: close to the first where the target is about one half.
    Hoeffding,
}

/// The relative error of floating-point arithmetic in an exponent; decisions require this much more evidence.
const SLACK: f64 = 1e-9;

/// The exponent of Chernoff's bound for a + c rows with a sum of `a` if the mean is `target`.
///
/// That is n·kl(a/n, target) with n = a + c, computed without cancellation.
pub fn evidence(a: f64, c: f64, target: f64) -> f64 {
    let rows = a + c;
    let short = c * target - a * (1.0 - target);
    let part = |sum: f64, expected: f64, excess: f64| {
        if sum == 0.0 {
            0.0
        } else if excess.abs() < 0.5 * expected {
            sum * log1p(excess / expected)
        } else {
            sum * log(sum / expected)
        }
    };
    part(a, rows * target, -short) + part(c, rows * (1.0 - target), short)
}

/// Whether a bound of e^(−exponent) is at most `chance`.
fn is_sufficient(exponent: f64, chance: f64) -> bool {
    exponent >= -log(chance) * (1.0 + SLACK)
}

fn is_share(target: f64) -> bool {
    target > 0.0 && target < 1.0
}

/// How far noise and rounding may have moved these sums.
fn reach(sums: &[f64], margin: Margin) -> Option<f64> {
    let reach = margin.reach(sums.iter().map(|sum| sum.abs()).sum());
    (reach.is_finite() && sums.iter().all(|sum| sum.is_finite())).then_some(reach)
}

/// Whether the mean share is below the target.
///
/// Wrong, where the mean is at the target or above it, with at most twice the probability of the reach plus the
/// margin's probability.
pub fn accepts(sums: Pair, target: f64, margin: Margin, tail: Tail) -> bool {
    let Some(reach) = reach(&[sums.above, sums.below], margin).filter(|_| is_share(target)) else { return false };
    let (a, c) = ((sums.above + reach).max(0.0), sums.below - reach);
    if c <= 0.0 {
        return false;
    }
    let rows = a + c;
    // By how many rows the sum is below the target: positive where the mean is below it.
    let short = c * target - a * (1.0 - target);
    let exponent = match tail {
        Tail::KullbackLeibler => evidence(a, c, target),
        Tail::Bernstein => short * short / (2.0 * target * rows),
        Tail::Hoeffding => 2.0 * short * short / rows,
    };
    short > 0.0 && is_sufficient(exponent, margin.chance())
}

/// Whether the mean share is above the target, where the upper sum may also be `gap` rows too high.
///
/// Wrong, where the mean is at the target or below it, with at most twice the probability of the reach plus the
/// margin's probability.
pub fn rejects(sums: Pair, target: f64, gap: f64, margin: Margin, tail: Tail) -> bool {
    let Some((a, c)) = least_above(sums, gap, margin).filter(|_| is_share(target)) else { return false };
    let rows = a + c;
    let over = a * (1.0 - target) - c * target;
    let exponent = match tail {
        Tail::KullbackLeibler => evidence(a, c, target),
        Tail::Bernstein => over * over / (2.0 * a),
        Tail::Hoeffding => 2.0 * over * over / rows,
    };
    over > 0.0 && is_sufficient(exponent, margin.chance())
}

/// The sums shifted by the reach so that the upper one is least; `None` if it could be zero.
fn least_above(sums: Pair, gap: f64, margin: Margin) -> Option<(f64, f64)> {
    let reach = reach(&[sums.above, sums.below], margin).filter(|_| gap >= 0.0)? + gap;
    let (a, c) = (sums.above - reach, (sums.below + reach).max(0.0));
    (a > 0.0).then_some((a, c))
}

/// Whether the mean share is below the target, by the empirical Bernstein bound (Maurer and Pontil 2009).
///
/// The third noisy sum pays off only where the variance is far below the mean. Wrong with at most six times the
/// probability of the reach plus the margin's probability.
pub fn accepts_by_variance(sums: Triple, target: f64, margin: Margin) -> bool {
    let numbers = [sums.squares, sums.rest, sums.below];
    let Some(reach) = reach(&numbers, margin).filter(|_| is_share(target)) else { return false };
    let high = numbers.map(|sum| (sum + reach).max(0.0));
    let low = numbers.map(|sum| (sum - reach).max(0.0));
    let rows = low[0] + low[1] + low[2];
    if low[2] <= 0.0 || rows < 2.0 {
        return false;
    }
    let mean = (high[0] + high[1]) / (high[0] + high[1] + low[2]);
    let least_sum = low[0] + low[1];
    let least_mean = if least_sum > 0.0 { least_sum / (least_sum + high[2]) } else { 0.0 };
    let mean_square = high[0] / (high[0] + low[1] + low[2]);
    let variance = (mean_square - least_mean * least_mean).max(0.0) + f64::EPSILON;
    let exponent = log(2.0 / margin.chance()) * (1.0 + SLACK);
    mean + sqrt(2.0 * variance * exponent / (rows - 1.0)) + 7.0 * exponent / (3.0 * (rows - 1.0)) < target
}

/// Whether the accuracy is above the target, from noisy counts of right and wrong predictions.
///
/// Wrong with at most twice the probability of the reach plus the margin's probability.
pub fn accepts_accuracy(right: f64, wrong: f64, target: f64, margin: Margin) -> bool {
    let Some(reach) = reach(&[right, wrong], margin).filter(|_| is_share(target)) else { return false };
    is_rare(right - reach, (wrong + reach).max(0.0), target, margin)
}

/// Whether no classifier of a class has an accuracy above the target, from the noisy counts of right and wrong
/// predictions of the one that is best on these rows.
///
/// Wrong with at most twice the probability of the reach plus the margin's probability.
pub fn rejects_accuracy(right: f64, wrong: f64, target: f64, margin: Margin) -> bool {
    let Some(reach) = reach(&[right, wrong], margin).filter(|_| is_share(target)) else { return false };
    is_rare(wrong - reach, (right + reach).max(0.0), 1.0 - target, margin)
}

/// Whether this many successes or more are too rare at this rate.
fn is_rare(successes: f64, failures: f64, rate: f64, margin: Margin) -> bool {
    successes >= 1.0
        && incomplete_beta(rate, successes, failures + 1.0).is_some_and(|tail| tail * (1.0 + SLACK) <= margin.chance())
}

/// Limits of the mean share, rounded outward; each is missed with at most twice the probability of the reach plus
/// the margin's probability.
pub fn interval(sums: Pair, margin: Margin) -> (f64, f64) {
    (lower_limit(sums, 0.0, margin), upper_limit(sums, margin))
}

fn upper_limit(sums: Pair, margin: Margin) -> f64 {
    let Some(reach) = reach(&[sums.above, sums.below], margin) else { return 1.0 };
    let (a, c) = ((sums.above + reach).max(0.0), sums.below - reach);
    if c <= 0.0 {
        return 1.0;
    }
    bisect(1.0, a / (a + c), |mean| is_sufficient(evidence(a, c, mean), margin.chance()))
}

/// The lower limit of the mean, where the upper sum may also be `gap` rows too high.
pub(super) fn lower_limit(sums: Pair, gap: f64, margin: Margin) -> f64 {
    let Some((a, c)) = least_above(sums, gap, margin) else { return 0.0 };
    bisect(0.0, a / (a + c), |mean| mean <= 0.0 || is_sufficient(evidence(a, c, mean), margin.chance()))
}

/// The mean share; `None` if the number of rows is not finite and above zero.
pub fn mean(sums: Pair) -> Option<f64> {
    let rows = sums.above + sums.below;
    (rows.is_finite() && rows > 0.0).then(|| (sums.above / rows).clamp(0.0, 1.0))
}
