//! Simulated rates of wrong verdicts about the area under the ROC curve: the area is exactly at the target, and within
//! each bin of scores the true order is the worst one, so that the area is that of the bins with ties counted against
//! the model. Planted mistakes must be detected by the same simulation.

use std::num::NonZeroU32;

use sage_kernel::{Epsilon, Sigma, TableNoise};
use sage_learn::validate::{BinMargin, Margin, Noise, Risk, ScoreCounts};

use super::chance::{Dice, Source, mix, run_seed, within};
use super::simulate::RISKS;

/// Two classes with shares of their rows by bins of the score.
struct World {
    positives: Vec<f64>,
    negatives: Vec<f64>,
    /// Rows of each class.
    rows: [u32; 2],
}

impl World {
    /// Scores that rise with the class, in so many bins; with a strength of zero they say nothing.
    fn new(bins: u32, strength: f64, rows: [u32; 2]) -> Self {
        let shares = |slope: f64| {
            let weight = |bin: u32| (slope * (f64::from(bin) + 0.5) / f64::from(bins)).exp();
            let total: f64 = (0..bins).map(weight).sum();
            (0..bins).map(|bin| weight(bin) / total).collect()
        };
        Self { positives: shares(strength), negatives: shares(-strength), rows }
    }

    fn bins(&self) -> NonZeroU32 {
        NonZeroU32::new(self.positives.len() as u32).unwrap()
    }

    /// The probability that a row of the class is in a higher bin than another row.
    fn area(&self) -> f64 {
        let above = |bin: usize| self.positives[bin + 1..].iter().sum::<f64>();
        self.negatives.iter().enumerate().map(|(bin, share)| share * above(bin)).sum()
    }

    /// The exact counts of one sample.
    fn draw(&self, dice: &mut Dice) -> [Vec<f64>; 2] {
        [(&self.positives, self.rows[0]), (&self.negatives, self.rows[1])].map(|(shares, rows)| {
            let mut counts = vec![0.0; shares.len()];
            for _ in 0..rows {
                let mut unit = dice.unit();
                let found = shares.iter().position(|share| {
                    unit -= share;
                    unit < 0.0
                });
                counts[found.unwrap_or(shares.len() - 1)] += 1.0;
            }
            counts
        })
    }
}

/// A decision about noisy counts: positives, negatives, the target, the noise and the risk.
type Decide = fn(&[f64], &[f64], f64, Noise, f64) -> bool;

fn margin(noise: Noise, bins: usize, risk: f64) -> BinMargin {
    BinMargin::one_sided(noise, NonZeroU32::new(bins as u32).unwrap(), Risk::new(risk).unwrap())
}

fn ours(positives: &[f64], negatives: &[f64], target: f64, noise: Noise, risk: f64) -> bool {
    ScoreCounts { positives, negatives }.accepts(target, margin(noise, positives.len(), risk))
}

/// The noise is not allowed for.
fn without_noise(positives: &[f64], negatives: &[f64], target: f64, noise: Noise, risk: f64) -> bool {
    let margin = BinMargin { reach: 0.0, ..margin(noise, positives.len(), risk) };
    ScoreCounts { positives, negatives }.accepts(target, margin)
}

/// A pair in one bin counts in favour of the model: positives are moved up by a bin.
fn ties_in_favour(positives: &[f64], negatives: &[f64], target: f64, noise: Noise, risk: f64) -> bool {
    let margin = margin(noise, positives.len(), risk);
    let positives: Vec<f64> = [0.0].iter().chain(positives).copied().collect();
    let negatives: Vec<f64> = negatives.iter().chain(&[0.0]).copied().collect();
    ScoreCounts { positives: &positives, negatives: &negatives }.accepts(target, margin)
}

/// All rows count as independent pairs, not those of the smaller class.
fn all_rows(positives: &[f64], negatives: &[f64], target: f64, noise: Noise, risk: f64) -> bool {
    use sage_learn::validate::decide::{Tail, accepts};
    let margin = margin(noise, positives.len(), risk);
    let Some(mut pairs) = (ScoreCounts { positives, negatives }).worst_pairs(margin.reach) else { return false };
    let all: f64 = positives.iter().chain(negatives).sum();
    let factor = all / (pairs.above + pairs.below);
    pairs.above *= factor;
    pairs.below *= factor;
    accepts(pairs, 1.0 - target, Margin::new(0.0, margin.chance).unwrap(), Tail::KullbackLeibler)
}

/// Runs at each setting.
const RUNS: usize = 4000;

fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for bins in [2, 8, 32] {
        for strength in [0.5, 2.0] {
            for rows in [[0, 40], [8, 8], [30, 300], [400, 100]] {
                worlds.push(World::new(bins, strength, rows));
            }
        }
    }
    worlds
}

/// How often each decision accepts the target, at which the area is exactly.
fn accepted<const DECISIONS: usize>(
    world: &World, (source, noise): (&Source, Noise), risk: f64, seed: u64, decisions: [Decide; DECISIONS],
) -> [usize; DECISIONS] {
    let bins = world.positives.len();
    let mut dice = Dice::new(seed);
    let mut counts = [0; DECISIONS];
    for noises in source.draws(seed, 2 * bins * RUNS).chunks_exact(2 * bins) {
        let mut drawn = world.draw(&mut dice);
        drawn.iter_mut().flatten().zip(noises).for_each(|(count, noise)| *count += noise);
        let [positives, negatives] = &drawn;
        for (count, decide) in counts.iter_mut().zip(decisions) {
            *count += usize::from(decide(positives, negatives, world.area(), noise, risk));
        }
    }
    counts
}

