//! Every mechanism against a distinguishing test: what neighbouring rows release is never further apart
//! than claimed, and noise that is a fifth too small is caught by the same test.

use crate::support::distinguish::{Claim, Sample, judge};
use crate::support::{
    EXTREMES, Grid, Seeded, Yard, concentrated, epsilon_of, gaussian, laplace, mix, rate_of, run_seed, sampled,
    sigma_of, size, unit_of,
};
use sage_kernel::{
    Lane, LayerShape, Mechanism, MomentBounds, OneHotBounds, Pair, Range, Rate, Rounding, Step, TableNoise, Triple,
};

/// Runs one mechanism as often as a session allows, and projects each release.
type Run = Box<dyn Fn(&mut Seeded, u32, &mut dyn FnMut(Sample))>;

/// A mechanism with its parameter, and the pair on which its claim is tight.
struct Case {
    name: String,
    claim: Claim,
    /// What a session is charged for so many releases.
    part: fn(&Case, u32) -> Mechanism,
    /// Releases that fit one session.
    count: u32,
    parameter: String,
    run: Run,
    tight: (Vec<Vec<f64>>, Vec<Vec<f64>>),
    /// How many samples a side, in CI.
    samples: usize,
}

const UNIT: f64 = 1.0 / 1_048_576.0;
const UNIT_RANGE: (f64, f64) = (0.0, 1.0);

fn laplace_part(case: &Case, count: u32) -> Mechanism {
    laplace(epsilon_of(&case.parameter), count)
}

fn gaussian_part(case: &Case, count: u32) -> Mechanism {
    gaussian(sigma_of(&case.parameter), 8, count)
}

fn concentrated_part(case: &Case, count: u32) -> Mechanism {
    concentrated(sigma_of(&case.parameter), u64::from(count))
}

fn sampled_part(case: &Case, count: u32) -> Mechanism {
    sampled(rate_of("0.5"), sigma_of(&case.parameter), 16, count)
}

fn whole_part(case: &Case, count: u32) -> Mechanism {
    sampled(Rate::LIMIT, sigma_of(&case.parameter), 16, count)
}

fn collect(case: &Case, yard: &mut Yard, rows: &[Vec<f64>], seed: u64, wanted: usize) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(wanted);
    for number in 0.. {
        let count = case.count.min((wanted - samples.len()) as u32);
        if count == 0 {
            break;
        }
        let mut session = yard.train(vec![(case.part)(case, count)], rows, mix(&[seed, number]));
        (case.run)(&mut session, count, &mut |sample| samples.push(sample));
    }
    samples
}

/// How many Gaussian releases of this multiplier fit a session's charge.
fn fitting(sigma: f64) -> u32 {
    (40.0 * sigma * sigma) as u32
}

/// The loss of Laplace noise in favour of a shift, where it is `1 / epsilon` wide.
fn laplace_score(numbers: &[(f64, f64)]) -> f64 {
    numbers.iter().map(|&(number, shift)| number.abs() - (number - shift).abs()).sum()
}

fn laplace_table_cases(cases: &mut Vec<Case>) {
    let range = Range::new(UNIT_RANGE.0, UNIT_RANGE.1).expect("a range");
    for epsilon in ["0.5", "1", "3"] {
        let noise = TableNoise::Laplace(epsilon_of(epsilon));
        // At the middle of the range both numbers move, at its end one; the whole is the same.
        for middle in [0.5, 1.0] {
            cases.push(Case {
                name: format!("pairs, Laplace {epsilon}, value {middle}"),
                claim: Claim::Pure(epsilon.parse().expect("a number")),
                part: laplace_part,
                count: 20_000,
                parameter: epsilon.to_owned(),
                run: Box::new(move |session, count, out| {
                    for _ in 0..count {
                        let pairs =
                            session.pairs(Lane::Train, 1, range, Rounding::Nearest, noise, |row| Some((0, row[0])));
                        let Pair { above, below } = pairs.expect("covered")[0];
                        let score = laplace_score(&[(above, middle), (below, 1.0 - middle)]);
                        out(Sample::new(score, above, UNIT));
                    }
                }),
                tight: (Vec::new(), vec![vec![middle; 8]]),
                samples: 200_000,
            });
        }
        cases.push(Case {
            name: format!("histogram, Laplace {epsilon}"),
            claim: Claim::Pure(epsilon.parse().expect("a number")),
            part: laplace_part,
            count: 20_000,
            parameter: epsilon.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let counts = session.histogram(Lane::Train, 2, noise, |row| Some(row[0] as u32));
                    let counts = counts.expect("covered");
                    out(Sample::new(laplace_score(&[(counts[1], 1.0)]), counts[1], UNIT));
                }
            }),
            tight: (Vec::new(), vec![vec![1.0; 8]]),
            samples: 100_000,
        });
    }
}

