//! An estimate of the memory of an attempt, from public sizes.
//!
//! Encoded rows stay in memory while an attempt trains, and a learner keeps sums and copies of its weights. The estimate
//! follows from the shape of the model and a public number of rows, and is meant to be high rather than low. The memory
//! that an attempt really uses is not checked: the outcome would reveal the number of rows.

use super::bill::network_shape;
use super::{Recipe, key_names};
use crate::pipeline::{Statistic, Train};
use crate::stream::StreamFile;

/// Bytes of an encoded number.
const NUMBER: f64 = 4.0;
/// Bytes of a decoded number with its validity; a text counts as several.
const CELL: f64 = 9.0;
/// Bytes per weight: the weight, its momentum, copies for the forward and backward pass, the sum and noise of a step, and
/// the sums of two threads.
const WEIGHT: f64 = 56.0;
/// Bytes per moment of two inputs: the sums of two threads, the noisy matrix and its factors.
const MOMENT: f64 = 64.0;
/// Bytes per key of a table: sums, noise, the result line and the name.
const KEY: f64 = 128.0;
/// Bytes that do not depend on rows: code, file buffers, one decoded block.
const BASE: f64 = 64e6;

/// Estimates the bytes of an attempt on `rows` rows of the train lane; without a number of rows, from the shape alone.
pub(crate) fn estimate_memory_bytes(recipe: &Recipe, file: &StreamFile, rows: Option<f64>) -> f64 {
    let train_share = 1.0 - file.test_share.units() as f64 / sage_kernel::Rate::LIMIT.units() as f64;
    let rows = rows.unwrap_or(0.0) / train_share.max(1e-3);
    let read = recipe.query().columns.len() as f64 * CELL;
    let Some(inputs) = recipe.inputs() else {
        let keys = match &recipe.pipeline().train {
            Train::Statistic(Statistic::Histogram { keys, .. } | Statistic::GroupMean { keys, .. }) => {
                key_names(keys).len()
            }
            Train::Statistic(Statistic::Quantile { grid, .. }) => *grid as usize,
            _ => 0,
        };
        return BASE + rows * read + keys as f64 * KEY;
    };
    let layout = inputs.encoding().layout();
    let beside = inputs.encoding().joins().count() + 1;
    let row = NUMBER * (f64::from(layout.numbers) + f64::from(layout.named) + 1.0 + beside as f64);
    let width = f64::from(layout.inputs()) + 1.0;
    let model = match &recipe.pipeline().train {
        Train::Network { layers, .. } => {
            WEIGHT * network_shape(inputs, layers).map_or(0.0, |shape| f64::from(shape.parameters()))
        }
        Train::Ridge(_) => MOMENT * width * width,
        _ => WEIGHT * width,
    };
    BASE + rows * row + model
}
