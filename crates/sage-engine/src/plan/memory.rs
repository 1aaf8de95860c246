//! An estimate of the memory of an attempt, from public sizes.
//!
//! Encoded rows stay in memory while an attempt trains, and a learner keeps sums and copies of its weights. The
//! estimate follows from the shape of the model and a public number of rows, and is meant to be high rather than low.
//! The memory that an attempt really uses is not checked: the outcome would reveal the number of rows.

use super::{Recipe, key_names};
use crate::pipeline::{Statistic, Train};
use crate::stream::StreamFile;

/// Bytes of an encoded number.
const NUMBER: f64 = 4.0;
/// Bytes of a decoded number with its validity; a text counts as several.
const CELL: f64 = 9.0;
/// A key of a table: sums, noise, its line, its name.
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
    let row = NUMBER * (f64::from(layout.numbers) + f64::from(layout.active) + 1.0 + beside as f64);
    let model = match &recipe.pipeline().train {
        Train::Model(learner) => learner.memory_bytes(inputs),
        _ => 0.0,
    };
    BASE + rows * row + model
}
