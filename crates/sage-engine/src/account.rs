//! The privacy loss of a list of mechanisms by three methods, and noise calibration.
//!
//! A planning tool: the list is fixed beforehand, the noise is continuous, and no ledger is touched. Every number is an
//! upper bound on the loss. It must never return a bound that is not certified: without one, it returns the reason.

use sage_kernel::accountant::{AccountantError, Composition, Loss, gaussian_epsilon};
use sage_kernel::{Blocks, Ceiling, Cost, Delta, Epsilon, Filter, Lane, Mechanism, Rate, Rule, SCALE, Sigma};
use sage_learn::plan::{self, Comparison, Statement, calibrate_sigma, epsilon_from_zcdp};

pub use crate::orders::epsilon_by_orders;

/// One kind of mechanism and how often it is used, for sensitivity one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Poisson-sampled Gaussian steps, as in private training.
    SampledGaussian {
        /// The sampling probability of a row in a step.
        rate: Rate,
        /// Noise over sensitivity.
        sigma: Sigma,
        /// The number of steps.
        steps: u32,
    },
    /// Gaussian noise.
    Gaussian {
        /// Noise over sensitivity.
        sigma: Sigma,
        /// The number of releases.
        count: u32,
    },
    /// Laplace noise.
    Laplace {
        /// The scale of the noise over sensitivity; one release loses one over it.
        scale: Sigma,
        /// The number of releases.
        count: u32,
    },
    /// Anything ε-differentially private.
    Pure {
        /// The loss of one release.
        epsilon: Epsilon,
        /// The number of releases.
        count: u32,
    },
    /// Anything (ε, δ)-differentially private.
    BlackBox {
        /// The loss of one release.
        epsilon: Epsilon,
        /// The chance that the bound fails.
        delta: Delta,
        /// The number of releases.
        count: u32,
    },
    /// Anything ρ-zero-concentrated differentially private.
    Zcdp {
        /// The bound of one release.
        rho: Epsilon,
        /// The number of releases.
        count: u32,
    },
}

/// Why no bound can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// A zCDP bound does not determine the privacy-loss distribution.
    #[error("a zCDP bound has no privacy-loss distribution")]
    NoDistribution,
    /// The δ of the black-box mechanisms exceeds the given δ.
    #[error("the deltas of the black-box mechanisms use up the whole delta")]
    DeltaUsedUp,
    /// No finite bound can be certified.
    #[error("no finite epsilon can be certified")]
    Unbounded,
    /// No representable noise brings the list within the target.
    #[error("no noise brings the list within the target")]
    TargetOutOfReach,
    /// The list exceeds the number of mechanisms that a filter prices at once.
    #[error("a filter prices at most 4096 mechanisms at once, and each pure or black-box release is one")]
    TooManyForFilter,
}

impl From<AccountantError> for AccountError {
    fn from(_: AccountantError) -> Self {
        Self::Unbounded
    }
}

pub(crate) fn epsilon_value(epsilon: Epsilon) -> f64 {
    epsilon.units() as f64 / 1e12
}

pub(crate) fn delta_value(delta: Delta) -> f64 {
    delta.units() as f64 / 1e18
}

pub(crate) fn sigma_value(sigma: Sigma) -> f64 {
    sigma.units() as f64 / 1e9
}

pub(crate) fn rate_value(rate: Rate) -> f64 {
    rate.units() as f64 / 1e12
}

/// The loss of one Laplace release: one over the scale, rounded up; `None` beyond the largest loss.
#[must_use]
pub fn laplace_epsilon(scale: Sigma) -> Option<Epsilon> {
    let units = 1_000_000_000_000_000_000_000_u128.checked_div(u128::from(scale.units()))? + 1;
    let exact = 1_000_000_000_000_000_000_000_u128.is_multiple_of(u128::from(scale.units()));
    Epsilon::from_units(u64::try_from(units - u128::from(exact)).ok()?)
}

