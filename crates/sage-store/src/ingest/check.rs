//! Every row is checked by itself against what was declared: kept, changed, left out or set aside.
//!
//! What becomes of a row follows from that row alone. It must never depend on another one: no statistics, no
//! removal of doubles, no filling in from neighbours.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimestampMicrosecondType};

use super::convert::{Converted, Converter, cast};
use super::error::IngestError;
use super::report::{Reason, Report};
use super::source::Found;
use crate::stream::{Column, Kind, Outside, StreamFile};

/// The column of a quarantine file that says why.
pub const REASON_COLUMN: &str = "_reason";

/// The rows of a batch that belong in blocks, as they will be stored, and those that do not.
pub(super) struct Checked {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) set_aside: Option<RecordBatch>,
}

/// The declared columns, ready to judge rows.
pub(super) struct Checker {
    columns: Vec<(Column, Converter)>,
    time: Option<usize>,
}

/// Which rows are in order; all, where it is nothing.
type Mask = Option<BooleanBuffer>;

fn both(one: Mask, other: Mask) -> Mask {
    match (one, other) {
        (Some(one), Some(other)) => Some(&one & &other),
        (one, other) => one.or(other),
    }
}

/// A column after its own check.
struct Judged {
    array: ArrayRef,
    fine: Mask,
}

impl Checker {
    pub(super) fn new(stream: &StreamFile) -> Self {
        let columns = stream.columns.iter().map(|column| (column.clone(), Converter::new(column))).collect();
        let time = stream.time.as_ref().and_then(|name| stream.column(name)).map(|(place, _)| place);
        Self { columns, time }
    }

    pub(super) fn check(&self, file: &str, found: &Found, report: &mut Report) -> Result<Checked, IngestError> {
        report.read += found.rows as u64;
        let mut columns = Vec::with_capacity(self.columns.len());
        let (mut fine, mut timely) = (None, None);
        let mut drops = Vec::new();
        for (place, ((column, converter), array)) in self.columns.iter().zip(&found.columns).enumerate() {
            let converted = converter.convert(array, found.typing).map_err(|wrong| IngestError::Type {
                file: file.to_owned(),
                column: column.name.clone(),
                found: wrong.found,
                allowed: wrong.allowed,
            })?;
            let judged = judge(column, &converted, array, report, &mut drops).ok_or(IngestError::Stream)?;
            if self.time == Some(place) {
                timely = judged.fine;
            } else {
                fine = both(fine, judged.fine);
                for (reason, rows) in drops.drain(..) {
                    report.drop(&column.name, reason, rows);
                }
            }
            drops.clear();
            columns.push(judged.array);
        }
        let set_aside = match &timely {
            Some(timely) => Some(self.aside(found, &!timely, report)?),
            None => None,
        };
        let Some(keep) = both(fine, timely) else {
            return Ok(Checked { columns, rows: found.rows, set_aside });
        };
        let keep = BooleanArray::new(keep, None);
        let kept: Result<Vec<ArrayRef>, _> = columns.iter().map(|column| filter(column, &keep)).collect();
        Ok(Checked { columns: kept.map_err(|_| IngestError::Stream)?, rows: keep.true_count(), set_aside })
    }

    /// The rows whose time puts them into no block, as they came.
    fn aside(&self, found: &Found, rows: &BooleanBuffer, report: &mut Report) -> Result<RecordBatch, IngestError> {
        report.quarantined += rows.count_set_bits() as u64;
        let names = self.columns.iter().map(|(column, _)| column.name.as_str());
        quarantine(names, &found.columns, rows, Reason::Time).ok_or(IngestError::Stream)
    }
}

/// Some rows as text, with the reason why they are in no block.
pub(super) fn quarantine<'names>(
    names: impl Iterator<Item = &'names str>, columns: &[ArrayRef], rows: &BooleanBuffer, reason: Reason,
) -> Option<RecordBatch> {
    let mask = BooleanArray::new(rows.clone(), None);
    let mut texts: Vec<ArrayRef> = Vec::with_capacity(columns.len() + 1);
    for column in columns {
        texts.push(cast(&filter(column, &mask).ok()?, &DataType::Utf8)?);
    }
    texts.push(Arc::new(StringArray::from(vec![reason.word(); mask.true_count()])));
    let fields = names.chain([REASON_COLUMN]).map(|name| Field::new(name, DataType::Utf8, true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<Field>>())), texts).ok()
}