/// Laplace noise of several ε, in units of 10^-12, and Gaussian noise.
fn noises() -> Vec<(Source, Noise)> {
    let laplace = |units: u64| {
        let noise = TableNoise::Laplace(Epsilon::from_units(units).unwrap());
        (Source::laplace(units), Noise::from(noise))
    };
    let sigma = TableNoise::Gaussian(Sigma::from_units(2_000_000_000).unwrap());
    vec![
        laplace(100_000_000_000),
        laplace(1_000_000_000_000),
        laplace(10_000_000_000_000_000),
        (Source::gaussian(2), Noise::from(sigma)),
    ]
}

#[test]
fn areas_are_wrongly_accepted_within_the_risk() {
    let seed = run_seed("areas");
    let mut worst = 0.0f64;
    for (index, world) in worlds().iter().enumerate() {
        for (kind, (source, noise)) in noises().iter().enumerate() {
            for risk in RISKS {
                let seed = mix(&[seed, index as u64, kind as u64, risk.to_bits()]);
                let [count] = accepted(world, (source, *noise), risk, seed, [ours]);
                let setting = (world.bins(), world.rows, noise, risk);
                assert!(within(count, RUNS, risk), "{count} wrong of {RUNS} at {setting:?}");
                worst = worst.max(count as f64 / RUNS as f64 / risk);
            }
        }
    }
    println!("worst rate over risk: {worst}");
    assert!(worst > 0.02, "the test is not vacuous: {worst}");
}

/// The largest sum of the noise of the first bins exceeds its reach as rarely as stated; that of one bin is not enough.
#[test]
fn sums_of_noise_stay_within_their_reach() {
    let seed = run_seed("reach of sums");
    const DRAWS: usize = 20_000;
    for (kind, (source, noise)) in noises().iter().enumerate() {
        for bins in [1, 2, 8, 32] {
            for risk in RISKS {
                let reach = margin(*noise, bins, risk).reach;
                let one = noise.reach(risk / 8.0);
                let draws = source.draws(mix(&[seed, kind as u64, bins as u64]), bins * DRAWS);
                let beyond = |reach: f64| {
                    let largest = |draws: &[f64]| {
                        let sums = draws.iter().scan(0.0, |sum, draw| {
                            *sum += draw;
                            Some(*sum)
                        });
                        sums.fold(0.0, f64::max)
                    };
                    draws.chunks_exact(bins).filter(|draws| largest(draws) > reach).count()
                };
                let (found, allowed) = (beyond(reach), risk / 8.0);
                assert!(within(found, DRAWS, allowed), "{found} of {DRAWS} for {bins} bins, {noise:?}, {risk}");
                let planted = beyond(one);
                assert!(bins < 8 || !within(planted, DRAWS, allowed), "the reach of one bin is not enough: {planted}");
            }
        }
    }
}

#[test]
fn planted_mistakes_are_detected() {
    let seed = run_seed("planted areas");
    let planted: [(&str, Decide); 3] = [
        ("no allowance for noise", without_noise),
        ("ties in favour of the model", ties_in_favour),
        ("all rows as pairs", all_rows),
    ];
    let mut found = [0; 3];
    for (index, world) in worlds().iter().enumerate() {
        for (kind, (source, noise)) in noises().iter().enumerate() {
            let seed = mix(&[seed, index as u64, kind as u64]);
            let counts = accepted(world, (source, *noise), 0.05, seed, planted.map(|(_, decide)| decide));
            for (found, count) in found.iter_mut().zip(counts) {
                *found += usize::from(!within(count, RUNS, 0.05));
            }
        }
    }
    for ((what, _), found) in planted.iter().zip(found) {
        println!("{what}: {found} settings");
        assert!(found > 0, "{what} was not detected");
    }
}

/// A model that is better than its target is accepted with enough rows, and more often with less noise.
#[test]
fn good_rankings_are_accepted() {
    let seed = run_seed("power of areas");
    let world = World::new(32, 2.0, [600, 600]);
    let rate = |target: f64, epsilon: u64| {
        let (source, noise) =
            (Source::laplace(epsilon), Noise::from(TableNoise::Laplace(Epsilon::from_units(epsilon).unwrap())));
        let mut dice = Dice::new(seed);
        let runs = source.draws(seed, 64 * 500);
        let accepted = runs.chunks_exact(64).filter(|noises| {
            let mut drawn = world.draw(&mut dice);
            drawn.iter_mut().flatten().zip(*noises).for_each(|(count, noise)| *count += noise);
            ours(&drawn[0], &drawn[1], target, noise, 0.05)
        });
        accepted.count() as f64 / 500.0
    };
    println!("the area is {}", world.area());
    let (quiet, noisy) = (rate(world.area() - 0.1, 10_000_000_000_000), rate(world.area() - 0.1, 300_000_000_000));
    assert!(quiet > 0.9, "{quiet}");
    assert!(noisy < quiet, "{noisy} {quiet}");
}