fn gaussian_table_cases(cases: &mut Vec<Case>) {
    let range = Range::new(UNIT_RANGE.0, UNIT_RANGE.1).expect("a range");
    for sigma in ["0.5", "1", "1.4"] {
        let noise = TableNoise::Gaussian(sigma_of(sigma));
        let width: f64 = sigma.parse().expect("a number");
        cases.push(Case {
            name: format!("pairs, Gaussian {sigma}"),
            claim: Claim::Gaussian(1.0 / width),
            part: concentrated_part,
            count: fitting(width),
            parameter: sigma.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let pairs = session.pairs(Lane::Train, 1, range, Rounding::Up, noise, |row| Some((0, row[0])));
                    let pair = pairs.expect("covered")[0];
                    out(Sample::new(pair.above, pair.above, UNIT));
                }
            }),
            tight: (Vec::new(), vec![vec![1.0; 8]]),
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
        cases.push(Case {
            name: format!("histogram, Gaussian {sigma}"),
            claim: Claim::Gaussian(1.0 / width),
            part: concentrated_part,
            count: fitting(width),
            parameter: sigma.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let counts = session.histogram(Lane::Train, 2, noise, |row| Some(row[0] as u32));
                    let counts = counts.expect("covered");
                    out(Sample::new(counts[1], counts[1], UNIT));
                }
            }),
            tight: (Vec::new(), vec![vec![1.0; 8]]),
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
    }
}

fn triple_cases(cases: &mut Vec<Case>) {
    let range = Range::new(UNIT_RANGE.0, UNIT_RANGE.1).expect("a range");
    for epsilon in ["0.5", "1", "3"] {
        let noise = TableNoise::Laplace(epsilon_of(epsilon));
        // In the middle all three numbers move, at the end one; the whole is the same.
        for middle in [0.5, 1.0] {
            cases.push(Case {
                name: format!("triples, Laplace {epsilon}, value {middle}"),
                claim: Claim::Pure(epsilon.parse().expect("a number")),
                part: laplace_part,
                count: 20_000,
                parameter: epsilon.to_owned(),
                run: Box::new(move |session, count, out| {
                    for _ in 0..count {
                        let triples =
                            session.triples(Lane::Train, 1, range, Rounding::Nearest, noise, |row| Some((0, row[0])));
                        let Triple { squares, rest, below } = triples.expect("covered")[0];
                        let square = middle * middle;
                        let shifts = [(squares, square), (rest, middle - square), (below, 1.0 - middle)];
                        out(Sample::new(laplace_score(&shifts), squares, UNIT));
                    }
                }),
                tight: (Vec::new(), vec![vec![middle; 8]]),
                samples: 200_000,
            });
        }
    }
    for sigma in ["0.5", "1", "1.4"] {
        let noise = TableNoise::Gaussian(sigma_of(sigma));
        let width: f64 = sigma.parse().expect("a number");
        cases.push(Case {
            name: format!("triples, Gaussian {sigma}"),
            claim: Claim::Gaussian(1.0 / width),
            part: concentrated_part,
            count: fitting(width),
            parameter: sigma.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let triples = session.triples(Lane::Train, 1, range, Rounding::Up, noise, |row| Some((0, row[0])));
                    let triple = triples.expect("covered")[0];
                    out(Sample::new(triple.squares, triple.squares, UNIT));
                }
            }),
            tight: (Vec::new(), vec![vec![1.0; 8]]),
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
    }
}