/// Checks a column by itself. What it leaves out is listed, since the stream's time column does not leave out
/// rows but sets them aside.
fn judge(
    column: &Column, converted: &Converted, found: &ArrayRef, report: &mut Report, drops: &mut Vec<(Reason, usize)>,
) -> Option<Judged> {
    let absent = found.logical_null_count();
    let lost = match column.kind {
        Kind::Category { .. } => Reason::OtherCategory,
        _ => Reason::Unreadable,
    };
    report.change(&column.name, Reason::OtherCategory, converted.others);
    let bounded = bounded(column, &converted.array)?;
    report.change(&column.name, Reason::Outside, bounded.clamped);
    if column.nullable && !matches!(column.kind, Kind::Category { .. }) {
        report.change(&column.name, lost, converted.lost);
        report.change(&column.name, Reason::NotANumber, bounded.odd);
    }
    let mut fine = bounded.fine;
    drops.push((Reason::Outside, bounded.dropped));
    if column.nullable {
        // A text of no category is not an absent one: its row goes, as declared.
        if matches!(column.kind, Kind::Category { .. }) && converted.lost > 0 {
            let there = bounded.array.logical_nulls().map(|nulls| nulls.into_inner());
            let before = found.logical_nulls().map(|nulls| !nulls.inner());
            let kept = match (there, before) {
                (Some(there), Some(absent)) => Some(&there | &absent),
                (there, _) => there,
            };
            fine = both(fine, kept);
            drops.push((lost, converted.lost));
        }
    } else {
        fine = both(fine, bounded.array.logical_nulls().map(|nulls| nulls.into_inner()));
        drops.extend([(Reason::Absent, absent), (lost, converted.lost), (Reason::NotANumber, bounded.odd)]);
    }
    Some(Judged { array: bounded.array, fine })
}

/// A column within its bounds.
struct Bounded {
    array: ArrayRef,
    fine: Mask,
    clamped: usize,
    dropped: usize,
    odd: usize,
}

fn bounded(column: &Column, array: &ArrayRef) -> Option<Bounded> {
    let untouched = || Bounded { array: Arc::clone(array), fine: None, clamped: 0, dropped: 0, odd: 0 };
    match &column.kind {
        Kind::Number { min, max, outside } => within::<Float64Type>(array, *min, *max, *outside),
        Kind::Integer { min, max, outside } => within::<Int64Type>(array, *min, *max, *outside),
        Kind::Time { span } => within::<TimestampMicrosecondType>(array, span.0, span.1 - 1, Outside::Drop),
        Kind::Text { longest } => {
            let texts = array.as_string_opt::<i32>()?;
            let short = |row: usize| texts.value_length(row) <= i32::try_from(*longest).unwrap_or(i32::MAX);
            let fits = |row: usize| short(row) || texts.is_null(row);
            if (0..texts.len()).all(fits) {
                return Some(untouched());
            }
            let fine = BooleanBuffer::collect_bool(texts.len(), fits);
            let dropped = texts.len() - fine.count_set_bits();
            Some(Bounded { fine: Some(fine), dropped, ..untouched() })
        }
        Kind::Boolean | Kind::Category { .. } => Some(untouched()),
    }
}

/// Numbers between two bounds. What compares with nothing is no number and becomes absent.
fn within<T: ArrowPrimitiveType>(array: &ArrayRef, min: T::Native, max: T::Native, outside: Outside) -> Option<Bounded>
where
    T::Native: PartialOrd,
{
    let numbers: &PrimitiveArray<T> = array.as_primitive_opt::<T>()?;
    let inside = |value: T::Native| min <= value && value <= max;
    let mut bounded = Bounded { array: Arc::clone(array), fine: None, clamped: 0, dropped: 0, odd: 0 };
    // Without branches, so that it goes many numbers at a time; the rest is for the few batches that need it.
    if numbers.values().iter().fold(true, |all, &value| all & inside(value)) {
        return Some(bounded);
    }
    let mut values = numbers.values().to_vec();
    let mut present = vec![true; values.len()];
    let mut fine = vec![true; values.len()];
    for (row, value) in values.iter_mut().enumerate() {
        if numbers.is_null(row) {
            present[row] = false;
        } else if !inside(*value) {
            match ((*value).partial_cmp(&min), outside) {
                (None, _) => (present[row], bounded.odd) = (false, bounded.odd + 1),
                (_, Outside::Drop) => (fine[row], bounded.dropped) = (false, bounded.dropped + 1),
                (_, Outside::Clamp) => {
                    *value = if *value < min { min } else { max };
                    bounded.clamped += 1;
                }
            }
        }
    }
    let nulls = Some(NullBuffer::from(present)).filter(|nulls| nulls.null_count() > 0);
    bounded.array = Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(array.data_type().clone()));
    bounded.fine = (bounded.dropped > 0).then(|| BooleanBuffer::from(fine));
    Some(bounded)
}
