//! A linear model over encoded rows.

use serde::{Deserialize, Serialize};

use crate::encode::{Example, Layout};

/// A linear model: weights for the inputs of a layout, a bias and the bounds of the label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearModel {
    /// One weight for each number, then one for each one-hot column.
    pub weights: Vec<f64>,
    /// The bias.
    pub bias: f64,
    /// The label's bounds; predictions are clipped to them.
    pub label: (f64, f64),
    /// What was added to the diagonal of the noisy matrix, in units of squared feature norms.
    pub ridge: f64,
}

impl LinearModel {
    /// Whether the number of weights matches rows of this layout.
    pub fn fits(&self, layout: Layout) -> bool {
        self.weights.len() == layout.inputs() as usize
    }

    /// Rescales the model from labels normalised to [0, 1] to labels in these bounds.
    #[must_use]
    pub fn rescaled(self, (low, high): (f64, f64)) -> Self {
        let width = high - low;
        let weights = self.weights.into_iter().map(|weight| weight * width).collect();
        Self { weights, bias: self.bias * width + low, label: (low, high), ridge: self.ridge }
    }

    /// The prediction for a row, always within the label's bounds.
    pub fn predict(&self, row: &Example<'_>) -> f64 {
        let numbers = row.numbers.iter().zip(&self.weights).map(|(&number, weight)| f64::from(number) * weight);
        let weight = |&index: &u32| self.weights.get(row.numbers.len() + index as usize).copied().unwrap_or(0.0);
        let sum: f64 = numbers.sum::<f64>() + row.indices.iter().map(weight).sum::<f64>() + self.bias;
        let (low, high) = self.label;
        if sum.is_nan() { low } else { sum.clamp(low, high) }
    }
}