fn answer_cases(cases: &mut Vec<Case>) {
    // The row's label is the first of its key, so it changes the number of correct predictions. Among as many rows with
    // the other label it would change the number of wrong ones.
    let answered = |session: &mut Seeded, noise: TableNoise| {
        let outcomes = session.majority_counts(Lane::Train, 2, 2, noise, |row| Some((0, u32::from(row[0] > 0.5))));
        outcomes.expect("covered")
    };
    let crowd = vec![vec![0.0; 8]; 2];
    let outvoted: Vec<Vec<f64>> = crowd.iter().cloned().chain([vec![1.0; 8]]).collect();
    for epsilon in ["0.5", "1", "3"] {
        let noise = TableNoise::Laplace(epsilon_of(epsilon));
        let settings =
            [("right", 0, (Vec::new(), vec![vec![1.0; 8]])), ("wrong", 1, (crowd.clone(), outvoted.clone()))];
        for (name, index, tight) in settings {
            cases.push(Case {
                name: format!("majority counts, {name}, Laplace {epsilon}"),
                claim: Claim::Pure(epsilon.parse().expect("a number")),
                part: laplace_part,
                count: 20_000,
                parameter: epsilon.to_owned(),
                run: Box::new(move |session, count, out| {
                    for _ in 0..count {
                        let released = answered(session, noise)[index];
                        out(Sample::new(laplace_score(&[(released, 1.0)]), released, UNIT));
                    }
                }),
                tight,
                samples: 100_000,
            });
        }
    }
    for sigma in ["0.5", "1", "1.4"] {
        let noise = TableNoise::Gaussian(sigma_of(sigma));
        let width: f64 = sigma.parse().expect("a number");
        cases.push(Case {
            name: format!("majority counts, Gaussian {sigma}"),
            claim: Claim::Gaussian(1.0 / width),
            part: concentrated_part,
            count: fitting(width),
            parameter: sigma.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let released = answered(session, noise)[0];
                    out(Sample::new(released, released, UNIT));
                }
            }),
            tight: (Vec::new(), vec![vec![1.0; 8]]),
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
    }
}

/// One active column of two, and the constant feature.
const ONE_HOT: OneHotBounds = OneHotBounds { active: 1, columns: 2, label_size: 1.0 };
/// Rows that name nothing. Where each names a column, the features of any rows depend on each other, and the
/// smallest eigenvalue is zero for all of them.
const NO_COLUMNS: OneHotBounds = OneHotBounds { active: 0, columns: 0, label_size: 1.0 };

/// The moments of rows whose first number is the active column and whose third is the label.
fn one_hot_moments_of(session: &Seeded, bounds: OneHotBounds) -> sage_kernel::Moments {
    let moments = session.one_hot_moments(Lane::Train, bounds, |row, indices| {
        indices.fill(row[0] as u32);
        row[2]
    });
    moments.expect("granted")
}

