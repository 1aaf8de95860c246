//! AdaSSP: calibrated as stated, close to ridge regression with enough rows, and never a model with NaN.

#![allow(clippy::unwrap_used, reason = "a test that cannot get its number has failed")]

#[path = "../support/mod.rs"]
mod support;
mod units;

use sage_kernel::{BlockId, BlockPart, Lane, Rows, SessionError, Sigma, SummaryTag};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::{
    AdaSsp, Cholesky, LinearError, LinearModel, Ridge, ridge_target, sigma_for, solve_bounded, solve_ridge,
};
use std::sync::Arc;
use support::{Dice, noise, permit, session};

/// Epsilon, delta, the noise multiplier of each of three releases, computed in high precision.
const SIGMAS: &[(f64, f64, f64)] = &[(1.0, 1e-6, 7.317358481977732), (0.05, 1e-6, 119.98126749301397)];

#[test]
fn noise_is_calibrated_for_the_three_together() {
    for &(epsilon, delta, exact) in SIGMAS {
        let found = sigma_for(epsilon, delta, 3).unwrap().units() as f64 / 1e9;
        assert!(found >= exact * (1.0 - 1e-12) && found <= exact * (1.0 + 1e-8), "{found} {exact}");
        let two = sigma_for(epsilon, delta, 2).unwrap().units() as f64 / 1e9;
        assert!((two / found - (2.0f64 / 3.0).sqrt()).abs() < 1e-7);
    }
    // 61 features, failure probability 0.1, at two noise multipliers.
    for (sigma, exact) in [(11.851811264306017, 310.0254141815583), (237.03622528612033, 6200.508283631165)] {
        assert!((ridge_target(sigma, 61.0) / exact - 1.0).abs() < 1e-12);
    }
    for (epsilon, delta) in [(0.0, 0.0), (1.0, 0.0), (f64::NAN, 1e-6), (-1.0, 1e-6), (1.0, 1.0), (0.0, 1e-300)] {
        assert!(sigma_for(epsilon, delta, 3).is_err(), "{epsilon} {delta}");
    }
}

const ONE_HOT: Layout = Layout { numbers: 0, active: 3, columns: 12 };
const MIXED: Layout = Layout { numbers: 2, active: 2, columns: 8 };

/// Rows whose label is linear in their inputs, with a little noise; labels from −3 to 5.
fn rows(layout: Layout, count: usize, seed: u64) -> Encoded {
    let mut dice = Dice(seed);
    let (mut numbers, mut indices, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let mut label = 1.0 + 0.4 * (dice.unit() - 0.5);
        for number in 0..layout.numbers {
            let value = 2.0 * dice.unit() - 1.0;
            label += value * [1.5, -0.5][number as usize % 2];
            numbers.push(value as f32);
        }
        for field in 0..layout.active {
            let value = dice.below(4);
            label += f64::from(value) * [0.3, -0.4, 0.1][field as usize % 3];
            indices.push(field * 4 + value);
        }
        labels.push(label as f32);
    }
    Encoded::from_parts(layout, numbers, indices, labels).unwrap()
}

const LABEL: (f64, f64) = (-3.0, 5.0);

fn plan(layout: Layout, sigma: &str, ridge: Ridge) -> AdaSsp {
    AdaSsp::new(layout, LABEL, Sigma::cost(sigma).unwrap(), ridge).unwrap()
}

/// The root of the mean squared error.
fn error(model: &LinearModel, rows: &Encoded) -> f64 {
    let square = |row: sage_learn::encode::UnitExamples<'_>| (model.predict(&row) - f64::from(row.label)).powi(2);
    let sum: f64 = (0..rows.count()).map(|index| square(rows.row(index))).sum();
    (sum / rows.count() as f64).sqrt()
}

fn train(plan: &AdaSsp, train: Encoded) -> Result<LinearModel, LinearError> {
    let nothing = Encoded::new(train.layout());
    plan.train(&mut session(plan.mechanisms(), train, nothing), Lane::Train)
}

fn finite(model: &LinearModel) -> bool {
    model.weights.iter().chain([&model.bias, &model.ridge]).all(|number| number.is_finite())
}

/// Ridge regression without noise, in plain floats.
fn ridge(rows: &Encoded) -> LinearModel {
    let layout = rows.layout();
    let width = layout.inputs() as usize + 1;
    let (mut matrix, mut cross) = (vec![0.0; width * width], vec![0.0; width]);
    for index in 0..rows.count() {
        let row = rows.row(index);
        let mut features: Vec<f64> = row.numbers.iter().map(|&number| f64::from(number)).collect();
        features.resize(width, 0.0);
        row.indices.iter().for_each(|&index| features[layout.numbers as usize + index as usize] = 1.0);
        features[width - 1] = 1.0;
        for (one, left) in features.iter().enumerate() {
            cross[one] += left * f64::from(row.label);
            features.iter().enumerate().for_each(|(other, right)| matrix[one * width + other] += left * right);
        }
    }
    let (mut weights, ridge) = solve_ridge(&matrix, &cross, 1.0, 1.0).unwrap();
    let bias = weights.pop().unwrap();
    LinearModel { weights, bias, label: LABEL, ridge }
}

