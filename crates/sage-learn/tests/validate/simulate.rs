//! Simulated rates of wrong verdicts: rows whose mean is exactly at the target, losses at both ends of their range (the
//! worst case of these bounds) and the kernel's exact noise, for zero to ten thousand rows, very small to very large ε,
//! and rare to common targets.

use std::num::NonZeroU32;

use sage_kernel::{Epsilon, Pair, SCALE, Sigma, TableNoise, Triple};
use sage_learn::validate::decide::{
    Tail, accepts, accepts_accuracy, accepts_by_variance, interval, mean, rejects, rejects_accuracy,
};
use sage_learn::validate::{LossTarget, Margin, Noise, Risk};

use super::chance::{Binomial, Dice, Source, mix, run_seed, runs, within};
use super::vectors::POWER;

pub const ROWS: [u64; 7] = [0, 1, 5, 20, 100, 1000, 10_000];
/// In units of 10^-12.
pub const EPSILONS: [u64; 7] = [
    10_000_000_000,
    50_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
    10_000_000_000_000,
    100_000_000_000_000,
    10_000_000_000_000_000,
];
pub const MEANS: [f64; 6] = [0.001, 0.01, 0.05, 0.3, 0.5, 0.9];
pub const RISKS: [f64; 3] = [0.5, 0.05, 0.01];
const BOUNDS: [f64; 4] = [0.1, 1.0, 10.0, 100.0];
const TAILS: [Tail; 3] = [Tail::KullbackLeibler, Tail::Bernstein, Tail::Hoeffding];
/// The kernel's gap of a least loss, in steps.
const GAP_STEPS: u64 = 1024;

/// One setting of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub rows: u64,
    pub mean: f64,
    /// ε in units of 10^-12.
    pub epsilon: u64,
}

impl Point {
    pub fn seed(self, run: u64) -> u64 {
        mix(&[run, self.rows, self.mean.to_bits(), self.epsilon])
    }

    pub fn table_noise(self) -> TableNoise {
        TableNoise::Laplace(Epsilon::from_units(self.epsilon).unwrap())
    }
}

pub fn points() -> impl Iterator<Item = Point> {
    ROWS.into_iter()
        .flat_map(|rows| MEANS.into_iter().flat_map(move |mean| EPSILONS.map(|epsilon| Point { rows, mean, epsilon })))
}

/// Counts, for each of several decisions, how often it is made; `decide` gets the exact sum and three noises.
pub fn count<const DECISIONS: usize>(
    point: Point, source: &Source, seed: u64, decide: impl Fn(f64, [f64; 3]) -> [bool; DECISIONS],
) -> [usize; DECISIONS] {
    let distribution = Binomial::new(point.rows, point.mean);
    let mut dice = Dice::new(seed);
    let mut counts = [0; DECISIONS];
    for noise in source.draws(seed, 3 * runs()).chunks_exact(3) {
        let made = decide(distribution.draw(&mut dice), [noise[0], noise[1], noise[2]]);
        counts.iter_mut().zip(made).for_each(|(count, made)| *count += usize::from(made));
    }
    counts
}

/// Checks the rates at one point and returns the largest, divided by the risk.
fn check<const DECISIONS: usize>(point: Point, what: &str, counts: [usize; DECISIONS], risk: f64) -> f64 {
    for (index, count) in counts.into_iter().enumerate() {
        assert!(within(count, runs(), risk), "{what} {index}: {count} wrong of {} at {point:?}, risk {risk}", runs());
    }
    counts.into_iter().max().unwrap_or(0) as f64 / runs() as f64 / risk
}

fn noisy(point: Point, sum: f64, noise: [f64; 3]) -> Pair {
    Pair { above: sum + noise[0], below: point.rows as f64 - sum + noise[1] }
}

#[test]
fn losses_are_wrongly_accepted_within_the_risk() {
    let seed = run_seed("losses accepted");
    let mut worst = 0.0f64;
    for point in points() {
        let source = Source::laplace(point.epsilon);
        for risk in RISKS {
            let margin = Margin::one_sided(point.table_noise().into(), Risk::new(risk).unwrap());
            let targets = BOUNDS.map(|bound| LossTarget::new(point.mean * bound, bound).unwrap().share());
            let counts = count(point, &source, point.seed(seed), |sum, noise| {
                let sums = noisy(point, sum, noise);
                let by_bound = targets.map(|target| accepts(sums, target, margin, Tail::KullbackLeibler));
                let by_tail = TAILS.map(|tail| accepts(sums, point.mean, margin, tail));
                [by_bound[0], by_bound[1], by_bound[2], by_bound[3], by_tail[1], by_tail[2]]
            });
            worst = worst.max(check(point, "loss accepted", counts, risk));
        }
    }
    println!("worst rate over risk: {worst}");
    // The half of the risk for the rows is used: the tests are not vacuous.
    assert!(worst > 0.2);
}

