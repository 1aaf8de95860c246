//! Times and their parts.

use arrow::array::RecordBatch;

use super::{Evaluate, Vector, extreme};
use crate::calendar;
use crate::program::{Part, Time};
use crate::schema;

impl Evaluate for Time {
    type Values = Vector<i64>;

    fn evaluate(&self, batch: &RecordBatch) -> Vector<i64> {
        match self {
            Self::Column(index) => schema::times(batch.column(*index)),
            Self::Constant(value) => Vector::Constant(*value),
            Self::FromText(of) => of.evaluate(batch).parsed(calendar::parse_time),
            Self::Truncated(unit, of) => {
                let unit = *unit;
                of.evaluate(batch).map(|time| calendar::truncate(unit, time))
            }
            Self::Extreme(which, all) => {
                let values = all.iter().map(|one| one.evaluate(batch));
                extreme(*which, values, |left, right| left < right, batch.num_rows())
            }
            Self::Choice(choice) => choice.evaluate(batch),
        }
    }
}

/// A part of each time. The common parts have their own loops, in which the divisors are constants.
pub(super) fn part(part: Part, times: Vector<i64>) -> Vector<i64> {
    match part {
        Part::Hour => times.map(|time| calendar::part(Part::Hour, time)),
        Part::Minute => times.map(|time| calendar::part(Part::Minute, time)),
        Part::DayOfWeek => times.map(|time| calendar::part(Part::DayOfWeek, time)),
        other => times.map(|time| calendar::part(other, time)),
    }
}