/// At ε = 1 and δ = 10⁻⁶, with enough rows, the noise costs little accuracy.
#[test]
fn models_approach_ridge_regression() {
    for layout in [ONE_HOT, MIXED] {
        for kind in [Ridge::Adaptive, Ridge::Fixed] {
            let sigma = sigma_for(1.0, 1e-6, kind.releases()).unwrap();
            let plan = AdaSsp::new(layout, LABEL, sigma, kind).unwrap();
            let test = rows(layout, 20_000, 99);
            let best = error(&ridge(&rows(layout, 100_000, 1)), &test);
            let model = train(&plan, rows(layout, 100_000, 1)).unwrap();
            assert!(model.fits(layout));
            let found = error(&model, &test);
            assert!(found < best * 1.1, "{layout:?} {kind:?}: {found}, without noise {best}");
            // The labels' own deviation is several times as large.
            assert!(best < 0.15, "{best}");
        }
    }
}

#[test]
fn hard_cases_give_finite_models() {
    for layout in [ONE_HOT, MIXED] {
        for kind in [Ridge::Adaptive, Ridge::Fixed] {
            for sigma in ["1", "120"] {
                let plan = plan(layout, sigma, kind);
                let width = layout.numbers as usize;
                let named: Vec<u32> = (0..layout.active).map(|field| field * 4).collect();
                let identical_rows = |count: usize, label: f32| {
                    let indices = named.repeat(count);
                    Encoded::from_parts(layout, vec![0.5; count * width], indices, vec![label; count]).unwrap()
                };
                // No rows, fewer rows than features, a single label, NaN and infinite values, invalid indices.
                let cases = [
                    identical_rows(0, 0.0),
                    rows(layout, 3, 5),
                    identical_rows(5_000, 2.0),
                    identical_rows(100, f32::NAN),
                    identical_rows(100, f32::INFINITY),
                    Encoded::from_parts(layout, vec![f32::NAN; 9 * width], named.repeat(9), vec![0.0; 9]).unwrap(),
                    Encoded::from_parts(layout, vec![0.0; 2 * width], vec![77; 2 * named.len()], vec![0.0; 2]).unwrap(),
                ];
                for case in cases {
                    let model = train(&plan, case).unwrap();
                    assert!(finite(&model), "{model:?}");
                    let odd = sage_learn::encode::Example {
                        numbers: &[f32::NAN; 2][..width],
                        indices: &[900],
                        label: 0.0,
                        beside: &[],
                    };
                    assert!((LABEL.0..=LABEL.1).contains(&model.predict(&odd)));
                }
            }
        }
    }
}

#[test]
fn bounds_and_charges_are_checked() {
    let sigma = Sigma::cost("10").unwrap();
    for label in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)] {
        assert_eq!(AdaSsp::new(ONE_HOT, label, sigma, Ridge::Fixed), Err(LinearError::Bounds));
    }
    let adaptive = plan(MIXED, "10", Ridge::Adaptive);
    assert_eq!(adaptive.with_feature_norm(0.0), Err(LinearError::Bounds));
    assert!(adaptive.with_feature_norm(1.5).is_ok());
    let mut uncovered = session(plan(MIXED, "11", Ridge::Adaptive).mechanisms(), rows(MIXED, 9, 1), rows(MIXED, 9, 1));
    assert_eq!(adaptive.train(&mut uncovered, Lane::Train), Err(LinearError::Session(SessionError::NotCovered)));
    // Each fit is charged for itself.
    let mut once = session(adaptive.mechanisms(), rows(MIXED, 9, 1), rows(MIXED, 9, 1));
    assert!(adaptive.train(&mut once, Lane::Train).is_ok());
    assert!(adaptive.train(&mut once, Lane::Train).is_err());
    assert!(adaptive.train(&mut once, Lane::Test).is_ok());
    let wide = Layout { numbers: 0, active: 1, columns: 5_000 };
    let plan = plan(wide, "10", Ridge::Fixed);
    let found = plan.train(&mut session(plan.mechanisms(), Encoded::new(wide), Encoded::new(wide)), Lane::Train);
    assert!(matches!(found, Err(LinearError::Session(SessionError::Parameter(_)))));
}

