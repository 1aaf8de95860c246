//! What a list of mechanisms costs, by three routes, and how much noise meets a target.
//!
//! A planning tool: the list is fixed beforehand, the noise is continuous, and no ledger is touched. Every
//! number errs towards more loss. It must never answer with a bound that was not certified: where there is
//! none, it says why.

use std::fmt;

use sage_kernel::accountant::{AccountantError, Composition, Loss, gaussian_epsilon};
use sage_kernel::{Blocks, Ceiling, Cost, Delta, Epsilon, Filter, Lane, Mechanism, Rate, Rule, SCALE, Sigma};
use sage_learn::plan::{self, Comparison, Statement, calibrate_sigma, epsilon_from_zcdp};

pub use crate::orders::epsilon_by_orders;

/// One kind of release and how often it happens, for sensitivity one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Poisson-sampled Gaussian steps, as in private training.
    SampledGaussian {
        /// The chance of a row to be in a step.
        rate: Rate,
        /// Noise over sensitivity.
        sigma: Sigma,
        /// How many steps.
        steps: u32,
    },
    /// Gaussian noise.
    Gaussian {
        /// Noise over sensitivity.
        sigma: Sigma,
        /// How many releases.
        count: u32,
    },
    /// Laplace noise.
    Laplace {
        /// The scale of the noise over sensitivity; one release loses one over it.
        scale: Sigma,
        /// How many releases.
        count: u32,
    },
    /// Anything ε-differentially private.
    Pure {
        /// The loss of one release.
        epsilon: Epsilon,
        /// How many releases.
        count: u32,
    },
    /// Anything (ε, δ)-differentially private.
    BlackBox {
        /// The loss of one release.
        epsilon: Epsilon,
        /// The chance that the bound fails.
        delta: Delta,
        /// How many releases.
        count: u32,
    },
    /// Anything ρ-zero-concentrated differentially private.
    Zcdp {
        /// The bound of one release.
        rho: Epsilon,
        /// How many releases.
        count: u32,
    },
}

/// Why a question about a list of releases has no number for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoNumber {
    /// A zCDP bound says nothing about the distribution of the loss.
    NoDistribution,
    /// The black boxes' own δ already uses up the δ asked for.
    DeltaUsedUp,
    /// No finite bound can be certified.
    Unbounded,
    /// No noise that can be named brings the list within the target.
    TargetOutOfReach,
    /// A filter prices at most so many mechanisms at once.
    TooManyForFilter,
}

impl fmt::Display for NoNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoDistribution => "a zCDP bound has no privacy-loss distribution",
            Self::DeltaUsedUp => "the black boxes' own deltas use up the whole delta",
            Self::Unbounded => "no finite epsilon can be certified",
            Self::TargetOutOfReach => "no noise brings the list within the target",
            Self::TooManyForFilter => {
                "a filter prices at most 4096 mechanisms at once, and each pure or black-box release is one"
            }
        })
    }
}

impl std::error::Error for NoNumber {}

impl From<AccountantError> for NoNumber {
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

/// The loss of one Laplace release: one over the scale, rounded up; nothing beyond the largest loss.
#[must_use]
pub fn laplace_epsilon(scale: Sigma) -> Option<Epsilon> {
    let units = 1_000_000_000_000_000_000_000_u128.checked_div(u128::from(scale.units()))? + 1;
    let exact = 1_000_000_000_000_000_000_000_u128.is_multiple_of(u128::from(scale.units()));
    Epsilon::from_units(u64::try_from(units - u128::from(exact)).ok()?)
}

impl Release {
    /// How often it happens; the steps of a training run are one.
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

    /// What all of it loses in units of 10⁻¹², where a release has a loss without any δ of its own choice.
    pub(crate) fn pure_units(self) -> Option<u128> {
        let (epsilon, count) = match self {
            Self::Laplace { scale, count } => (laplace_epsilon(scale).unwrap_or(Epsilon::LIMIT), count),
            Self::Pure { epsilon, count } | Self::BlackBox { epsilon, count, .. } => (epsilon, count),
            Self::SampledGaussian { .. } | Self::Gaussian { .. } | Self::Zcdp { .. } => return None,
        };
        Some(u128::from(epsilon.units()) * u128::from(count))
    }

