//! An audit by one training: many canaries, each included at random. Proof: `proofs/audit.md`.
//!
//! Steinke, Nasr and Jagielski (2023) showed that a single run of a mechanism can be audited, since the inclusion of
//! different canaries is independent even if the outputs are not. The bound is weaker than that of many runs, but it
//! needs only one.

use libm::exp;
use sage_kernel::noise::{NoiseError, NoiseSource, uniform_below};
use sage_kernel::{Ceiling, Filter, Rule};

use super::binomial::at_least;
use super::game::{AuditGate, full_steps, logistic_shape, network_plan, numbers, rows_with, train_watched};
use super::report::{AuditError, check};
use crate::network::Network;
use sage_numerics::bisect;

/// The confidence of the lower bound.
const CONFIDENCE: f64 = 0.95;

/// One in this many canaries is guessed: those with the most extreme scores, half as included and half as excluded.
const GUESSED: u32 = 5;

/// The result of an audit by one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneRunReport {
    /// The claim.
    pub claimed: Ceiling,
    /// A lower bound of ε at the claimed δ, with the confidence below.
    pub epsilon_lower: f64,
    /// The confidence of the lower bound.
    pub confidence: f64,
    /// The number of canaries.
    pub canaries: u32,
    /// The number of guesses.
    pub guesses: u32,
    /// The number of correct guesses.
    pub correct: u32,
}

/// A lower bound of ε of an (ε, δ)-differentially private mechanism, from `correct` of `guesses` guesses about
/// `canaries` canaries.
///
/// # Guarantee
/// Above the true ε with probability at most `chance`, if each canary was included independently with probability
/// 1/2 and the number of guesses was fixed in advance: `proofs/audit.md`.
pub fn one_run_bound(canaries: u32, guesses: u32, correct: u32, delta: f64, chance: f64) -> f64 {
    let (guesses, correct) = (guesses as usize, correct.min(guesses) as usize);
    let missed = f64::from(canaries) * delta;
    // Some correct guesses may be due to δ; the bound holds for every number that is set aside.
    let likely = |epsilon: f64| {
        let right = 1.0 / (1.0 + exp(-epsilon));
        let set_aside = |aside: usize| at_least(correct - aside, guesses, right) + missed / (aside + 1) as f64;
        (0..=correct.min(100)).map(set_aside).fold(1.0, f64::min)
    };
    if likely(0.0) > chance {
        return 0.0;
    }
    // The end of the bisection at which the result is still too unlikely.
    let beyond = bisect(60.0, 0.0, |epsilon| likely(epsilon) > chance);
    (beyond * (1.0 - 1e-12)).max(0.0)
}

/// Trains one network on canaries that are each included with probability 1/2, and guesses those with the most extreme
/// scores.
///
/// # Errors
/// When a parameter is out of range, or the kernel does not run the training.
pub fn one_run<N: NoiseSource>(
    claimed: Ceiling, canaries: u32, mut noise: impl FnMut() -> Result<N, NoiseError>,
) -> Result<OneRunReport, AuditError> {
    check(claimed)?;
    if !(10..=10_000).contains(&canaries) {
        return Err(AuditError::Parameter("an audit by one run has from 10 to 10000 canaries"));
    }
    let mut assignment = noise()?;
    let mut inside = Vec::with_capacity(canaries as usize);
    for _ in 0..canaries {
        inside.push(uniform_below(&mut assignment, 2)? == 1);
    }
    let present: Vec<u32> = (0..canaries).zip(&inside).filter(|(_, inside)| **inside).map(|(index, _)| index).collect();
    let shape = logistic_shape(canaries)?;
    let plan = network_plan(&shape, full_steps(), canaries as usize, claimed)?;
    let filter = Filter::new(Rule::Basic, claimed).ok_or(AuditError::OutOfReach)?;
    let cost = plan.charge().ok_or(AuditError::OutOfReach)?;
    let mut session = AuditGate::new(filter)?.open(cost, rows_with(canaries, &present, 0.0)?, noise()?)?;
    let released = train_watched(&mut session, &plan, Network::new(shape, 0))?;
    let score = |canary: usize| released.iter().map(|step| step[0][1 + canary]).sum::<f64>();
    let mut order: Vec<(f64, usize)> = (0..canaries as usize).map(|canary| (score(canary), canary)).collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = (canaries / GUESSED).div_ceil(2) as usize;
    let lowest = order.iter().take(half).filter(|(_, canary)| !inside[*canary]).count();
    let highest = order.iter().rev().take(half).filter(|(_, canary)| inside[*canary]).count();
    let (guesses, correct) = (2 * half as u32, (lowest + highest) as u32);
    let (_, delta) = numbers(claimed);
    let epsilon_lower = one_run_bound(canaries, guesses, correct, delta, 1.0 - CONFIDENCE);
    Ok(OneRunReport { claimed, epsilon_lower, confidence: CONFIDENCE, canaries, guesses, correct })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without δ the bound is the binomial one: this many correct guesses are too unlikely below it, and not above.
    #[test]
    fn the_bound_is_where_the_tail_crosses() {
        let found = one_run_bound(1000, 200, 150, 0.0, 0.05);
        let right = |epsilon: f64| 1.0 / (1.0 + exp(-epsilon));
        assert!((at_least(150, 200, right(found)) - 0.05).abs() < 1e-9);
        assert!(found > 0.7 && found < libm::log(3.0), "{found}");
    }

    #[test]
    fn delta_weakens_it_and_chance_shows_nothing() {
        let bounds = [0.0, 1e-9, 1e-6, 1e-5, 1e-3, 0.5].map(|delta| one_run_bound(1000, 200, 190, delta, 0.05));
        assert!(bounds.windows(2).all(|pair| pair[0] >= pair[1]), "{bounds:?}");
        assert!(bounds[2] > 0.95 * bounds[0] && bounds[5] == 0.0, "{bounds:?}");
        assert_eq!(one_run_bound(1000, 200, 100, 1e-6, 0.05), 0.0);
        assert_eq!(one_run_bound(1000, 0, 0, 1e-6, 0.05), 0.0);
        assert!(one_run_bound(1000, 200, 200, 0.0, 0.05) < 10.0);
    }
}