impl Release {
    /// The number of releases. The steps of a training run count as one.
    const fn times(self) -> u32 {
        match self {
            Self::SampledGaussian { .. } => 1,
            Self::Gaussian { count, .. }
            | Self::Laplace { count, .. }
            | Self::Pure { count, .. }
            | Self::BlackBox { count, .. }
            | Self::Zcdp { count, .. } => count,
        }
    }

    /// The total pure loss in units of 10⁻¹²; `None` for mechanisms without a pure ε.
    pub(crate) fn pure_units(self) -> Option<u128> {
        let (epsilon, count) = match self {
            Self::Laplace { scale, count } => (laplace_epsilon(scale).unwrap_or(Epsilon::LIMIT), count),
            Self::Pure { epsilon, count } | Self::BlackBox { epsilon, count, .. } => (epsilon, count),
            Self::SampledGaussian { .. } | Self::Gaussian { .. } | Self::Zcdp { .. } => return None,
        };
        Some(u128::from(epsilon.units()) * u128::from(count))
    }

    fn loss(self) -> Result<(Loss, u64), AccountError> {
        Ok(match self {
            Self::SampledGaussian { rate, sigma, steps } => {
                (Loss::SampledGaussian { q: rate_value(rate), sigma: sigma_value(sigma) }, u64::from(steps))
            }
            Self::Gaussian { sigma, count } => (Loss::Gaussian { mu: 1.0 / sigma_value(sigma) }, u64::from(count)),
            Self::Laplace { scale, count } => {
                let epsilon = laplace_epsilon(scale).ok_or(AccountError::Unbounded)?;
                (Loss::DiscreteLaplace { epsilon: epsilon_value(epsilon), units: SCALE }, u64::from(count))
            }
            Self::Pure { epsilon, count } => {
                (Loss::BlackBox { epsilon: epsilon_value(epsilon), delta: 0.0 }, u64::from(count))
            }
            Self::BlackBox { epsilon, delta, count } => {
                let loss = Loss::BlackBox { epsilon: epsilon_value(epsilon), delta: delta_value(delta) };
                (loss, u64::from(count))
            }
            Self::Zcdp { .. } => return Err(AccountError::NoDistribution),
        })
    }

    /// The mechanism that a ledger would charge, and how often.
    fn mechanisms(self) -> Result<(Mechanism, u32), AccountError> {
        Ok(match self {
            Self::SampledGaussian { rate, sigma, steps } => {
                (Mechanism::SampledGaussian { rate, sigma, coordinates: 1, steps }, 1)
            }
            Self::Gaussian { sigma, count } => (Mechanism::Gaussian { sigma, coordinates: 1, count }, 1),
            Self::Laplace { scale, count } => {
                let epsilon = laplace_epsilon(scale).ok_or(AccountError::Unbounded)?;
                (Mechanism::Laplace { epsilon, count }, 1)
            }
            Self::Pure { epsilon, count } => (Mechanism::Pure { epsilon }, count),
            Self::BlackBox { epsilon, delta, count } => (Mechanism::BlackBox { epsilon, delta }, count),
            Self::Zcdp { rho, count } => {
                let units = rho.units().checked_mul(u64::from(count)).and_then(Epsilon::from_units);
                (Mechanism::Zcdp { rho: units.ok_or(AccountError::Unbounded)? }, 1)
            }
        })
    }
}

/// The δ that remains after the black-box mechanisms.
///
/// # Errors
/// When nothing remains.
pub(crate) fn delta_left(releases: &[Release], delta: Delta) -> Result<f64, AccountError> {
    let taken: u128 = releases
        .iter()
        .map(|release| match *release {
            Release::BlackBox { delta, count, .. } => u128::from(delta.units()) * u128::from(count),
            _ => 0,
        })
        .sum();
    let left = u128::from(delta.units()).checked_sub(taken).ok_or(AccountError::DeltaUsedUp)?;
    Ok(left as f64 / 1e18 * (1.0 - f64::EPSILON))
}

fn composition(releases: &[Release]) -> Result<Composition, AccountError> {
    let losses = releases.iter().map(|release| release.loss()).collect::<Result<Vec<_>, _>>()?;
    Ok(Composition::new(&losses)?.finely())
}