#[test]
fn classes_are_wrongly_rejected_within_the_risk() {
    let seed = run_seed("classes rejected");
    let gap = (GAP_STEPS + 1) as f64 / SCALE as f64;
    let mut worst = 0.0f64;
    for point in points() {
        let source = Source::with_sensitivity(SCALE + 2 * GAP_STEPS, point.epsilon);
        let noise_distribution = Noise::of_best_loss(Epsilon::from_units(point.epsilon).unwrap(), gap);
        for risk in RISKS {
            let margin = Margin::one_sided(noise_distribution, Risk::new(risk).unwrap());
            let counts = count(point, &source, point.seed(seed), |sum, noise| {
                // The computed least loss lies above the true one by as much as the gap allows.
                let mut sums = noisy(point, sum, noise);
                sums.above += gap;
                sums.below -= gap;
                TAILS.map(|tail| rejects(sums, point.mean, gap, margin, tail))
            });
            worst = worst.max(check(point, "class rejected", counts, risk));
        }
    }
    println!("worst rate over risk: {worst}");
    assert!(worst > 0.15);
}

#[test]
fn accuracies_are_wrongly_decided_within_the_risk() {
    let seed = run_seed("accuracies");
    let mut worst = 0.0f64;
    for point in points() {
        let source = Source::laplace(point.epsilon);
        for risk in RISKS {
            let margin = Margin::one_sided(point.table_noise().into(), Risk::new(risk).unwrap());
            let counts = count(point, &source, point.seed(seed), |right, noise| {
                let sums = noisy(point, right, noise);
                [
                    accepts_accuracy(sums.above, sums.below, point.mean, margin),
                    rejects_accuracy(sums.above, sums.below, point.mean, margin),
                ]
            });
            worst = worst.max(check(point, "accuracy", counts, risk));
        }
    }
    println!("worst rate over risk: {worst}");
    assert!(worst > 0.3);
}

/// Rows are spread over some keys, and the majority class of each key has the same probability, so the best function
/// has exactly this accuracy. The best function on the sample has a higher one: much higher with few rows and many keys.
#[test]
fn classes_of_answers_are_wrongly_rejected_within_the_risk() {
    let seed = run_seed("answers rejected");
    let mut worst = 0.0f64;
    for point in points().filter(|point| point.mean >= 0.5) {
        let source = Source::laplace(point.epsilon);
        for keys in [1, 20] {
            let distributions =
                [point.rows / keys, point.rows / keys + 1].map(|rows| (rows, Binomial::new(rows, point.mean)));
            let margins = RISKS.map(|risk| Margin::one_sided(point.table_noise().into(), Risk::new(risk).unwrap()));
            let mut dice = Dice::new(point.seed(seed));
            let mut rejected = [0; RISKS.len()];
            for noise in source.draws(point.seed(seed), 2 * runs()).chunks_exact(2) {
                let best = |key: u64, dice: &mut Dice| {
                    let (rows, distribution) = &distributions[usize::from(key < point.rows % keys)];
                    let first = distribution.draw(dice);
                    first.max(*rows as f64 - first)
                };
                let right: f64 = (0..keys).map(|key| best(key, &mut dice)).sum();
                let (right, wrong) = (right + noise[0], point.rows as f64 - right + noise[1]);
                for (rejected, margin) in rejected.iter_mut().zip(margins) {
                    *rejected += usize::from(rejects_accuracy(right, wrong, point.mean, margin));
                }
            }
            for (rejected, risk) in rejected.into_iter().zip(RISKS) {
                worst = worst.max(check(point, "class of answers rejected", [rejected], risk));
            }
        }
    }
    println!("worst rate over risk: {worst}");
    // With one key nothing is gained by choosing, and the statistical half is used.
    assert!(worst > 0.15);
}

/// Losses of none, a half and all of the range, so that squares and losses differ.
#[test]
fn losses_are_wrongly_accepted_by_variance_within_the_risk() {
    let seed = run_seed("losses accepted by variance");
    for point in points().filter(|point| point.rows != 1) {
        let source = Source::laplace(point.epsilon);
        let halves = Binomial::new(point.rows, 0.5);
        for risk in RISKS {
            let margin = Margin::of_triple(point.table_noise().into(), Risk::new(risk).unwrap());
            let distribution = Binomial::new(point.rows, point.mean);
            let mut dice = Dice::new(point.seed(seed));
            let mut counts = [0; 2];
            for noise in source.draws(point.seed(seed), 3 * runs()).chunks_exact(3) {
                let (ones, half) = (distribution.draw(&mut dice), halves.draw(&mut dice));
                let triple = |squares: f64, rest: f64, below: f64| Triple {
                    squares: squares + noise[0],
                    rest: rest + noise[1],
                    below: below + noise[2],
                };
                let rows = point.rows as f64;
                let both_ends = triple(ones, 0.0, rows - ones);
                // Each loss is zero or a half with equal chances: a mean of a quarter.
                let small = triple(half / 4.0, half / 4.0, rows - half / 2.0);
                counts[0] += usize::from(accepts_by_variance(both_ends, point.mean, margin));
                counts[1] += usize::from(accepts_by_variance(small, 0.25, margin));
            }
            check(point, "loss accepted by variance", counts, risk);
        }
    }
}

