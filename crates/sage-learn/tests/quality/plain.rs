//! The same models without privacy, in double precision: the baselines of the private ones.

use sage_kernel::Rows;
use sage_learn::encode::{Encoded, Example};
use sage_learn::linear::{LinearModel, solve_ridge};
use sage_learn::network::Network;

/// A small ridge, enough for categories that no row has.
const RIDGE: f64 = 0.1;

/// The moments of rows, weighted: features by features, and features by a target.
struct Sums {
    width: usize,
    matrix: Vec<f64>,
    cross: Vec<f64>,
}

impl Sums {
    fn new(width: usize) -> Self {
        Self { width, matrix: vec![0.0; width * width], cross: vec![0.0; width] }
    }

    /// Adds a row, given its non-zero features.
    fn add(&mut self, features: &[(usize, f64)], weight: f64, target: f64) {
        for &(one, left) in features {
            self.cross[one] += left * target;
            for &(other, right) in features {
                self.matrix[one * self.width + other] += weight * left * right;
            }
        }
    }
}

/// The non-zero features of a row, including the constant one.
fn features(row: &Example<'_>, width: usize, into: &mut Vec<(usize, f64)>) {
    into.clear();
    into.extend(row.numbers.iter().map(|&number| f64::from(number)).enumerate());
    into.extend(row.indices.iter().map(|&index| (row.numbers.len() + index as usize, 1.0)));
    into.push((width - 1, 1.0));
}

/// Ridge regression on labels from zero to one.
pub(crate) fn ridge(rows: &Encoded) -> LinearModel {
    let width = rows.layout().inputs() as usize + 1;
    let mut sums = Sums::new(width);
    let mut active = Vec::new();
    for index in 0..rows.count() {
        let row = rows.row(index);
        features(&row, width, &mut active);
        sums.add(&active, 1.0, f64::from(row.label));
    }
    let (mut weights, ridge) = solve_ridge(&sums.matrix, &sums.cross, RIDGE, RIDGE).expect("a solution");
    let bias = weights.pop().expect("a bias");
    LinearModel { weights, bias, label: (0.0, 1.0), ridge }
}

/// The weights of a logistic regression by Newton's method; the bias is last.
pub(crate) fn logistic(rows: &Encoded) -> Vec<f64> {
    let width = rows.layout().inputs() as usize + 1;
    let mut weights = vec![0.0; width];
    let mut active = Vec::new();
    for _ in 0..6 {
        let mut sums = Sums::new(width);
        for index in 0..rows.count() {
            let row = rows.row(index);
            features(&row, width, &mut active);
            let chance = chance(&active, &weights);
            sums.add(&active, chance * (1.0 - chance), f64::from(row.label) - chance);
        }
        sums.cross.iter_mut().zip(&weights).for_each(|(cross, weight)| *cross -= RIDGE * weight);
        let (step, _) = solve_ridge(&sums.matrix, &sums.cross, RIDGE, RIDGE).expect("a solution");
        weights.iter_mut().zip(step).for_each(|(weight, step)| *weight += step);
    }
    weights
}

fn chance(features: &[(usize, f64)], weights: &[f64]) -> f64 {
    let sum: f64 = features.iter().map(|&(index, value)| value * weights[index]).sum();
    1.0 / (1.0 + (-sum).exp())
}

/// The probabilities that logistic weights predict.
pub(crate) fn chances(weights: &[f64], rows: &Encoded) -> Vec<f64> {
    let mut active = Vec::new();
    let of_row = |index| {
        features(&rows.row(index), weights.len(), &mut active);
        chance(&active, weights)
    };
    (0..rows.count()).map(of_row).collect()
}

/// The predictions of a linear model.
pub(crate) fn line(model: &LinearModel, rows: &Encoded) -> Vec<f64> {
    (0..rows.count()).map(|index| model.predict(&rows.row(index))).collect()
}

/// The predictions of a network, clipped to the label's bounds.
pub(crate) fn predictions(network: &Network, rows: &Encoded) -> Vec<f64> {
    network.predict(rows).into_iter().map(|value| f64::from(value).clamp(0.0, 1.0)).collect()
}

/// The mean label.
pub(crate) fn mean(rows: &Encoded) -> f64 {
    (0..rows.count()).map(|index| f64::from(rows.row(index).label)).sum::<f64>() / rows.count() as f64
}

/// The mean squared error.
pub(crate) fn squared(predicted: &[f64], rows: &Encoded) -> f64 {
    let error = |(index, value): (usize, &f64)| (value - f64::from(rows.row(index).label)).powi(2);
    predicted.iter().enumerate().map(error).sum::<f64>() / rows.count() as f64
}

/// The mean log loss of predicted probabilities.
pub(crate) fn log_loss(predicted: &[f64], rows: &Encoded) -> f64 {
    let loss = |(index, &value): (usize, &f64)| {
        let given = if rows.row(index).label > 0.5 { value } else { 1.0 - value };
        -given.max(1e-12).ln()
    };
    predicted.iter().enumerate().map(loss).sum::<f64>() / rows.count() as f64
}