    fn loss(self) -> Result<(Loss, u64), NoNumber> {
        Ok(match self {
            Self::SampledGaussian { rate, sigma, steps } => {
                (Loss::SampledGaussian { q: rate_value(rate), sigma: sigma_value(sigma) }, u64::from(steps))
            }
            Self::Gaussian { sigma, count } => (Loss::Gaussian { mu: 1.0 / sigma_value(sigma) }, u64::from(count)),
            Self::Laplace { scale, count } => {
                let epsilon = laplace_epsilon(scale).ok_or(NoNumber::Unbounded)?;
                (Loss::DiscreteLaplace { epsilon: epsilon_value(epsilon), units: SCALE }, u64::from(count))
            }
            Self::Pure { epsilon, count } => {
                (Loss::BlackBox { epsilon: epsilon_value(epsilon), delta: 0.0 }, u64::from(count))
            }
            Self::BlackBox { epsilon, delta, count } => {
                let loss = Loss::BlackBox { epsilon: epsilon_value(epsilon), delta: delta_value(delta) };
                (loss, u64::from(count))
            }
            Self::Zcdp { .. } => return Err(NoNumber::NoDistribution),
        })
    }

    /// The mechanisms a ledger would be asked for.
    fn mechanisms(self) -> Result<(Mechanism, u32), NoNumber> {
        Ok(match self {
            Self::SampledGaussian { rate, sigma, steps } => {
                (Mechanism::SampledGaussian { rate, sigma, coordinates: 1, steps }, 1)
            }
            Self::Gaussian { sigma, count } => (Mechanism::Gaussian { sigma, coordinates: 1, count }, 1),
            Self::Laplace { scale, count } => {
                let epsilon = laplace_epsilon(scale).ok_or(NoNumber::Unbounded)?;
                (Mechanism::Laplace { epsilon, count }, 1)
            }
            Self::Pure { epsilon, count } => (Mechanism::Pure { epsilon }, count),
            Self::BlackBox { epsilon, delta, count } => (Mechanism::BlackBox { epsilon, delta }, count),
            Self::Zcdp { rho, count } => {
                let units = rho.units().checked_mul(u64::from(count)).and_then(Epsilon::from_units);
                (Mechanism::Zcdp { rho: units.ok_or(NoNumber::Unbounded)? }, 1)
            }
        })
    }
}

/// What of δ the black boxes leave for everything else.
///
/// # Errors
/// When they leave nothing.
pub(crate) fn delta_left(releases: &[Release], delta: Delta) -> Result<f64, NoNumber> {
    let taken: u128 = releases
        .iter()
        .map(|release| match *release {
            Release::BlackBox { delta, count, .. } => u128::from(delta.units()) * u128::from(count),
            _ => 0,
        })
        .sum();
    let left = u128::from(delta.units()).checked_sub(taken).ok_or(NoNumber::DeltaUsedUp)?;
    Ok(left as f64 / 1e18 * (1.0 - f64::EPSILON))
}

fn composition(releases: &[Release]) -> Result<Composition, NoNumber> {
    let losses = releases.iter().map(|release| release.loss()).collect::<Result<Vec<_>, _>>()?;
    Ok(Composition::new(&losses)?.finely())
}

/// The ε at δ by the distribution of the privacy loss: the tightest route.
///
/// # Errors
/// When a release has no known distribution, or nothing finite can be certified.
pub fn epsilon_by_distribution(releases: &[Release], delta: Delta) -> Result<f64, NoNumber> {
    Ok(composition(releases)?.epsilon(delta_value(delta))?)
}

/// The ε at δ by basic composition: every release is stated alone and the statements are added.
///
/// Laplace, pure and black-box releases count as they are. Every other release takes an even share of the
/// δ that the black boxes leave, and counts with its own smallest ε at that share; the steps of one
/// training run are one release.
///
/// # Errors
/// When the black boxes leave no δ, or a release has no finite ε.
pub fn epsilon_basic(releases: &[Release], delta: Delta) -> Result<f64, NoNumber> {
    let left = delta_left(releases, delta)?;
    let sharing: u64 = releases
        .iter()
        .filter(|release| release.pure_units().is_none())
        .map(|release| u64::from(release.times()))
        .sum();
    let share = left / sharing.max(1) as f64 * (1.0 - f64::EPSILON);
    if sharing > 0 && share <= 0.0 {
        return Err(NoNumber::DeltaUsedUp);
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
    // One release is below 2^92 units: the sum has room for more of them than memory has.
    let pure: u128 = releases.iter().filter_map(|release| release.pure_units()).sum();
    let total = pure as f64 / 1e12 + sum * (1.0 + 1e-12);
    if total.is_finite() { Ok(total) } else { Err(NoNumber::Unbounded) }
}

/// The smallest noise found for which `releases` is within (target, δ) by the loss distribution.
///
/// The answer has been evaluated and found within the target.
///
/// # Errors
/// When no noise is enough, or a release has no known distribution.
pub fn calibrate_by_distribution(
    target: Epsilon, delta: Delta, releases: impl Fn(Sigma) -> Vec<Release>,
) -> Result<Sigma, NoNumber> {
    composition(&releases(Sigma::LIMIT))?;
    let found = calibrate_sigma(epsilon_value(target), delta_value(delta), |noise| {
        let noise = noise_at_most(noise).ok_or(AccountantError::Unbounded)?;
        composition(&releases(noise)).map_err(|_| AccountantError::Unbounded)
    });
    let found = found.map_err(|_| NoNumber::TargetOutOfReach)?;
    let within =
        |noise| epsilon_by_distribution(&releases(noise), delta).is_ok_and(|found| found <= epsilon_value(target));
    first_within(noise_at_most(found).ok_or(NoNumber::TargetOutOfReach)?, within)
}

/// The smallest noise found for which `releases` is within (target, δ) by Rényi orders.
///
/// # Errors
/// When no noise is enough.
pub fn calibrate_by_orders(
    target: Epsilon, delta: Delta, releases: impl Fn(Sigma) -> Vec<Release>,
) -> Result<Sigma, NoNumber> {
    let within = |noise| epsilon_by_orders(&releases(noise), delta).is_ok_and(|found| found <= epsilon_value(target));
    if !within(Sigma::LIMIT) {
        return Err(NoNumber::TargetOutOfReach);
    }
    // Halving the exponent: from 10^-9 to 10^9, down to a relative 10^-7.
    let (mut outside, mut inside) = (1.0, Sigma::LIMIT.units() as f64);
    while inside / outside > 1.0 + 1e-7 {
        let middle = (inside * outside).sqrt();
        if noise_at_most(middle / 1e9).is_some_and(within) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    first_within(noise_at_most(inside / 1e9).ok_or(NoNumber::TargetOutOfReach)?, within)
}

/// The noise as the kernel writes it, rounded down to its units.
fn noise_at_most(noise: f64) -> Option<Sigma> {
    let units = (noise * 1e9).floor();
    if (1.0..=Sigma::LIMIT.units() as f64).contains(&units) { Sigma::from_units(units as u64) } else { None }
}

/// The noise itself or one a little larger that is within the target: rounding may have lost a unit.
fn first_within(noise: Sigma, within: impl Fn(Sigma) -> bool) -> Result<Sigma, NoNumber> {
    let mut noise = noise;
    for _ in 0..40 {
        if within(noise) {
            return Ok(noise);
        }
        let units = noise.units();
        noise = Sigma::from_units(units + units / 10_000_000 + 1).ok_or(NoNumber::TargetOutOfReach)?;
    }
    Err(NoNumber::TargetOutOfReach)
}

/// How many times the whole list fits under a ceiling, by each of the kernel's rules that need no
/// declarations and by two other theorems, for comparison: the name of each, and the count.
///
/// What counts (ε, δ) states all that has no ε of its own as one pair at `at_delta`.
///
/// # Errors
/// When the list is too long for a filter, or a number is out of its range.
pub fn fits(releases: &[Release], ceiling: Ceiling, at_delta: Delta) -> Result<Vec<(String, u64)>, NoNumber> {
    let mut parts = Vec::new();
    for release in releases {
        let (mechanism, times) = release.mechanisms()?;
        if parts.len() + times as usize > 4096 {
            return Err(NoNumber::TooManyForFilter);
        }
        parts.extend(std::iter::repeat_n(mechanism, times as usize));
    }
    let cost = Cost::at_delta(parts, at_delta).map_err(|_| NoNumber::TooManyForFilter)?;
    let blocks = Blocks::range(0, 0).map_err(|_| NoNumber::Unbounded)?;
    let count = |rule: Rule| -> Result<(String, u64), NoNumber> {
        let filter = Filter::new(rule, ceiling).ok_or(NoNumber::Unbounded)?;
        let asked = filter.price(&cost, Lane::Train, &blocks).map_err(|_| NoNumber::Unbounded)?;
        Ok((rule.to_string(), plan::fits(&filter, &vec![0; filter.caps().len()], &asked)))
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

/// The list as (ε, δ) statements, as a filter that counts them would have it.
fn statements(releases: &[Release], at_delta: Delta) -> Result<Vec<Statement>, NoNumber> {
    let mut statements = Vec::new();
    let mut curved = Vec::new();
    for release in releases {
        let (epsilon, delta, count) = match *release {
            Release::Laplace { scale, count } => {
                (laplace_epsilon(scale).ok_or(NoNumber::Unbounded)?, Delta::ZERO, count)
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
            Err(NoNumber::NoDistribution) => epsilon_by_orders(&curved, at_delta)?,
            found => found?,
        };
        let units = (found * 1e12).ceil();
        let units = if units < Epsilon::LIMIT.units() as f64 { units as u64 } else { Epsilon::LIMIT.units() };
        let epsilon = Epsilon::from_units(units).ok_or(NoNumber::Unbounded)?;
        statements.push(Statement { epsilon, delta: at_delta, count: 1 });
    }
    Ok(statements)
}