#[test]
fn models_come_from_summaries_too() {
    let plan = plan(ONE_HOT, "7.4", Ridge::Adaptive);
    let (label, bounds) = (plan.signed_label(), plan.one_hot_bounds().unwrap());
    let opened = permit(plan.mechanisms(), 4).open_with_summaries(noise(), SummaryTag([1; 32]), |permit| {
        let mut kept = Vec::new();
        for block in 0..4 {
            let part = BlockPart { block: BlockId(block), lane: Lane::Train, source: [0; 32] };
            let rows = [rows(ONE_HOT, 25_000, u64::from(block))];
            let summary = permit.summarise_one_hot(part, SummaryTag([1; 32]), bounds, &rows, |row, named| {
                named.copy_from_slice(row.indices);
                label(row.label)
            })?;
            kept.push(Arc::new(summary.unwrap()));
        }
        Ok::<_, SessionError>(([Vec::<Encoded>::new(), Vec::new()], kept))
    });
    let mut session = opened.unwrap();
    let model = plan.train(&mut session, Lane::Train).unwrap();
    assert!(error(&model, &rows(ONE_HOT, 20_000, 99)) < 0.15);
}

/// The weight norm of a learner stays within its bound, whatever the noise.
#[test]
fn weights_stay_within_their_bound() {
    let length = |model: &LinearModel| {
        let half = 0.5 * (LABEL.1 - LABEL.0);
        let bias = (model.bias - (LABEL.0 + half)) / half;
        (model.weights.iter().map(|weight| (weight / half).powi(2)).sum::<f64>() + bias * bias).sqrt()
    };
    for (seed, layout) in [(1, ONE_HOT), (2, MIXED), (3, ONE_HOT), (4, MIXED)] {
        for kind in [Ridge::Adaptive, Ridge::Fixed] {
            let free = plan(layout, "0.5", kind);
            let unbounded = length(&train(&free, rows(layout, 4_000, seed)).unwrap());
            for longest in [0.01, 0.3, 1e6] {
                let bounded = free.with_weight_norm(longest).unwrap();
                let found = length(&train(&bounded, rows(layout, 4_000, seed)).unwrap());
                assert!(found <= longest * (1.0 + 1e-9), "{layout:?} {kind:?}: {found} of {longest}");
                assert!(found > 0.8 * longest.min(unbounded), "{layout:?} {kind:?}: {found} of {longest}");
            }
        }
    }
    for bad in [0.0, -1.0, f64::NAN] {
        assert_eq!(plan(ONE_HOT, "1", Ridge::Fixed).with_weight_norm(bad), Err(LinearError::Bounds));
    }
}

#[test]
fn a_bounded_solution_is_the_ridge_solution_of_its_ridge() {
    let (matrix, right) = ([4.0, 1.0, 1.0, 3.0], [8.0, -2.0]);
    let (free, _) = solve_ridge(&matrix, &right, 0.5, 1.0).unwrap();
    let length = |solution: &[f64]| solution.iter().map(|value| value * value).sum::<f64>().sqrt();
    for longest in [0.1, 0.5, 1.0, 1.9, 10.0] {
        let (solution, ridge) = solve_bounded(&matrix, &right, 0.5, 1.0, longest).unwrap();
        assert_eq!(solve_ridge(&matrix, &right, ridge, 1.0).unwrap().0, solution);
        assert!(length(&solution) <= longest && length(&solution) > 0.99 * longest.min(length(&free)), "{longest}");
    }
    assert!(solve_bounded(&matrix, &right, 0.5, 1.0, 0.0).is_none());
    assert!(solve_bounded(&matrix, &[f64::NAN, 1.0], 0.5, 1.0, 1.0).is_none());
}

#[test]
fn systems_are_solved() {
    let mut dice = Dice(3);
    for size in [1usize, 2, 7, 8, 9, 40] {
        let root: Vec<f64> = (0..size * size).map(|_| dice.unit() - 0.5).collect();
        let entry = |one: usize, other: usize| (0..size).map(|k| root[one * size + k] * root[other * size + k]).sum();
        let matrix: Vec<f64> = (0..size * size).map(|at| entry(at / size, at % size)).collect();
        let right: Vec<f64> = (0..size).map(|_| dice.unit()).collect();
        let (solution, ridge) = solve_ridge(&matrix, &right, 0.5, 1.0).unwrap();
        assert!((ridge - 0.5).abs() < 1e-12);
        for (row, expected) in right.iter().enumerate() {
            let found: f64 =
                (0..size).map(|k| matrix[row * size + k] * solution[k]).sum::<f64>() + ridge * solution[row];
            assert!((found - expected).abs() < 1e-9, "{size} {row}: {found} {expected}");
        }
    }
    // Not positive definite: the ridge grows until it is.
    let (_, ridge) = solve_ridge(&[-10.0], &[1.0], 0.0, 1.0).unwrap();
    assert!(ridge > 10.0 && ridge < 40.0, "{ridge}");
    assert!(solve_ridge(&[f64::NAN], &[1.0], 0.0, 1.0).is_none());
    assert!(solve_ridge(&[1.0], &[f64::NAN], 0.0, 1.0).is_none());
    assert!(Cholesky::new(&[1.0, 2.0], 0.0, 2).is_none());
}
