//! About how much memory an attempt needs, from what is known before a row is read.
//!
//! The shape of a model and a public number of rows say it: encoded rows stay in memory for as long as an attempt
//! trains, and a learner keeps sums and copies of its weights. It is an estimate, meant to be high rather than low.
//! What an attempt uses in the end is not held against it: that would tell how many rows there were.

use super::{Recipe, key_names};
use crate::pipeline::{Statistic, Train};
use crate::stream::StreamFile;

/// A number of a row, encoded.
const NUMBER: f64 = 4.0;
/// A number of a row, read and not encoded, with whether it is there; a text counts as several.
const CELL: f64 = 9.0;
/// A key of a table: sums, noise, its line, its name.
const KEY: f64 = 128.0;
/// What a process needs apart from rows: code, buffers of files, a block as it is read.
const BASE: f64 = 64e6;

/// About how many bytes an attempt on so many rows of the train lane needs; with none known, its shape alone.
pub(crate) fn memory_bytes(recipe: &Recipe, file: &StreamFile, rows: Option<f64>) -> f64 {
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
    let model = match &recipe.pipeline().train {
        Train::Model(learner) => learner.memory_bytes(inputs),
        _ => 0.0,
    };
    BASE + rows * row + model
}