#[test]
fn means_are_within_their_limits() {
    let seed = run_seed("means");
    let chosen = |point: &Point| {
        [20, 100, 10_000].contains(&point.rows)
            && [EPSILONS[1], EPSILONS[3], EPSILONS[6]].contains(&point.epsilon)
            && [0.01, 0.3, 0.9].contains(&point.mean)
    };
    // Noise that is most of the error, on very many rows.
    let noisy_point = Point { rows: 74_000_000, mean: 0.9, epsilon: 10_000_000 };
    for point in points().filter(chosen).chain([noisy_point]) {
        let source = Source::laplace(point.epsilon);
        for risk in RISKS {
            let margin = Margin::two_sided(point.table_noise().into(), Risk::new(risk).unwrap());
            let counts = count(point, &source, point.seed(seed), |sum, noise| {
                let sums = noisy(point, sum, noise);
                let (low, high) = interval(sums, margin);
                // Where the mean is further off than the half-width, a precision between the two is accepted
                // wrongly.
                let further =
                    mean(sums).is_some_and(|found| (found - point.mean).abs() > (high - found).max(found - low));
                [further, point.mean < low || point.mean > high]
            });
            check(point, "mean", counts, risk);
        }
    }
}

#[test]
fn gaussian_noise_keeps_the_risk_too() {
    let seed = run_seed("gaussian");
    for (rows, mean, sigma) in
        [(0, 0.3, 5), (20, 0.5, 1), (100, 0.05, 5), (1000, 0.01, 10), (1000, 0.5, 1), (1000, 0.9, 100)]
    {
        let point = Point { rows, mean, epsilon: sigma };
        let source = Source::gaussian(sigma);
        let noise_distribution = Noise::from(TableNoise::Gaussian(Sigma::from_units(sigma * 1_000_000_000).unwrap()));
        for risk in RISKS {
            let margin = Margin::one_sided(noise_distribution, Risk::new(risk).unwrap());
            let counts = count(point, &source, point.seed(seed), |sum, noise| {
                let sums = noisy(point, sum, noise);
                [
                    accepts(sums, mean, margin, Tail::KullbackLeibler),
                    rejects(sums, mean, 0.0, margin, Tail::KullbackLeibler),
                    accepts_accuracy(sums.above, sums.below, mean, margin),
                ]
            });
            check(point, "gaussian", counts, risk);
        }
    }
}

/// A model that is better than its target is accepted with the expected number of rows.
#[test]
fn good_models_are_accepted() {
    let seed = run_seed("power");
    for &(target, mean, epsilon, loss_rows, accuracy_rows) in POWER {
        let point = |rows| Point { rows, mean, epsilon };
        let source = Source::laplace(epsilon);
        let margin = Margin::one_sided(point(1).table_noise().into(), Risk::new(0.05).unwrap());
        let here = point(loss_rows);
        let [loss] = count(here, &source, here.seed(seed), |sum, noise| {
            [accepts(noisy(here, sum, noise), target, margin, Tail::KullbackLeibler)]
        });
        let here = point(accuracy_rows);
        let [accuracy] = count(here, &source, here.seed(seed), |wrong, noise| {
            let sums = noisy(here, wrong, noise);
            [accepts_accuracy(sums.below, sums.above, 1.0 - target, margin)]
        });
        for count in [loss, accuracy] {
            let rate = count as f64 / runs() as f64;
            assert!((0.88..0.97).contains(&rate), "target {target}, mean {mean}, epsilon {epsilon}: {rate}");
        }
    }
}

/// Twelve attempts, each with a new model exactly at the target: with the schedule the probability that any is accepted
/// stays within the risk; with the whole risk for each attempt it does not.
#[test]
fn attempts_share_the_risk() {
    let seed = run_seed("attempts");
    let point = Point { rows: 1000, mean: 0.75, epsilon: EPSILONS[4] };
    let source = Source::laplace(point.epsilon);
    for risk in [0.05, 0.01] {
        let whole = Risk::new(risk).unwrap();
        let mut accepted = [vec![false; runs()], vec![false; runs()]];
        for attempt in 1..=12 {
            let shares = [whole.at_attempt(NonZeroU32::new(attempt).unwrap()), whole];
            let margins = shares.map(|share| Margin::one_sided(point.table_noise().into(), share));
            let distribution = Binomial::new(point.rows, point.mean);
            let seed = mix(&[seed, u64::from(attempt)]);
            let mut dice = Dice::new(seed);
            for (run, noise) in source.draws(seed, 2 * runs()).chunks_exact(2).enumerate() {
                let right = distribution.draw(&mut dice);
                let sums = (right + noise[0], point.rows as f64 - right + noise[1]);
                for (accepted, margin) in accepted.iter_mut().zip(margins) {
                    accepted[run] |= accepts_accuracy(sums.0, sums.1, point.mean, margin);
                }
            }
        }
        let [scheduled, flat] = accepted.map(|runs| runs.into_iter().filter(|&accepted| accepted).count());
        assert!(within(scheduled, runs(), risk), "{scheduled} of {} at risk {risk}", runs());
        assert!(!within(flat, runs(), risk), "{flat} of {}: the simulation would not detect it", runs());
    }
}