fn one_hot_cases(cases: &mut Vec<Case>) {
    for sigma in ["0.5", "1", "1.4"] {
        let multiplier = sigma_of(sigma);
        let width: f64 = sigma.parse().expect("a number");
        // The grid unit of a one, for this number of active columns.
        let feature = |named: u64| 1.0 / ((1u64 << 40) / (named + 1)).isqrt() as f64;
        let mut push = |name: &str, run: Run| {
            cases.push(Case {
                name: format!("{name} of one-hot rows {sigma}"),
                claim: Claim::Gaussian(1.0 / width),
                part: gaussian_part,
                count: fitting(width),
                parameter: sigma.to_owned(),
                run,
                tight: (Vec::new(), vec![vec![1.0; 8]]),
                samples: if width < 0.6 { 24_000 } else { 60_000 },
            });
        };
        let unit = Grid::new(1 << 56, multiplier, 6).step * feature(1).powi(2) / 65_536.0;
        let run: Run = Box::new(move |session, count, out| {
            let moments = one_hot_moments_of(session, ONE_HOT);
            for _ in 0..count {
                let matrix = session.noisy_matrix(&moments, multiplier).expect("covered");
                // The row has a one at the second column and the constant.
                out(Sample::new(matrix[4] + matrix[8] + 2.0 * matrix[5], matrix[4], unit));
            }
        });
        push("noisy matrix", run);
        let unit = Grid::new(1 << 40, multiplier, 3).step * feature(1) * unit_of(1.0, 1 << 20, 1);
        let run: Run = Box::new(move |session, count, out| {
            let moments = one_hot_moments_of(session, ONE_HOT);
            for _ in 0..count {
                let cross = session.noisy_cross(&moments, multiplier).expect("covered");
                out(Sample::new(cross[1] + cross[2], cross[1], unit));
            }
        });
        push("noisy cross", run);
        let unit = Grid::new((1 << 40) + (1 << 21) + 1, multiplier, 1).step * feature(0).powi(2);
        let run: Run = Box::new(move |session, count, out| {
            let moments = one_hot_moments_of(session, NO_COLUMNS);
            for _ in 0..count {
                let value = session.noisy_smallest_eigenvalue(&moments, multiplier).expect("covered");
                out(Sample::new(value, value, unit));
            }
        });
        push("smallest eigenvalue", run);
    }
}

fn vector_cases(cases: &mut Vec<Case>) {
    for sigma in ["0.5", "1", "1.4"] {
        let multiplier = sigma_of(sigma);
        let width: f64 = sigma.parse().expect("a number");
        let claim = Claim::Gaussian(1.0 / width);
        let unit = Grid::new(1 << 30, multiplier, 2).step * unit_of(2.0, 1 << 30, 2);
        cases.push(Case {
            name: format!("vector sum {sigma}"),
            claim,
            part: gaussian_part,
            count: fitting(width),
            parameter: sigma.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let sum = session.vector_sum(Lane::Train, 2, 2.0, multiplier, |row, out| {
                        out.copy_from_slice(&row[..2]);
                    });
                    let sum = sum.expect("covered");
                    // The row goes along the diagonal.
                    out(Sample::new(sum[0] + sum[1], sum[0], unit));
                }
            }),
            tight: (Vec::new(), vec![vec![7.0; 8]]),
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
        moment_cases(cases, sigma, claim);
    }
}

const BOUNDS: MomentBounds = MomentBounds { width: 2, feature_norm: 1.0, label_size: 1.0 };

/// The moments of a row's first two numbers as features and its third as label.
fn moments_of(session: &Seeded) -> sage_kernel::Moments {
    let moments = session.moments(Lane::Train, BOUNDS, |row, out| {
        out.copy_from_slice(&row[..2]);
        row[2]
    });
    moments.expect("granted")
}

