//! Planted bugs: DP-SGD with mistakes that real implementations have made. The audit must detect each of them, and must
//! not refute the correct counterpart, with a false alarm probability of one in a million.
//!
//! Momentum on raw gradients is not among them: it needs gradients without noise, and the kernel releases none.

use sage_kernel::accountant::{Composition, Loss};
use sage_kernel::noise::{RoundedGaussian, SeededNoise, uniform_below};
use sage_learn::audit::{Claim, Finding, judge, score_steps};

use crate::{run_seed, size, sources};

const ALARM: f64 = 1e-6;
const DELTA: f64 = 1e-6;

/// The planted bug, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Gradients are not clipped.
    NoClip,
    /// Noise for the mean of a batch is added to its sum.
    NoiseOfTheMean,
    /// Samples have a fixed size, but are accounted for as Poisson samples.
    FixedSize,
    /// The sum is divided by the actual size of the sample.
    TrueCount,
    /// One draw of noise for all steps.
    NoiseReused,
    /// Each layer is clipped separately, but accounted for as if all were clipped together.
    ClipByLayer,
    /// A step with an empty sample releases zeros.
    EmptySkipped,
}

/// DP-SGD on two layers of one weight each, with a clip of one.
struct Training {
    bug: Bug,
    /// Gradients of the ordinary rows and of the canary.
    ordinary: &'static [[f64; 2]],
    canary: [f64; 2],
    rate: f64,
    sigma: f64,
    steps: u32,
}

fn norm(gradient: [f64; 2]) -> f64 {
    gradient[0].hypot(gradient[1])
}

fn clipped(gradient: [f64; 2]) -> [f64; 2] {
    gradient.map(|part| part / norm(gradient).max(1.0))
}

impl Training {
    /// The rows of a step.
    fn sample(&self, rows: &[[f64; 2]], noise: &mut SeededNoise) -> Vec<[f64; 2]> {
        if self.bug == Bug::FixedSize {
            let index = uniform_below(noise, rows.len() as u64).unwrap() as usize;
            return vec![rows[index]];
        }
        let taken = (self.rate * (1u64 << 32) as f64) as u64;
        rows.iter().copied().filter(|_| uniform_below(noise, 1 << 32).unwrap() < taken).collect()
    }

    /// The two released numbers of every step.
    fn released(&self, rows: &[[f64; 2]], noise: &mut SeededNoise) -> Vec<[f64; 2]> {
        let expected = self.rate * (self.ordinary.len() + 1) as f64;
        let mut drawn = [0.0; 2];
        let mut released = Vec::new();
        for step in 0..self.steps {
            let sample = self.sample(rows, noise);
            let mut sum = [0.0; 2];
            for &gradient in &sample {
                let counted = match self.bug {
                    Bug::NoClip => gradient,
                    Bug::ClipByLayer => gradient.map(|part| part.clamp(-1.0, 1.0)),
                    _ => clipped(gradient),
                };
                sum = [sum[0] + counted[0], sum[1] + counted[1]];
            }
            if step == 0 || self.bug != Bug::NoiseReused {
                let mut units = [0; 2];
                RoundedGaussian::new().fill(noise, &mut units).unwrap();
                drawn = units.map(|unit| self.sigma * f64::from(unit) / f64::from(1 << 24));
            }
            let scale = match self.bug {
                Bug::NoiseOfTheMean => 1.0 / expected,
                Bug::EmptySkipped if sample.is_empty() => 0.0,
                _ => 1.0,
            };
            // The release is a mean; the attacker multiplies it by the public divisor to get the sum.
            let divisor = if self.bug == Bug::TrueCount { sample.len() as f64 } else { expected };
            released.push([0, 1].map(|index| (sum[index] + scale * drawn[index]) / divisor * expected));
        }
        released
    }

    /// The attacker's score: the releases along the canary's direction, less the expected part of the other rows.
    fn score(&self, rows: &[[f64; 2]], noise: &mut SeededNoise) -> f64 {
        let direction = self.canary.map(|part| part / norm(self.canary));
        let along = |gradient: [f64; 2]| gradient[0] * direction[0] + gradient[1] * direction[1];
        let others: f64 = self.ordinary.iter().map(|&gradient| self.rate * along(clipped(gradient))).sum();
        let found: Vec<f64> = self.released(rows, noise).into_iter().map(|step| along(step) - others).collect();
        score_steps(&found, self.rate, self.sigma)
    }

    fn claim(&self) -> Claim {
        let steps = f64::from(self.steps);
        if self.rate >= 1.0 {
            return Claim::Gaussian { mu: steps.sqrt() / self.sigma, delta: DELTA };
        }
        let step = Loss::SampledGaussian { q: self.rate, sigma: self.sigma };
        let composition = Composition::new(&[(step, u64::from(self.steps))]).unwrap();
        Claim::composed(composition.epsilon(DELTA).unwrap(), DELTA, &composition)
    }

    fn audit(&self, runs: u32, seed: u64) -> Finding {
        let mut noise = sources(seed);
        let with: Vec<[f64; 2]> = self.ordinary.iter().copied().chain([self.canary]).collect();
        let mut play =
            |rows: &[[f64; 2]]| -> Vec<f64> { (0..runs).map(|_| self.score(rows, &mut noise().unwrap())).collect() };
        let (without, with) = (play(self.ordinary), play(&with));
        judge(&self.claim(), &without, &with, ALARM)
    }
}

/// Each bug in a setting in which it has an effect.
fn planted() -> [Training; 7] {
    let beside: &'static [[f64; 2]] = &[[1.0, 0.0]; 3];
    let against: &'static [[f64; 2]] = &[[-1.0, 0.0]; 2];
    let along: &'static [[f64; 2]] = &[[1.0, 0.0]; 8];
    let full = |bug, ordinary, canary| Training { bug, ordinary, canary, rate: 1.0, sigma: 2.0, steps: 4 };
    let half = |bug, ordinary, sigma| Training { bug, ordinary, canary: [1.0, 0.0], rate: 0.5, sigma, steps: 4 };
    [
        full(Bug::NoClip, beside, [0.0, 5.0]),
        full(Bug::NoiseOfTheMean, beside, [0.0, 5.0]),
        // One row of two: the canary displaces another row, and the sum changes by two.
        half(Bug::FixedSize, against, 0.5),
        // The canary reduces the sum by one and increases the count by one.
        full(Bug::TrueCount, along, [-1.0, 0.0]),
        Training { canary: [0.0, 1.0], ..half(Bug::NoiseReused, beside, 1.0) },
        full(Bug::ClipByLayer, &[], [5.0, 5.0]),
        half(Bug::EmptySkipped, &[], 1.0),
    ]
}

#[test]
fn every_planted_bug_is_found_and_its_twin_is_not() {
    let seed = run_seed("planted");
    let runs = size(3_000, 20_000);
    let mut missed = Vec::new();
    for (index, wrong) in planted().into_iter().enumerate() {
        let seed = seed ^ (index as u64) << 40;
        let right = Training { bug: Bug::None, ..wrong };
        let (found, twin) = (wrong.audit(runs, seed), right.audit(runs, seed + 1));
        println!("{:?}: {found:?}, right: {twin:?}", wrong.bug);
        if !found.refuted || twin.refuted {
            missed.push(wrong.bug);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
