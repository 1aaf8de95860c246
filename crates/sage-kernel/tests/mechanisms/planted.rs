//! Planted bugs: mechanisms that are wrong in the ways real ones have been. Each is run through the same
//! detection as the kernel's own, beside a right twin, and must be caught; the twin must not be.

use crate::support::distinguish::{Claim, Sample, judge};
use crate::support::{Dice, mix, run_seed, size};
use sage_kernel::noise::{DiscreteGaussian, DiscreteLaplace, SeededNoise};

const SCALE: f64 = 1_048_576.0;

/// Randomness for the mechanisms of this file.
/// A single draw.
fn one(draw: impl FnOnce(&mut [i128]) -> Result<(), sage_kernel::noise::NoiseError>) -> i128 {
    let mut drawn = [0];
    draw(&mut drawn).expect("noise");
    drawn[0]
}

struct Source {
    noise: SeededNoise,
    dice: Dice,
    /// What a clock with whole seconds shows; the source of some bad seeds.
    second: u64,
}

impl Source {
    /// Discrete Laplace noise for a loss of one where one row moves a sum by one, over `wrong`.
    fn laplace(&mut self, wrong: f64) -> f64 {
        let denominator = (1e6 * wrong) as u64;
        let distribution = DiscreteLaplace::new(1_048_576 * 1_000_000, denominator).expect("a distribution");
        one(|out| distribution.fill(&mut self.noise, out)) as f64 / SCALE
    }

    /// Discrete Gaussian noise with multiplier one half.
    fn gaussian(&mut self) -> f64 {
        let distribution = DiscreteGaussian::new(524_288, 1).expect("a distribution");
        one(|out| distribution.fill(&mut self.noise, out)) as f64 / SCALE
    }
}

/// Noise by the formula of the textbook.
fn textbook_laplace(source: &mut Source) -> f64 {
    let uniform = source.dice.unit() - 0.5;
    -uniform.signum() * (1.0 - 2.0 * uniform.abs()).ln()
}

