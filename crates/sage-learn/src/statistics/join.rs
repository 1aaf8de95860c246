//! Fits the table of a joined field and applies it to the rows of the session.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Session, TableNoise};

use super::group::GroupBy;
use super::interval::StatisticError;
use crate::encode::{Encoded, Encoding, Join, Mean, Scale, Span};

/// The group-by that fits the table of a joined field.
fn plan(join: &Join, noise: TableNoise) -> GroupBy {
    GroupBy { keys: join.key.categories(), bounds: (join.scale.low, join.scale.high), noise }
}

/// Fits the joined field of this name on the train lane, replaces keys by means in the rows of both lanes, and
/// returns the encoding with the fitted table.
///
/// It consumes one table with this noise on the train lane. Rows with a missing value belong to no group; keys with
/// too few rows get the middle of the bounds. Joined rows no longer contain the key, so a field can be fitted only
/// once in a session.
///
/// # Errors
/// When there is no such field or it was fitted before, or the charge does not cover the table.
pub fn fit_join<N: NoiseSource>(
    session: &mut Session<Encoded, N>, encoding: &Encoding, name: &str, noise: TableNoise,
) -> Result<Encoding, StatisticError> {
    let (index, join) = encoding
        .joins()
        .find(|(field, _, join)| *field == name && join.table.is_empty())
        .map(|(_, index, join)| (index, join))
        .ok_or(StatisticError::Bounds)?;
    let plan = plan(join, noise);
    let groups = match &join.mean {
        Mean::Label => plan.run(session, Lane::Train, 0.05, |row| {
            row.numbers.get(index).map(|key| (*key as u32, f64::from(row.label)))
        })?,
        Mean::Field(field) => {
            let (from, scale, beside) = match (encoding.number(field), encoding.beside(field)) {
                (Some((from, scale)), _) => (from, scale, false),
                (None, Some((from, scale))) => (from, scale, true),
                (None, None) => return Err(StatisticError::Bounds),
            };
            plan.run(session, Lane::Train, 0.05, |row| {
                let number = if beside { row.beside } else { row.numbers }.get(from)?;
                row.numbers.get(index).map(|key| (*key as u32, decoded(*number, scale)))
            })?
        }
    };
    let means: Vec<f64> = groups.iter().map(|group| group.mean).collect();
    let fitted = encoding.with_table(name, &means).map_err(|_| StatisticError::Bounds)?;
    let table = fitted.joins().find(|(field, ..)| *field == name).map(|(_, _, join)| join.table.as_slice());
    session.rewrite(|batch| batch.join(index, table.unwrap_or_default()));
    Ok(fitted)
}

/// The number before encoding, up to rounding.
fn decoded(number: f32, scale: Scale) -> f64 {
    let share = match scale.span {
        Span::Signed => 0.5 * (f64::from(number) + 1.0),
        Span::Unit => f64::from(number),
    };
    scale.low + share * (scale.high - scale.low)
}
