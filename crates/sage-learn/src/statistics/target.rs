//! The smallest ε with which a statistic reaches a target precision.

use sage_kernel::{Epsilon, Pair, TableNoise};

use super::interval::{StatisticError, noise_reach};
use super::number::mean_of;

/// The worst-case half-width of the confidence interval of the mean of `rows` rows with this noise, when the noise is
/// at its median; infinite if there is no interval.
///
/// # Errors
/// When the probability or the noise is out of range.
pub fn half_width_of_mean(
    rows: u64, bounds: (f64, f64), noise: TableNoise, chance: f64,
) -> Result<f64, StatisticError> {
    let reach = noise_reach(noise, chance / 8.0)?;
    let half = |step: u32| {
        let above = rows as f64 * f64::from(step) / 64.0;
        let pair = Pair { above, below: rows as f64 - above };
        mean_of(pair, bounds, reach, chance).half_width()
    };
    Ok((0..=64).map(half).fold(0.0, f64::max))
}

/// The smallest ε, to a relative 1e-3, with which the mean of at least `rows` rows has a half-width of at most
/// `target`, for every mean, when the noise is at its median. `None` if even ε = 100 is not enough: more rows are
/// needed.
///
/// # Errors
/// When a parameter is out of range.
pub fn epsilon_for_mean(
    rows: u64, bounds: (f64, f64), target: f64, chance: f64,
) -> Result<Option<Epsilon>, StatisticError> {
    if !(target > 0.0 && bounds.0.is_finite() && bounds.1.is_finite() && bounds.0 < bounds.1) {
        return Err(StatisticError::Bounds);
    }
    let within = |epsilon: Epsilon| {
        let half = half_width_of_mean(rows, bounds, TableNoise::Laplace(epsilon), chance)?;
        Ok::<bool, StatisticError>(half <= target)
    };
    // The search is over ln ε from 10^-6 to 100, in units of 10^-12.
    let at = |log: f64| Epsilon::from_units(libm::ceil(libm::exp(log)) as u64).unwrap_or(Epsilon::LIMIT);
    let (mut outside, mut inside) = (libm::log(1e6), libm::log(1e14));
    if !within(at(inside))? {
        return Ok(None);
    }
    while inside - outside > 1e-3 {
        let middle = 0.5 * (inside + outside);
        if within(at(middle))? {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    Ok(Some(at(inside)))
}
