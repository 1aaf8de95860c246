//! The canary audit: many plays of a game, and the report on them.

use sage_kernel::noise::{NoiseError, NoiseSource};
use sage_kernel::{Ceiling, GateError, SessionError};

use super::bound::{Claim, judge};
use super::game::{Game, World, numbers};
use crate::network::{PlanError, TrainError};

/// The confidence of the reported lower bound.
const CONFIDENCE: f64 = 0.99;

/// The probability that a claim that holds is reported as violated.
const FALSE_ALARM: f64 = 1e-6;

/// The number of plays in each world: fewer have no power, more take too long in one process.
const RUNS: std::ops::RangeInclusive<u32> = 100..=10_000_000;

/// Which learner is audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learner {
    /// A network by DP-SGD in which every step uses all rows: the tightest audit.
    Network,
    /// The same with Poisson-sampled steps.
    SampledNetwork,
    /// Linear regression from noisy moments and a noisy smallest eigenvalue.
    Linear,
}

impl std::fmt::Display for Learner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Network => "network",
            Self::SampledNetwork => "sampled",
            Self::Linear => "linear",
        })
    }
}

/// The conclusion of an audit about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing contradicts the claim. That does not prove it.
    Fine,
    /// The claim is contradicted, except for the probability of a false alarm.
    Violated,
}

/// The result of a canary audit.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryReport {
    /// The learner.
    pub learner: Learner,
    /// The claim.
    pub claimed: Ceiling,
    /// A lower bound of ε at the claimed δ, with the confidence below.
    pub epsilon_lower: f64,
    /// The confidence of the lower bound.
    pub confidence: f64,
    /// The probability of the verdict `Violated` if the claim holds.
    pub false_alarm: f64,
    /// Plays with the row, and as many without it.
    pub runs: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// The report as a sentence.
    pub sentence: String,
}

/// Why an audit failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditError {
    /// A parameter is out of range; the text says which.
    Parameter(&'static str),
    /// No noise brings the learner within the claim.
    OutOfReach,
    /// The training could not be planned.
    Plan(PlanError),
    /// The gate refused a charge that its own filter admits.
    Refused,
    /// The gate failed.
    Gate(GateError),
    /// The session refused a mechanism.
    Session(SessionError),
    /// A training failed.
    Train(TrainError),
    /// There is no randomness.
    Noise(NoiseError),
}