/// The ε at δ by the privacy-loss distribution: the tightest method.
///
/// # Errors
/// When a release has no known distribution, or nothing finite can be certified.
pub fn epsilon_by_distribution(releases: &[Release], delta: Delta) -> Result<f64, AccountError> {
    Ok(composition(releases)?.epsilon(delta_value(delta))?)
}

/// The ε at δ by basic composition: every release is bounded alone, and the bounds are added.
///
/// Laplace, pure and black-box releases keep their own ε. Every other release gets an equal share of the remaining δ
/// and its smallest ε at that share. The steps of a training run are one release.
///
/// # Errors
/// When no δ remains, or a release has no finite ε.
pub fn epsilon_basic(releases: &[Release], delta: Delta) -> Result<f64, AccountError> {
    let left = delta_left(releases, delta)?;
    let sharing: u64 = releases
        .iter()
        .filter(|release| release.pure_units().is_none())
        .map(|release| u64::from(release.times()))
        .sum();
    let share = left / sharing.max(1) as f64 * (1.0 - f64::EPSILON);
    if sharing > 0 && share <= 0.0 {
        return Err(AccountError::DeltaUsedUp);
    }
    let mut sum = 0.0;
    for release in releases {
        let own = match *release {
            Release::Gaussian { sigma, .. } => gaussian_epsilon(1.0 / sigma_value(sigma), share)?,
            Release::Zcdp { rho, .. } => epsilon_from_zcdp(epsilon_value(rho), share)?,
            Release::SampledGaussian { .. } => composition(&[*release])?.epsilon(share)?,
            Release::Laplace { .. } | Release::Pure { .. } | Release::BlackBox { .. } => continue,
        };
        sum += own * f64::from(release.times());
    }
    // One release is below 2^92 units, so the sum cannot overflow.
    let pure: u128 = releases.iter().filter_map(|release| release.pure_units()).sum();
    let total = pure as f64 / 1e12 + sum * (1.0 + 1e-12);
    if total.is_finite() { Ok(total) } else { Err(AccountError::Unbounded) }
}

/// The smallest noise found for which `releases` is within (target, δ) by the privacy-loss distribution.
///
/// The returned noise was evaluated and is within the target.
///
/// # Errors
/// When no noise is enough, or a release has no known distribution.
pub fn calibrate_by_distribution(
    target: Epsilon, delta: Delta, releases: impl Fn(Sigma) -> Vec<Release>,
) -> Result<Sigma, AccountError> {
    composition(&releases(Sigma::LIMIT))?;
    let found = calibrate_sigma(epsilon_value(target), delta_value(delta), |noise| {
        let noise = round_down_sigma(noise).ok_or(AccountantError::Unbounded)?;
        composition(&releases(noise)).map_err(|_| AccountantError::Unbounded)
    });
    let found = found.map_err(|_| AccountError::TargetOutOfReach)?;
    let within =
        |noise| epsilon_by_distribution(&releases(noise), delta).is_ok_and(|found| found <= epsilon_value(target));
    smallest_within(round_down_sigma(found).ok_or(AccountError::TargetOutOfReach)?, within)
}

