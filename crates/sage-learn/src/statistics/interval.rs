//! Confidence intervals of released numbers.
//!
//! A pair of sums of shares gives an interval for the mean of the distribution that the rows are drawn from: the
//! relative entropy bound of Chernoff and Hoeffding on both sides, with the pair shifted in the unfavourable direction
//! by as much as the noise may have shifted it. All of it is post-processing.

use sage_kernel::accountant::AccountantError;
use sage_kernel::{Contribution, Epsilon, Mechanism, Pair, Range, SCALE, SessionError, TableNoise};

use crate::validate::Noise;
use crate::validate::decide::{evidence, mean};
use sage_numerics::bisect;

/// Why a statistic could not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatisticError {
    /// The session refused the release.
    Session(SessionError),
    /// A probability is not between zero and one, or the noise has no quantile.
    Chance(AccountantError),
    /// Bounds are not finite or not in order, or there is no key.
    Bounds,
}

impl From<SessionError> for StatisticError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<AccountantError> for StatisticError {
    fn from(error: AccountantError) -> Self {
        Self::Chance(error)
    }
}

impl std::fmt::Display for StatisticError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(error) => error.fmt(out),
            Self::Chance(error) => error.fmt(out),
            Self::Bounds => out.write_str("bounds must be finite and in order, and a table needs a key"),
        }
    }
}

impl std::error::Error for StatisticError {}

/// What a lane is charged for one table with this noise; `None` if the noise is zero.
pub fn charge_for(noise: TableNoise) -> Option<Mechanism> {
    if noise == TableNoise::Laplace(Epsilon::ZERO) { None } else { noise.mechanism().ok() }
}

/// The bound, in rows, that the noise of one number exceeds with probability at most `beta`.
///
/// # Errors
/// When the probability or the noise is out of range.
pub fn noise_reach(noise: TableNoise, beta: f64) -> Result<f64, StatisticError> {
    Ok(Noise::from(noise).certified_reach(beta)?)
}

/// The factor by which the noise and the rounding of a table are larger, in records, where so many records of a unit
/// count.
pub fn spread(contribution: Contribution) -> f64 {
    SCALE as f64 / contribution.steps(SCALE) as f64
}

pub(super) fn range((low, high): (f64, f64)) -> Result<Range, StatisticError> {
    Range::new(low, high).ok_or(StatisticError::Bounds)
}

/// The lower limit, the estimate and the upper limit of the mean, normalised to [0, 1]; `None` if the noise hides all
/// rows.
pub(crate) fn shares(pair: Pair, reach: f64, chance: f64) -> Option<(f64, f64, f64)> {
    let middle = mean(pair)?;
    let limit = libm::log(4.0 / chance);
    let high = upper(pair.above + reach, pair.below - reach, limit);
    let low = 1.0 - upper(pair.below + reach, pair.above - reach, limit);
    Some((low.min(middle), middle, high.max(middle)))
}

/// The largest mean against which these sums give no more evidence than `limit`.
fn upper(above: f64, below: f64, limit: f64) -> f64 {
    let above = above.max(0.0);
    if below <= 0.0 {
        return 1.0;
    }
    // The end of the bisection that is just outside, so that the interval is rounded outward.
    bisect(1.0, above / (above + below), |mean| evidence(above, below, mean) > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums, reach of the noise, η; estimate, lower and upper end. Computed independently of this code.
    const KNOWN: &[([f64; 2], f64, f64, [f64; 3])] = &[
        ([500.0, 500.0], 4.382026634673881, 0.05, [0.5, 0.44893940858146014, 0.5510605914185398]),
        ([10.0, 9990.0], 4.382026634673881, 0.05, [0.001, 0.00011661694698392152, 0.0028681160483660846]),
        ([3000.0, 7000.0], 43.82026634673881, 0.05, [0.3, 0.28223108647494766, 0.3181157499050052]),
    ];

    #[test]
    fn intervals_equal_known_ones() {
        for &([above, below], reach, chance, [middle, low, high]) in KNOWN {
            let found = shares(Pair { above, below }, reach, chance).unwrap();
            for (found, known) in [(found.0, low), (found.1, middle), (found.2, high)] {
                assert!((found - known).abs() < 1e-12, "{found} {known}");
            }
        }
    }

    #[test]
    fn an_interval_holds_its_estimate_or_is_none() {
        let numbers = [-1e9, -1.0, 0.0, 1e-9, 0.5, 3.0, 1e12, f64::NAN, f64::INFINITY, f64::MAX];
        for above in numbers {
            for below in numbers {
                if let Some((low, middle, high)) = shares(Pair { above, below }, 3.0, 0.01) {
                    let ordered = 0.0 <= low && low <= middle && middle <= high && high <= 1.0;
                    assert!(ordered, "{above} {below}: {low} {middle} {high}");
                } else {
                    assert!(!(above + below > 0.0 && (above + below).is_finite()), "{above} {below}");
                }
            }
        }
    }
}