fn moment_cases(cases: &mut Vec<Case>, sigma: &str, claim: Claim) {
    let multiplier = sigma_of(sigma);
    let width: f64 = sigma.parse().expect("a number");
    let feature = unit_of(1.0, 1 << 20, 2);
    let label = unit_of(1.0, 1 << 20, 1);
    let mut push = |name: &str, run: Run, tight| {
        cases.push(Case {
            name: format!("{name} {sigma}"),
            claim,
            part: gaussian_part,
            count: fitting(width),
            parameter: sigma.to_owned(),
            run,
            tight,
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
    };
    let unit = Grid::new(1 << 56, multiplier, 3).step * feature * feature / 65_536.0;
    let run: Run = Box::new(move |session, count, out| {
        let moments = moments_of(session);
        for _ in 0..count {
            let matrix = session.noisy_matrix(&moments, multiplier).expect("covered");
            // (x, x) / √2: half on the diagonal, half beside it, which has less noise.
            out(Sample::new(matrix[0] + matrix[3] + 2.0 * matrix[1], matrix[0], unit));
        }
    });
    push("noisy matrix", run, (Vec::new(), vec![vec![7.0; 8]]));
    let unit = Grid::new(1 << 40, multiplier, 2).step * feature * label;
    let run: Run = Box::new(move |session, count, out| {
        let moments = moments_of(session);
        for _ in 0..count {
            let cross = session.noisy_cross(&moments, multiplier).expect("covered");
            out(Sample::new(cross[0] + cross[1], cross[0], unit));
        }
    });
    push("noisy cross", run, (Vec::new(), vec![vec![7.0; 8]]));
    let unit = Grid::new((1 << 40) + (1 << 21) + 1, multiplier, 1).step * feature * feature;
    let run: Run = Box::new(move |session, count, out| {
        let moments = moments_of(session);
        for _ in 0..count {
            let value = session.noisy_smallest_eigenvalue(&moments, multiplier).expect("covered");
            out(Sample::new(value, value, unit));
        }
    });
    // The second row is the only one in its direction.
    let axis = |x: f64, y: f64| vec![x, y, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let tight = (vec![axis(1.0, 0.0)], vec![axis(1.0, 0.0), axis(0.0, 1.0)]);
    push("smallest eigenvalue", run, tight);
}

fn loss_cases(cases: &mut Vec<Case>) {
    type Summed = fn(&Seeded) -> sage_kernel::Moments;
    let one_hot: Summed = |session| one_hot_moments_of(session, ONE_HOT);
    for (kind, moments_of) in [("dense", moments_of as Summed), ("one-hot", one_hot)] {
        for epsilon in ["0.5", "1", "3"] {
            let requested = epsilon_of(epsilon);
            cases.push(Case {
                name: format!("least squared loss of {kind} {epsilon}"),
                claim: Claim::Pure(epsilon.parse().expect("a number")),
                part: laplace_part,
                count: 20_000,
                parameter: epsilon.to_owned(),
                run: Box::new(move |session, count, out| {
                    let moments = moments_of(session);
                    for _ in 0..count {
                        let best = session.least_squared_loss(&moments, 1.0, requested).expect("covered");
                        // The best model of one row has no loss, so the row shows in the rest.
                        out(Sample::new(laplace_score(&[(best.rest, 1.0)]), best.rest, UNIT));
                    }
                }),
                tight: (Vec::new(), vec![vec![0.5; 8]]),
                samples: 60_000,
            });
        }
    }
}

fn gradient_cases(cases: &mut Vec<Case>) {
    for (sigma, one_hot, rate) in [
        ("0.5", false, "0.5"),
        ("0.5", true, "0.5"),
        ("0.8", false, "0.5"),
        ("1", false, "1"),
        ("1", true, "1"),
        ("0.5", true, "1"),
    ] {
        let width: f64 = sigma.parse().expect("a number");
        let layers = [if one_hot { LayerShape::one_hot(2, 3, 2) } else { LayerShape::dense(3, 2) }];
        let step = Step { rate: rate_of(rate), sigma: sigma_of(sigma), clip: 1.0 };
        let unit = Grid::new(1 << 26, step.sigma, 8).step / (1u64 << 26) as f64;
        let sampled = rate != "1";
        cases.push(Case {
            name: format!("sampled sum {sigma}, rate {rate}, one-hot {one_hot}"),
            claim: if sampled { Claim::Sampled { rate: 0.5, mu: 1.0 / width } } else { Claim::Gaussian(1.0 / width) },
            part: if sampled { sampled_part } else { whole_part },
            count: fitting(width),
            parameter: sigma.to_owned(),
            run: Box::new(move |session, count, out| {
                for _ in 0..count {
                    let sums = session.sampled_sum(Lane::Train, step, &layers, |sample, layers| {
                        layers[0].clear();
                        for index in 0..sample.count() {
                            let row = sample.row(index);
                            if one_hot {
                                layers[0].indices.extend([0, 2]);
                            } else {
                                layers[0].values.extend(row[..3].iter().map(|&value| value as f32));
                            }
                            layers[0].errors.extend([row[3] as f32, row[4] as f32]);
                        }
                    });
                    let sums = sums.expect("covered").concat();
                    // The gradient of a row of equal numbers: every weight it has, and the biases.
                    let weights: &[usize] = if one_hot { &[0, 1, 4, 5] } else { &[0, 1, 2, 3, 4, 5] };
                    let input = if one_hot { 1.0 } else { 50.0 };
                    let along: f64 = weights.iter().map(|&index| f64::from(sums[index])).sum();
                    let biases = f64::from(sums[6]) + f64::from(sums[7]);
                    out(Sample::new(along * input + biases, f64::from(sums[0]), unit * 256.0));
                }
            }),
            tight: (Vec::new(), vec![vec![50.0; 8]]),
            samples: if width < 0.6 { 24_000 } else { 60_000 },
        });
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    laplace_table_cases(&mut cases);
    gaussian_table_cases(&mut cases);
    triple_cases(&mut cases);
    answer_cases(&mut cases);
    one_hot_cases(&mut cases);
    vector_cases(&mut cases);
    loss_cases(&mut cases);
    gradient_cases(&mut cases);
    cases
}

/// The right noise is accepted on the tightest pair, and noise a fifth too small is rejected there.
#[test]
fn claims_hold_and_stricter_claims_are_refuted() {
    let seed = run_seed("claims");
    let mut yard = Yard::new();
    let mut wrong = Vec::new();
    for (index, case) in cases().iter().enumerate() {
        let samples = size(case.samples, 10_000_000);
        let [one, other] = [0, 1].map(|side| mix(&[seed, index as u64, side]));
        let without = collect(case, &mut yard, &case.tight.0, one, samples);
        let with = collect(case, &mut yard, &case.tight.1, other, samples);
        let (right, strict) = (judge(case.claim, &without, &with), judge(case.claim.stricter(1.25), &without, &with));
        println!("{}: margin {right:.4}, with a stricter claim {strict:.4}", case.name);
        if right > 0.0 || strict <= 0.0 {
            wrong.push(format!("{}: {right} {strict}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The claim also holds between neighbours chosen to break it.
#[test]
fn claims_hold_on_adversarial_neighbours() {
    let seed = run_seed("adversarial");
    let mut yard = Yard::new();
    let row = |value: f64| vec![value; 8];
    let crowd: Vec<Vec<f64>> = [f64::MAX, f64::MIN, f64::NAN, 1e-300, 1.0, -1.0].map(row).to_vec();
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324, -0.0, 1.0, -1.0];
    assert!(values.iter().all(|value| EXTREMES.iter().any(|known| known.to_bits() == value.to_bits())));
    for (index, case) in cases().iter().enumerate() {
        // Alone, and among extreme others.
        let mut pairs: Vec<_> = values.map(|value| (Vec::new(), vec![row(value)])).to_vec();
        pairs.extend(
            [1.0, f64::MAX, 1e-300].map(|value| (crowd.clone(), crowd.iter().cloned().chain([row(value)]).collect())),
        );
        for (number, (without, with)) in pairs.iter().enumerate() {
            let samples = size(3_000, 1_000_000);
            let [one, other] = [2, 3].map(|side| mix(&[seed, index as u64, number as u64, side]));
            let without = collect(case, &mut yard, without, one, samples);
            let with = collect(case, &mut yard, with, other, samples);
            let margin = judge(case.claim, &without, &with);
            assert!(margin <= 0.0, "{}, pair {number}: {margin}", case.name);
        }
    }
}
