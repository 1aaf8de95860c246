//! Noise calibration: the smallest sigma whose certified epsilon is within a target.
//!
//! The returned sigma was itself evaluated and is within the target; the search may return one that is slightly too
//! large, never one that is too small.

use libm::{exp, log, sqrt};
use sage_kernel::accountant::{AccountantError, Certified, Composition, epsilon_from_curve, sampled_gaussian_curve};

use super::number::{positive, probability};

/// Relative width at which a search stops, and one that a finer search follows.
const TOLERANCE: f64 = 1e-6;
const COARSE: f64 = 1e-4;
/// The widest range of noise searched.
const SIGMA: (f64, f64) = (1e-3, 1e12);

/// The smallest sigma for which `composition(sigma)` is within `(target, delta)` by its privacy-loss distribution.
///
/// # Guarantee
/// `composition(result).finely().epsilon(delta) <= target`; the smallest such
/// sigma to a relative 1e-6, if epsilon falls as sigma grows.
pub fn calibrate_sigma(target: f64, delta: f64, composition: impl Fn(f64) -> Certified<Composition>) -> Certified<f64> {
    let coarse = |sigma: f64| composition(sigma)?.epsilon(delta);
    let found = search(target, delta, COARSE, coarse)?;
    // A few evaluations on a fine lattice recover what the coarse one lost to rounding.
    let slope = log(coarse(1.01 * found)? / coarse(found)?) / log(1.01);
    polish(target, found, slope, |sigma| composition(sigma)?.finely().epsilon(delta))
}

/// Lowers a sigma that is within the target until the target is reached, by Newton steps with the slope of
/// `ln epsilon` over `ln sigma`.
fn polish(target: f64, found: f64, slope: f64, epsilon: impl Fn(f64) -> Certified<f64>) -> Certified<f64> {
    let (mut within, mut tried) = (f64::INFINITY, found);
    for _ in 0..4 {
        let at_tried = epsilon(tried)?;
        if at_tried <= target {
            within = within.min(tried);
        }
        let step = log(target / at_tried) / slope;
        // The slope is unusable, or the step is negligible.
        if !step.is_finite() || slope >= 0.0 || (at_tried <= target && step > -TOLERANCE) {
            break;
        }
        tried *= exp(step + 0.3 * TOLERANCE);
    }
    Ok(within.min(found))
}

/// The smallest sigma for `steps` sampled Gaussian steps of rate `q` within
/// `(target, delta)` by Renyi accounting over `orders`.
///
/// # Guarantee
/// As [`calibrate_sigma`], with the curve a ledger charges.
pub fn calibrate_sampled_gaussian(target: f64, delta: f64, q: f64, steps: u64, orders: &[f64]) -> Certified<f64> {
    search(target, delta, TOLERANCE, |sigma| {
        let mut curve = sampled_gaussian_curve(orders, q, sigma)?;
        for cost in &mut curve {
            *cost *= steps as f64;
        }
        epsilon_from_curve(orders, &curve, delta)
    })
}

/// Finds the crossing of `ln epsilon(sigma)` with `ln target` by the Illinois
/// form of false position, keeping an end known to be within the target.
fn search(target: f64, delta: f64, tolerance: f64, epsilon: impl Fn(f64) -> Certified<f64>) -> Certified<f64> {
    positive(target, "target epsilon")?;
    probability(delta, "delta")?;
    // Above zero: too much privacy loss. An unbounded epsilon is far too much.
    let excess = |sigma: f64| match epsilon(sigma) {
        Ok(found) => Ok((log(found.max(1e-300)) - log(target)).clamp(-9.0, 9.0)),
        Err(AccountantError::Unbounded) => Ok(9.0),
        Err(error) => Err(error),
    };
    let (mut within, mut outside) = (1.0, 1.0);
    let mut at_within = excess(within)?;
    let mut at_outside = at_within;
    while at_within > 0.0 {
        (outside, at_outside) = (within, at_within);
        within *= 2.0;
        if within > SIGMA.1 {
            return Err(AccountantError::Unbounded);
        }
        at_within = excess(within)?;
    }
    while at_outside <= 0.0 {
        (within, at_within) = (outside, at_outside);
        outside *= 0.5;
        if outside < SIGMA.0 {
            return Ok(within);
        }
        at_outside = excess(outside)?;
    }
    let (mut weight_within, mut weight_outside) = (at_within, at_outside);
    for round in 0..100 {
        if within / outside - 1.0 <= tolerance {
            break;
        }
        let share = weight_outside / (weight_outside - weight_within);
        let tried = if round % 8 == 7 || !share.is_finite() {
            sqrt(within * outside)
        } else {
            // Aim a little inside, so that the last step lands within.
            let aimed = log(outside) + share * log(within / outside) + 0.3 * tolerance;
            exp(aimed).clamp(outside * (1.0 + 0.1 * tolerance), within / (1.0 + 0.1 * tolerance))
        };
        let at_tried = excess(tried)?;
        if at_tried > 0.0 {
            (outside, weight_outside) = (tried, at_tried);
            weight_within *= 0.5;
        } else {
            (within, weight_within) = (tried, at_tried);
            weight_outside *= 0.5;
        }
    }
    Ok(within)
}
