//! Planted bugs: DP-SGD wrong in the ways real implementations have been. Each must be found, and its right
//! twin must not be, with a chance of a false alarm of one in a million.
//!
//! Momentum kept on raw gradients is not among them: it is a fault in what is done with gradients before
//! noise is added, and the kernel lets no gradient out without it, so there is no such step to get wrong.

use sage_kernel::accountant::{Composition, Loss};
use sage_kernel::noise::{RoundedGaussian, SeededNoise, uniform_below};
use sage_learn::audit::{Claim, Finding, judge, score_steps};

use crate::{run_seed, size, sources};

const ALARM: f64 = 1e-6;
const DELTA: f64 = 1e-6;

/// What is wrong, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Gradients are summed as they come.
    NoClip,
    /// Noise for the mean of a batch, on its sum.
    NoiseOfTheMean,
    /// So many rows in every step, counted as if each had come by its own coin.
    FixedSize,
    /// The sum is divided by how many rows took part.
    TrueCount,
    /// One draw of noise for all steps.
    NoiseReused,
    /// Each layer is clipped by itself, and counted as if all were together.
    ClipByLayer,
    /// A step in which no row takes part releases zeros.
    EmptySkipped,
}

/// DP-SGD on two layers of one weight each, with a clip of one, as an attacker would write it down.
struct Training {
    bug: Bug,
    /// Gradients of ordinary rows, and of the one to be found.
    ordinary: &'static [[f64; 2]],
    canary: [f64; 2],
    rate: f64,
    sigma: f64,
    steps: u32,
}

fn length(gradient: [f64; 2]) -> f64 {
    gradient[0].hypot(gradient[1])
}

fn shortened(gradient: [f64; 2]) -> [f64; 2] {
    gradient.map(|part| part / length(gradient).max(1.0))
}

impl Training {
    /// The rows of a step.
    fn sample(&self, rows: &[[f64; 2]], noise: &mut SeededNoise) -> Vec<[f64; 2]> {
        if self.bug == Bug::FixedSize {
            let place = uniform_below(noise, rows.len() as u64).unwrap() as usize;
            return vec![rows[place]];
        }
        let taken = (self.rate * (1u64 << 32) as f64) as u64;
        rows.iter().copied().filter(|_| uniform_below(noise, 1 << 32).unwrap() < taken).collect()
    }

    /// Every step's two numbers.
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
                    _ => shortened(gradient),
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
            // What is released is a mean; the attacker turns it back into a sum by the public divisor.
            let divisor = if self.bug == Bug::TrueCount { sample.len() as f64 } else { expected };
            released.push([0, 1].map(|place| (sum[place] + scale * drawn[place]) / divisor * expected));
        }
        released
    }

    /// How far what was released lies in the direction of the row, beyond what the others do on average.
    fn score(&self, rows: &[[f64; 2]], noise: &mut SeededNoise) -> f64 {
        let direction = self.canary.map(|part| part / length(self.canary));
        let along = |gradient: [f64; 2]| gradient[0] * direction[0] + gradient[1] * direction[1];
        let others: f64 = self.ordinary.iter().map(|&gradient| self.rate * along(shortened(gradient))).sum();
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

/// Each bug where it shows.
fn planted() -> [Training; 7] {
    let beside: &'static [[f64; 2]] = &[[1.0, 0.0]; 3];
    let against: &'static [[f64; 2]] = &[[-1.0, 0.0]; 2];
    let along: &'static [[f64; 2]] = &[[1.0, 0.0]; 8];
    let full = |bug, ordinary, canary| Training { bug, ordinary, canary, rate: 1.0, sigma: 2.0, steps: 4 };
    let half = |bug, ordinary, sigma| Training { bug, ordinary, canary: [1.0, 0.0], rate: 0.5, sigma, steps: 4 };
    [
        full(Bug::NoClip, beside, [0.0, 5.0]),
        full(Bug::NoiseOfTheMean, beside, [0.0, 5.0]),
        // One row of two: the newcomer drives another out, and the sum moves by two.
        half(Bug::FixedSize, against, 0.5),
        // The newcomer takes one from the sum and adds one to the count.
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
    for (place, wrong) in planted().into_iter().enumerate() {
        let seed = seed ^ (place as u64) << 40;
        let right = Training { bug: Bug::None, ..wrong };
        let (found, twin) = (wrong.audit(runs, seed), right.audit(runs, seed + 1));
        println!("{:?}: {found:?}, right: {twin:?}", wrong.bug);
        if !found.refuted || twin.refuted {
            missed.push(wrong.bug);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