/// The smallest noise found for which `releases` is within (target, δ) by Rényi orders.
///
/// # Errors
/// When no noise is enough.
pub fn calibrate_by_orders(
    target: Epsilon, delta: Delta, releases: impl Fn(Sigma) -> Vec<Release>,
) -> Result<Sigma, AccountError> {
    let within = |noise| epsilon_by_orders(&releases(noise), delta).is_ok_and(|found| found <= epsilon_value(target));
    if !within(Sigma::LIMIT) {
        return Err(AccountError::TargetOutOfReach);
    }
    // Bisection of the exponent from 10^-9 to 10^9, to a relative precision of 10^-7.
    let (mut outside, mut inside) = (1.0, Sigma::LIMIT.units() as f64);
    while inside / outside > 1.0 + 1e-7 {
        let middle = (inside * outside).sqrt();
        if round_down_sigma(middle / 1e9).is_some_and(within) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    smallest_within(round_down_sigma(inside / 1e9).ok_or(AccountError::TargetOutOfReach)?, within)
}

/// The noise in the kernel's units, rounded down.
fn round_down_sigma(noise: f64) -> Option<Sigma> {
    let units = (noise * 1e9).floor();
    if (1.0..=Sigma::LIMIT.units() as f64).contains(&units) { Sigma::from_units(units as u64) } else { None }
}

/// The noise, or a slightly larger one, that is within the target: rounding may have lost a unit.
fn smallest_within(noise: Sigma, within: impl Fn(Sigma) -> bool) -> Result<Sigma, AccountError> {
    let mut noise = noise;
    for _ in 0..40 {
        if within(noise) {
            return Ok(noise);
        }
        let units = noise.units();
        noise = Sigma::from_units(units + units / 10_000_000 + 1).ok_or(AccountError::TargetOutOfReach)?;
    }
    Err(AccountError::TargetOutOfReach)
}

/// How many times the whole list fits under a ceiling, by each of the kernel's rules that need no declarations and by
/// two other theorems for comparison, as (name, count).
///
/// Rules that count (ε, δ) convert all mechanisms without a pure ε to one pair at `at_delta`.
///
/// # Errors
/// When the list is too long for a filter, or a number is out of range.
pub fn fits(releases: &[Release], ceiling: Ceiling, at_delta: Delta) -> Result<Vec<(String, u64)>, AccountError> {
    let mut parts = Vec::new();
    for release in releases {
        let (mechanism, times) = release.mechanisms()?;
        if parts.len() + times as usize > 4096 {
            return Err(AccountError::TooManyForFilter);
        }
        parts.extend(std::iter::repeat_n(mechanism, times as usize));
    }
    let cost = Cost::at_delta(parts, at_delta).map_err(|_| AccountError::TooManyForFilter)?;
    let blocks = Blocks::range(0, 0).map_err(|_| AccountError::Unbounded)?;
    let count = |rule: Rule| -> Result<(String, u64), AccountError> {
        let filter = Filter::new(rule, ceiling).ok_or(AccountError::Unbounded)?;
        let price = filter.price(&cost, Lane::Train, &blocks).map_err(|_| AccountError::Unbounded)?;
        Ok((rule.to_string(), plan::fits(&filter, &vec![0; filter.caps().len()], &price)))
    };
    let other = Comparison::of(&statements(releases, at_delta)?, ceiling);
    Ok(vec![
        count(Rule::Basic)?,
        count(Rule::Strong)?,
        ("whitehouse".to_owned(), other.whitehouse),
        ("rogers".to_owned(), other.rogers),
        count(Rule::Renyi)?,
    ])
}

/// The list as (ε, δ) statements, for rules that count pairs.
fn statements(releases: &[Release], at_delta: Delta) -> Result<Vec<Statement>, AccountError> {
    let mut statements = Vec::new();
    let mut curved = Vec::new();
    for release in releases {
        let (epsilon, delta, count) = match *release {
            Release::Laplace { scale, count } => {
                (laplace_epsilon(scale).ok_or(AccountError::Unbounded)?, Delta::ZERO, count)
            }
            Release::Pure { epsilon, count } => (epsilon, Delta::ZERO, count),
            Release::BlackBox { epsilon, delta, count } => (epsilon, delta, count),
            Release::SampledGaussian { .. } | Release::Gaussian { .. } | Release::Zcdp { .. } => {
                curved.push(*release);
                continue;
            }
        };
        statements.push(Statement { epsilon, delta, count: u64::from(count) });
    }
    if !curved.is_empty() {
        let found = match epsilon_by_distribution(&curved, at_delta) {
            Err(AccountError::NoDistribution) => epsilon_by_orders(&curved, at_delta)?,
            found => found?,
        };
        let units = (found * 1e12).ceil();
        let units = if units < Epsilon::LIMIT.units() as f64 { units as u64 } else { Epsilon::LIMIT.units() };
        let epsilon = Epsilon::from_units(units).ok_or(AccountError::Unbounded)?;
        statements.push(Statement { epsilon, delta: at_delta, count: 1 });
    }
    Ok(statements)
}