fn textbook_gaussian(source: &mut Source) -> f64 {
    let (one, other) = (1.0 - source.dice.unit(), source.dice.unit());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

fn score(released: f64) -> f64 {
    released.abs() - (released - 1.0).abs()
}

fn plain(released: f64) -> Sample {
    Sample::new(score(released), released, 1.0 / SCALE)
}

/// A mechanism on rows, as what it would let out.
type Release = fn(&mut Source, &[f64]) -> Sample;

struct Planted {
    name: &'static str,
    claim: Claim,
    without: &'static [f64],
    with: &'static [f64],
    right: Release,
    wrong: Release,
    samples: usize,
}

fn sum(rows: &[f64]) -> f64 {
    rows.iter().map(|value| value.clamp(0.0, 1.0)).sum()
}

/// The sum with the right noise.
fn right_sum(source: &mut Source, rows: &[f64]) -> Sample {
    plain(sum(rows) + source.laplace(1.0))
}

/// Two sums from one grant: what an attacker sees of both, through their difference.
fn two(first: f64, second: f64) -> Sample {
    Sample::new(first - second, first - second, 1.0 / SCALE)
}

const SCALE_OFF: Release = |source, rows| plain(sum(rows) + source.laplace(1.0 / 0.9));
const SCALE_OFF_SLIGHTLY: Release = |source, rows| plain(sum(rows) + source.laplace(1.0 / 0.99));

fn planted() -> Vec<Planted> {
    let pure = Claim::Pure(1.0);
    let mut list = vec![
        Planted {
            name: "naive Laplace in floats",
            claim: pure,
            without: &[0.0],
            with: &[0.0, 1.0],
            right: right_sum,
            wrong: |source, rows| plain(sum(rows) + textbook_laplace(source)),
            samples: 20_000,
        },
        Planted {
            name: "naive Gaussian in floats",
            claim: Claim::Gaussian(2.0),
            without: &[0.0],
            with: &[0.0, 1.0],
            right: |source, rows| plain(sum(rows) + source.gaussian()),
            wrong: |source, rows| plain(sum(rows) + 0.5 * textbook_gaussian(source)),
            samples: 20_000,
        },
        Planted {
            name: "scale times 0.9",
            claim: pure,
            without: &[],
            with: &[1.0],
            right: right_sum,
            wrong: SCALE_OFF,
            samples: 400_000,
        },
        Planted {
            name: "sensitivity off by two",
            claim: pure,
            without: &[],
            with: &[1.0],
            right: right_sum,
            // A range of −1 to 1 with the noise of a range of one, and a neighbour that is replaced.
            wrong: |source, rows| {
                let value = rows.first().map_or(-1.0, |value| value.clamp(-1.0, 1.0));
                plain(value + source.laplace(1.0))
            },
            samples: 20_000,
        },
    ];
    list.extend(planted_reuse());
    list.extend(planted_sizes());
    if size(0, 1) == 1 {
        list.push(Planted {
            name: "scale times 0.99",
            claim: pure,
            without: &[],
            with: &[1.0],
            right: right_sum,
            wrong: SCALE_OFF_SLIGHTLY,
            samples: 20_000_000,
        });
    }
    list
}

/// Those in which two releases share their noise.
fn planted_reuse() -> Vec<Planted> {
    vec![
        Planted {
            name: "noise reused across releases",
            claim: Claim::Pure(2.0),
            without: &[0.5],
            with: &[0.5, 1.0],
            right: |source, rows| two(sum(rows) + source.laplace(1.0), rows.len() as f64 + source.laplace(1.0)),
            wrong: |source, rows| {
                let noise = source.laplace(1.0);
                // The noise cancels and the sum stands in the open.
                two(sum(rows) + noise, 2.0 * sum(rows) + noise)
            },
            samples: 20_000,
        },
        Planted {
            name: "generator seeded from the time",
            claim: Claim::Pure(2.0),
            without: &[],
            with: &[1.0],
            right: |source, rows| two(sum(rows) + source.laplace(1.0), source.laplace(1.0)),
            wrong: |source, rows| {
                source.second += 1;
                let job = |value: f64| {
                    let distribution = DiscreteLaplace::new(1_048_576, 1).expect("a distribution");
                    let mut noise = SeededNoise::new(source.second);
                    value + one(|out| distribution.fill(&mut noise, out)) as f64 / SCALE
                };
                two(job(sum(rows)), job(0.0))
            },
            samples: 20_000,
        },
        Planted {
            name: "generator cloned in a fork",
            claim: Claim::Pure(2.0),
            without: &[],
            with: &[1.0],
            right: |source, rows| two(sum(rows) + source.laplace(1.0), source.laplace(1.0)),
            wrong: |source, rows| {
                let state = source.dice.word();
                let mut children = [state, state].map(SeededNoise::new);
                let distribution = DiscreteLaplace::new(1_048_576, 1).expect("a distribution");
                let mut draw = |child: usize| one(|out| distribution.fill(&mut children[child], out)) as f64 / SCALE;
                two(sum(rows) + draw(0), draw(1))
            },
            samples: 20_000,
        },
    ]
}

/// Those that let the number of rows out.
fn planted_sizes() -> Vec<Planted> {
    vec![
        Planted {
            name: "histogram omitting empty keys",
            claim: Claim::Pure(1.0),
            without: &[],
            with: &[1.0],
            right: |source, rows| plain(rows.len() as f64 + source.laplace(1.0)),
            wrong: |source, rows| {
                if rows.is_empty() { plain(f64::NAN) } else { plain(rows.len() as f64 + source.laplace(1.0)) }
            },
            samples: 20_000,
        },
        Planted {
            name: "normaliser from the true count",
            claim: Claim::Pure(1.0),
            without: &[0.0, 0.0],
            with: &[0.0, 0.0, 0.0],
            right: |source, rows| plain((sum(rows) + source.laplace(1.0)) / 2.0),
            wrong: |source, rows| plain((sum(rows) + source.laplace(1.0)) / rows.len() as f64),
            samples: 20_000,
        },
        Planted {
            name: "empty batch skipped without noise",
            claim: Claim::Sampled { rate: 0.5, mu: 2.0 },
            without: &[],
            with: &[1.0],
            right: |source, rows| {
                let taken: f64 = rows.iter().filter(|_| source.dice.below(2) == 0).sum();
                let released = taken + source.gaussian();
                Sample::new(released, released, 1.0 / SCALE)
            },
            wrong: |source, rows| {
                let taken: Vec<f64> = rows.iter().copied().filter(|_| source.dice.below(2) == 0).collect();
                let noise = if taken.is_empty() { 0.0 } else { source.gaussian() };
                let released = taken.iter().sum::<f64>() + noise;
                Sample::new(released, released, 1.0 / SCALE)
            },
            samples: 20_000,
        },
        Planted {
            name: "fixed-size batches accounted as Poisson",
            claim: Claim::Sampled { rate: 0.5, mu: 2.0 },
            without: &[-1.0, -1.0],
            with: &[-1.0, -1.0, 1.0],
            right: |source, rows| {
                let taken: f64 = rows.iter().filter(|_| source.dice.below(2) == 0).sum();
                let released = taken + source.gaussian();
                Sample::new(released, released, 1.0 / SCALE)
            },
            // One row of two: the newcomer drives another out, so the sum moves by two.
            wrong: |source, rows| {
                let released = rows[source.dice.below(rows.len())] + source.gaussian();
                Sample::new(released, released, 1.0 / SCALE)
            },
            samples: 20_000,
        },
    ]
}

#[test]
fn planted_bugs_are_distinguished() {
    let seed = run_seed("planted");
    let mut missed = Vec::new();
    for (index, bug) in planted().iter().enumerate() {
        let collect = |release: Release, rows: &[f64], side: u64| {
            let seed = mix(&[seed, index as u64, side]);
            let mut source = Source { noise: SeededNoise::new(seed), dice: Dice::new(seed), second: seed };
            (0..bug.samples).map(|_| release(&mut source, rows)).collect::<Vec<Sample>>()
        };
        let margin = |release: Release, side: u64| {
            let (without, with) = (collect(release, bug.without, side), collect(release, bug.with, side + 1));
            judge(bug.claim, &without, &with)
        };
        let (right, wrong) = (margin(bug.right, 0), margin(bug.wrong, 2));
        println!("{}: right {right:.4}, wrong {wrong:.4}", bug.name);
        if right > 0.0 || wrong <= 0.0 {
            missed.push(bug.name);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// A sum before noise, over rows of numbers.
type Exact = fn(&[Vec<f64>]) -> Vec<f64>;

fn length(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn shorten(values: &[f64]) -> Vec<f64> {
    let factor = (1.0 / length(values)).min(1.0);
    values.iter().map(|value| value * factor).collect()
}

fn add(total: &mut [f64], part: &[f64]) {
    total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
}

fn per_row(rows: &[Vec<f64>]) -> Vec<f64> {
    let mut total = vec![0.0; 4];
    rows.iter().for_each(|row| add(&mut total, &shorten(row)));
    total
}

/// Bugs of sensitivity: the noise is right, so replaying it shows what one row did.
#[test]
fn planted_bugs_are_replayed() {
    let bugs: [(&str, Exact); 5] = [
        ("clip after sum", |rows| {
            let mut total = vec![0.0; 4];
            rows.iter().for_each(|row| add(&mut total, row));
            // To the length that all rows together may have.
            let factor = (rows.len() as f64 / length(&total).max(1e-300)).min(1.0);
            total.iter().map(|value| value * factor).collect()
        }),
        ("clip by layer, accounted globally", |rows| {
            let mut total = vec![0.0; 4];
            for row in rows {
                add(&mut total[..2], &shorten(&row[..2]));
                add(&mut total[2..], &shorten(&row[2..]));
            }
            total
        }),
        ("gradient accumulated without reset", |rows| {
            let mut total = vec![0.0; 4];
            let mut kept = vec![0.0; 4];
            for row in rows {
                add(&mut kept, &shorten(row));
                let kept = kept.clone();
                add(&mut total, &kept);
            }
            total
        }),
        ("batch statistics subtracted from each row", |rows| {
            let mut mean = vec![0.0; 4];
            rows.iter().for_each(|row| add(&mut mean, row));
            mean.iter_mut().for_each(|mean| *mean /= rows.len().max(1) as f64);
            let mut total = vec![0.0; 4];
            for row in rows {
                let centred: Vec<f64> = row.iter().zip(&mean).map(|(value, mean)| value - mean).collect();
                add(&mut total, &shorten(&centred));
            }
            total
        }),
        ("order of floats", |rows| {
            // A plain sum that loses small rows beside a large one, and then takes the large one out.
            let mut total = vec![0.0; 4];
            rows.iter().for_each(|row| add(&mut total, row));
            rows.iter().filter(|row| length(row) > 1e10).for_each(|row| {
                total.iter_mut().zip(row).for_each(|(total, value)| *total -= value);
            });
            total
        }),
    ];
    let seed = run_seed("planted replay");
    let mut dice = Dice::new(seed);
    let mut worst = [0.0f64; 6];
    for _ in 0..2_000 {
        let mut rows: Vec<Vec<f64>> =
            (0..dice.below(9)).map(|_| (0..4).map(|_| dice.unit() * 2.0 - 1.0).collect()).collect();
        let before: Vec<Vec<f64>> = bugs.iter().map(|(_, exact)| exact(&rows)).chain([per_row(&rows)]).collect();
        let large = if dice.below(2) == 0 { 1e17 } else { 3.0 };
        rows.push((0..4).map(|_| (dice.unit() * 2.0 - 1.0) * large).collect());
        let after = bugs.iter().map(|(_, exact)| exact(&rows)).chain([per_row(&rows)]);
        for ((before, after), worst) in before.iter().zip(after).zip(&mut worst) {
            let moved: Vec<f64> = before.iter().zip(&after).map(|(one, other)| one - other).collect();
            *worst = worst.max(length(&moved));
        }
    }
    for ((name, _), worst) in bugs.iter().zip(worst) {
        assert!(worst > 1.05, "{name} was missed: {worst}");
    }
    assert!(worst[5] <= 1.0 + 1e-12, "the right sum: {}", worst[5]);
}
