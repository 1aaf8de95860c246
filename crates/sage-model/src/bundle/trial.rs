//! Runs a graph on synthetic rows before it is released.
//!
//! The rows are drawn from the declared bounds alone, and are always the same: the ends of all bounds, nulls where they
//! are possible, texts that are not declared, and then a mixture. None is a row of a stream.

use std::fmt;

use super::graph::Graph;
use super::predict::{PredictError, Predictor};
use crate::formula::{Cell, Column, Domain, GREATEST_HASH, Missing, Schema};

/// The number of synthetic rows.
const ROWS: u64 = 256;

/// Why a graph is not fit to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrialRefusal {
    /// It does not run.
    Broken(PredictError),
    /// Its prediction is not finite for a row that it accepts, or not NaN for one that it leaves out.
    NotFinite,
    /// The prediction of a row depends on the rows beside it.
    Unsteady,
}

impl fmt::Display for TrialRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(error) => write!(f, "it does not run on synthetic rows: {error}"),
            Self::NotFinite => write!(f, "its prediction for a synthetic row is not finite, or should be missing"),
            Self::Unsteady => write!(f, "a row's prediction depends on the rows beside it"),
        }
    }
}

impl std::error::Error for TrialRefusal {}

/// Synthetic rows within the declared bounds, with nulls where they are possible; always the same.
pub fn synthetic_rows(schema: &Schema, count: u64) -> Vec<Vec<Cell>> {
    let row = |number| {
        let columns = schema.columns().iter().zip(0_u64..);
        columns.map(|(column, index)| cell(column, number, mixed(number << 16 | index))).collect()
    };
    (0..count).map(row).collect()
}

/// Compiles a graph and runs it on synthetic rows; returns the predictor, ready to serve.
pub fn try_out(graph: &Graph) -> Result<Predictor, TrialRefusal> {
    let predictor = Predictor::new(graph).map_err(TrialRefusal::Broken)?;
    let rows = synthetic_rows(&graph.outline().schema, ROWS);
    let found = predictor.rows(&rows).map_err(TrialRefusal::Broken)?;
    let fits = |(row, numbers): (&Vec<Cell>, &[f32])| match predictor.leaves_out(row) {
        true => numbers.iter().all(|number| number.is_nan()),
        false => numbers.iter().all(|number| number.is_finite()),
    };
    let complete = found.len() == rows.len() * predictor.outputs();
    if !complete || !rows.iter().zip(found.chunks(predictor.outputs())).all(fits) {
        return Err(TrialRefusal::NotFinite);
    }
    let backwards: Vec<Vec<Cell>> = rows.iter().rev().cloned().collect();
    let backwards = predictor.rows(&backwards).map_err(TrialRefusal::Broken)?;
    let same =
        |(one, other): (&[f32], &[f32])| one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits());
    if !found.chunks(predictor.outputs()).zip(backwards.chunks(predictor.outputs()).rev()).all(same) {
        return Err(TrialRefusal::Unsteady);
    }
    for (row, together) in rows.iter().zip(found.chunks(predictor.outputs())).take(8) {
        let alone = predictor.rows(std::slice::from_ref(row)).map_err(TrialRefusal::Broken)?;
        if !same((&alone, together)) {
            return Err(TrialRefusal::Unsteady);
        }
    }
    Ok(predictor)
}

/// The first rows are the low ends, the high ends and nulls; the others are drawn.
fn cell(column: &Column, row: u64, drawn: u64) -> Cell {
    let null = row == 2 || row > 3 && drawn.is_multiple_of(8);
    if null && column.missing == Missing::Possible {
        return Cell::Null;
    }
    let share = match row {
        0 => 0.0,
        1 => 1.0,
        _ => (drawn >> 11) as f64 / (1_u64 << 53) as f64,
    };
    match &column.domain {
        Domain::Number { low, high } => Cell::Number((low * (1.0 - share) + high * share).clamp(*low, *high)),
        Domain::Whole { low, high } | Domain::Time { first: low, last: high } => {
            let whole = *low as f64 * (1.0 - share) + *high as f64 * share;
            Cell::Whole((whole as i64).clamp(*low, *high))
        }
        Domain::Hashed => Cell::Whole((share * GREATEST_HASH as f64) as i64),
        Domain::Truth => Cell::Truth(share >= 0.5),
        Domain::Text { categories } => {
            // One index beyond the categories: an undeclared text.
            let index = (share * (categories.len() + 1) as f64) as usize;
            let undeclared = "neither declared nor seen".to_owned();
            Cell::Text(categories.get(index).cloned().unwrap_or(undeclared))
        }
    }
}

/// SplitMix64: a fixed, public pseudo-random sequence.
const fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
