//! An estimate of the duration of an attempt, from public sizes.
//!
//! The real duration depends on rows, so no verdict may follow from it. A time limit is checked against this estimate
//! instead: a pure function of the pipeline, the stream file and a released or declared number of rows. Its constants
//! are those of a slow machine, so that the estimate is high rather than low. They are fixed, because a measurement
//! would make the verdict depend on the load of the machine. An attempt that exceeds its time limit fails with the same
//! reason as every attempt without a result.

use super::{Recipe, key_names};
use crate::learners::active_inputs;
use crate::pipeline::{Statistic, Train};
use crate::stream::StreamFile;

/// Seconds to read a row, apart from its columns.
const ROW: f64 = 200e-9;
/// Seconds to read and evaluate one column of a row.
const CELL: f64 = 50e-9;
/// Seconds to encode one input of a row.
const INPUT: f64 = 20e-9;
/// Seconds of a row in a training step or a test, apart from its weights.
pub(crate) const PASS: f64 = 2e-6;
/// Seconds of one weight for one row, forward and backward.
pub(crate) const WEIGHT: f64 = 0.5e-9;
/// Seconds to draw and add the noise of one released number.
pub(crate) const NOISE: f64 = 50e-9;
/// Seconds of one product of two inputs of a row, and of one product when a matrix is factored.
pub(crate) const PRODUCT: f64 = 1e-9;

/// Estimates the seconds of an attempt on `rows` rows of the train lane; without a number of rows, from the shape
/// alone. The running time of a user's program is not included: its sandbox limits it.
pub(crate) fn estimate_seconds(recipe: &Recipe, file: &StreamFile, rows: Option<f64>) -> f64 {
    let train_rows = rows.unwrap_or(0.0);
    let train_share = 1.0 - file.test_share.units() as f64 / sage_kernel::Rate::LIMIT.units() as f64;
    let all_rows = train_rows / train_share.max(1e-3);
    let read = all_rows * (ROW + CELL * recipe.query().columns.len() as f64);
    let Some(inputs) = recipe.inputs() else {
        return read + all_rows * PASS + NOISE * released_numbers(&recipe.pipeline().train);
    };
    let active = active_inputs(inputs);
    let (trained, tested) = match &recipe.pipeline().train {
        Train::Model(learner) => (learner.training_seconds(inputs, train_rows), learner.weights_per_row(inputs)),
        _ => (0.0, active),
    };
    read + all_rows * (INPUT * active + PASS + WEIGHT * tested) + trained
}

/// How many numbers a statistic releases.
fn released_numbers(train: &Train) -> f64 {
    match train {
        Train::Statistic(Statistic::Histogram { keys, .. } | Statistic::GroupMean { keys, .. }) => {
            2.0 * key_names(keys).len() as f64
        }
        Train::Statistic(Statistic::Quantile { grid, .. }) => 2.0 * f64::from(*grid),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::TAXI;
    use crate::pipeline::Pipeline;
    use crate::plan::NoTables;

    fn estimate(train: &str, rows: Option<f64>) -> f64 {
        let text = format!(
            "[pipeline]\nname = \"line\"\nstream = \"taxi\"\nlabel = {{ sql = \"duration / 3600\", bounds = [0, 2.5] }}\n\
             features = [{{ column = \"distance\", scale = [0, 30] }}]\n[train]\n{train}\n[validate]\nmetric = \"mse\"\n\
             target = 0.1\nbound = 1.0\n"
        );
        let file = StreamFile::parse(TAXI).expect("a file");
        let pipeline = Pipeline::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        estimate_seconds(&Recipe::new(pipeline, &file, &NoTables).expect("a recipe"), &file, rows)
    }

    const NETWORK: &str = "kind = \"mlp\"\nlayers = [16]\nepochs = 2\nbatch = 512";

    #[test]
    fn the_estimate_grows_with_every_public_size() {
        let base = estimate(NETWORK, Some(1e6));
        assert_eq!(base, estimate(NETWORK, Some(1e6)), "the same sizes give the same estimate");
        assert!(base.is_finite() && base > 1.0, "{base}");
        for (larger, rows) in [
            (NETWORK.to_owned(), 2e6),
            (NETWORK.replace("epochs = 2", "epochs = 4"), 1e6),
            (NETWORK.replace("[16]", "[256]"), 1e6),
            (NETWORK.replace("[16]", "[16, 16]"), 1e6),
        ] {
            assert!(estimate(&larger, Some(rows)) > base, "{larger} {rows}");
        }
        assert!(estimate("kind = \"ridge\"", Some(1e6)) < base);
    }

    #[test]
    fn without_a_public_number_of_rows_the_shape_alone_counts() {
        assert!(estimate("kind = \"ridge\"", None) < 0.01);
        assert!(estimate("kind = \"ridge\"", Some(1e9)) > 60.0);
    }
}