impl std::fmt::Display for AuditError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Parameter(text) => out.write_str(text),
            Self::OutOfReach => out.write_str("no learner can be set up for this epsilon and delta"),
            Self::Plan(error) => error.fmt(out),
            Self::Refused => out.write_str("the gate refused a charge that the plan was made for"),
            Self::Gate(error) => error.fmt(out),
            Self::Session(error) => error.fmt(out),
            Self::Train(error) => error.fmt(out),
            Self::Noise(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for AuditError {}

/// Plays the learner's game `runs` times with and without the canary, each time with noise from a new source, and
/// tests the claim.
///
/// # Errors
/// When a parameter is out of range, or the kernel does not run a play.
pub fn canary<N: NoiseSource>(
    learner: Learner, claimed: Ceiling, runs: u32, mut noise: impl FnMut() -> Result<N, NoiseError>,
) -> Result<CanaryReport, AuditError> {
    check(claimed)?;
    if !RUNS.contains(&runs) {
        return Err(AuditError::Parameter("an audit has from 100 to 10000000 runs"));
    }
    let mut game = Game::new(learner, claimed)?;
    let (without, with) = play(&mut game, runs, &mut noise)?;
    Ok(report(learner, claimed, game.claim(), &without, &with))
}

/// The attacker's scores without the row and with it.
fn play<N: NoiseSource>(
    game: &mut Game, runs: u32, noise: &mut impl FnMut() -> Result<N, NoiseError>,
) -> Result<(Vec<f64>, Vec<f64>), AuditError> {
    let (mut without, mut with) = (Vec::with_capacity(runs as usize), Vec::with_capacity(runs as usize));
    for _ in 0..runs {
        without.push(game.play(World::Without, noise()?)?);
        with.push(game.play(World::With, noise()?)?);
    }
    Ok((without, with))
}

fn report(learner: Learner, claimed: Ceiling, claim: &Claim, without: &[f64], with: &[f64]) -> CanaryReport {
    let quoted = judge(claim, without, with, 1.0 - CONFIDENCE);
    let sure = judge(claim, without, with, FALSE_ALARM);
    let mut report = CanaryReport {
        learner,
        claimed,
        epsilon_lower: quoted.epsilon_lower,
        confidence: CONFIDENCE,
        false_alarm: FALSE_ALARM,
        runs: with.len() as u32,
        verdict: if sure.refuted { Verdict::Violated } else { Verdict::Fine },
        sentence: String::new(),
    };
    report.sentence = sentence(&report);
    report
}

/// The largest ε of an audit: beyond it the noise is below the resolution of a step's grid.
const LARGEST: f64 = 50.0;

pub(super) fn check(claimed: Ceiling) -> Result<(), AuditError> {
    let (epsilon, delta) = numbers(claimed);
    if !(0.01..=LARGEST).contains(&epsilon) {
        return Err(AuditError::Parameter("the epsilon of an audit is from 0.01 to 50"));
    }
    if !(1e-12..=0.1).contains(&delta) {
        return Err(AuditError::Parameter("the delta of an audit is from 1e-12 to 0.1"));
    }
    Ok(())
}

fn sentence(report: &CanaryReport) -> String {
    let Ceiling { epsilon, delta } = report.claimed;
    let shown = format!("{:.4}", report.epsilon_lower);
    let runs = report.runs;
    match report.verdict {
        Verdict::Fine => format!(
            "Of {runs} runs with a planted row and {runs} without it, an attacker who sees everything released can tell \
             so much apart that epsilon is at least {shown} (confidence {:.0} %). Claimed is epsilon {epsilon} at delta \
             {delta}: nothing contradicts it.",
            100.0 * report.confidence
        ),
        Verdict::Violated => format!(
            "VIOLATED: {runs} runs with a planted row and {runs} without it can be distinguished better than epsilon \
             {epsilon} at delta {delta} allows; epsilon is at least {shown} (confidence {:.0} %). The chance that this \
             alarm is false is at most {:e}.",
            100.0 * report.confidence,
            report.false_alarm
        ),
    }
}

#[cfg(test)]
mod tests {
    use sage_kernel::noise::SeededNoise;
    use sage_kernel::{Delta, Epsilon};

    use super::*;

    fn ceiling(epsilon: &str) -> Ceiling {
        Ceiling { epsilon: Epsilon::ceiling(epsilon).unwrap(), delta: Delta::ceiling("1e-6").unwrap() }
    }

    /// A learner with the noise for one claim is detected when tested against a stricter one.
    #[test]
    fn less_noise_than_claimed_is_found() {
        let cases = [(Learner::Network, "6"), (Learner::SampledNetwork, "3"), (Learner::Linear, "6")];
        for (learner, stricter) in cases {
            let mut seed = 0x5a6e_0001u64;
            let mut game = Game::new(learner, ceiling("8")).unwrap();
            let (without, with) = play(&mut game, 3000, &mut || {
                seed += 1;
                Ok(SeededNoise::new(seed))
            })
            .unwrap();
            let honest = report(learner, ceiling("8"), game.claim(), &without, &with);
            assert_eq!(honest.verdict, Verdict::Fine, "{}", honest.sentence);
            let claim = Game::new(learner, ceiling(stricter)).unwrap().claim().clone();
            let found = report(learner, ceiling(stricter), &claim, &without, &with);
            assert_eq!(found.verdict, Verdict::Violated, "{}", found.sentence);
            assert!(found.sentence.starts_with("VIOLATED"), "{}", found.sentence);
        }
    }
}
