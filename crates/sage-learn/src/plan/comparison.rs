//! How many queries other adaptive composition theorems admit, beside the kernel's filters.
//!
//! For comparison alone: the filters that charge are the kernel's, and each admits at least as much
//! (`proofs/composition.md`).

use sage_kernel::{Ceiling, Delta, Epsilon};

use super::composition::{rogers_sums, whitehouse_epsilon};

/// Queries stated as (ε, δ), with how often they occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The loss of one query.
    pub epsilon: Epsilon,
    /// The probability that its bound fails.
    pub delta: Delta,
    /// How many such queries.
    pub count: u64,
}

/// How many times a list of statements fits under a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// By Whitehouse, Ramdas, Rogers and Wu 2022.
    pub whitehouse: u64,
    /// By Rogers, Roth, Ullman and Vadhan 2016.
    pub rogers: u64,
}

/// The sums of one repetition.
struct Sums {
    squares: f64,
    drift: f64,
    delta: u128,
}

impl Comparison {
    /// Counts the repetitions of the whole list that both theorems admit.
    ///
    /// Half of the ceiling's δ bounds the sum of the statements' own δ, in exact integers; the other half
    /// (for Rogers, the whole) turns the losses into one bound. A list that costs nothing fits `u64::MAX`
    /// times.
    #[must_use]
    pub fn of(statements: &[Statement], ceiling: Ceiling) -> Self {
        let mut sums = Sums { squares: 0.0, drift: 0.0, delta: 0 };
        for one in statements {
            let (epsilon, count) = (one.epsilon.units() as f64 / 1e12, one.count as f64);
            sums.squares += count * epsilon * epsilon;
            sums.drift += count * epsilon * libm::expm1(epsilon) / 2.0;
            let delta = u128::from(one.delta.units()) * u128::from(one.count);
            sums.delta = sums.delta.saturating_add(delta);
        }
        let (epsilon, units) = (ceiling.epsilon.units() as f64 / 1e12, ceiling.delta.units());
        let delta = units as f64 / 1e18;
        let most = match u128::from(units / 2).checked_div(sums.delta) {
            Some(times) => u64::try_from(times).unwrap_or(u64::MAX),
            None => u64::MAX,
        };
        let by = |bound: &dyn Fn(f64) -> f64| {
            if sums.squares == 0.0 { most } else { largest(most, |times| bound(times as f64) <= epsilon) }
        };
        let beyond = f64::INFINITY;
        Self {
            whitehouse: by(&|times| whitehouse_epsilon(times * sums.squares, delta / 2.0).unwrap_or(beyond)),
            rogers: by(&|times| {
                rogers_sums(times * sums.drift, times * sums.squares, epsilon, delta).unwrap_or(beyond)
            }),
        }
    }
}

/// The largest number up to `most` for which `holds` returns true, if `holds` is monotone.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(most) {
        return most;
    }
    let (mut fits, mut fails) = (0, most);
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        if holds(middle) {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits
}
