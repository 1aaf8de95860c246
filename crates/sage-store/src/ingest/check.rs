//! Checks each row against the declared columns. A row is kept, changed, dropped or quarantined.
//!
//! The treatment of a row must depend on that row alone: no statistics, no deduplication, no filling in from
//! neighbouring rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimestampMicrosecondType};

use super::convert::{ConvertedColumn, Converter, cast};
use super::error::IngestError;
use super::report::{Reason, Report};
use super::source::RawBatch;
use crate::stream::{Column, Kind, Outside, StreamFile};

/// The column of a quarantine file with the reason for the quarantine.
pub const REASON_COLUMN: &str = "_reason";

/// The accepted rows of a batch in their stored types, and the quarantined ones.
pub(super) struct CheckedRows {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) quarantined: Option<RecordBatch>,
}

/// Checks rows against the declared columns.
pub(super) struct Checker {
    columns: Vec<(Column, Converter)>,
    time: Option<usize>,
}

/// The rows that passed a check. `None` stands for all.
type Mask = Option<BooleanBuffer>;

fn and(one: Mask, other: Mask) -> Mask {
    match (one, other) {
        (Some(one), Some(other)) => Some(&one & &other),
        (one, other) => one.or(other),
    }
}

/// A checked column and the rows that passed.
struct CheckedColumn {
    array: ArrayRef,
    valid: Mask,
}

impl Checker {
    pub(super) fn new(stream: &StreamFile) -> Self {
        let columns = stream.columns.iter().map(|column| (column.clone(), Converter::new(column))).collect();
        let time = stream.time.as_ref().and_then(|name| stream.column(name)).map(|(index, _)| index);
        Self { columns, time }
    }

    pub(super) fn check(&self, file: &str, raw: &RawBatch, report: &mut Report) -> Result<CheckedRows, IngestError> {
        report.read += raw.rows as u64;
        let mut columns = Vec::with_capacity(self.columns.len());
        let (mut valid, mut timed) = (None, None);
        let mut drops = Vec::new();
        for (index, ((column, converter), array)) in self.columns.iter().zip(&raw.columns).enumerate() {
            let converted = converter.convert(array, raw.typing);
            let converted = converted.map_err(|mismatch| mismatch.into_error(file, &column.name))?;
            let checked = check_column(column, &converted, array, report, &mut drops).ok_or(IngestError::Stream)?;
            if self.time == Some(index) {
                timed = checked.valid;
            } else {
                valid = and(valid, checked.valid);
                for (reason, rows) in drops.drain(..) {
                    report.count_dropped(&column.name, reason, rows);
                }
            }
            drops.clear();
            columns.push(checked.array);
        }
        let quarantined = match &timed {
            Some(timed) => Some(self.quarantine_untimed(raw, &!timed, report)?),
            None => None,
        };
        let Some(keep) = and(valid, timed) else {
            return Ok(CheckedRows { columns, rows: raw.rows, quarantined });
        };
        let keep = BooleanArray::new(keep, None);
        let kept: Result<Vec<ArrayRef>, _> = columns.iter().map(|column| filter(column, &keep)).collect();
        Ok(CheckedRows { columns: kept.map_err(|_| IngestError::Stream)?, rows: keep.true_count(), quarantined })
    }

    /// The rows without a valid time, with their values unchanged.
    fn quarantine_untimed(
        &self, raw: &RawBatch, rows: &BooleanBuffer, report: &mut Report,
    ) -> Result<RecordBatch, IngestError> {
        report.quarantined += rows.count_set_bits() as u64;
        let names = self.columns.iter().map(|(column, _)| column.name.as_str());
        quarantine_rows(names, &raw.columns, rows, Reason::Time).ok_or(IngestError::Stream)
    }
}

/// The selected rows as text, with the reason for their quarantine.
pub(super) fn quarantine_rows<'names>(
    names: impl Iterator<Item = &'names str>, columns: &[ArrayRef], rows: &BooleanBuffer, reason: Reason,
) -> Option<RecordBatch> {
    let mask = BooleanArray::new(rows.clone(), None);
    let mut texts: Vec<ArrayRef> = Vec::with_capacity(columns.len() + 1);
    for column in columns {
        texts.push(cast(&filter(column, &mask).ok()?, &DataType::Utf8)?);
    }
    texts.push(Arc::new(StringArray::from(vec![reason.label(); mask.true_count()])));
    let fields = names.chain([REASON_COLUMN]).map(|name| Field::new(name, DataType::Utf8, true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<Field>>())), texts).ok()
}

/// Checks one column. Rows to drop are counted in `drops`, not in the report, because rows with an invalid value in the
/// stream's time column are quarantined instead.
fn check_column(
    column: &Column, converted: &ConvertedColumn, found: &ArrayRef, report: &mut Report,
    drops: &mut Vec<(Reason, usize)>,
) -> Option<CheckedColumn> {
    let absent = found.logical_null_count();
    let lost = match column.kind {
        Kind::Category { .. } => Reason::OtherCategory,
        _ => Reason::Unreadable,
    };
    report.count_changed(&column.name, Reason::OtherCategory, converted.others);
    let bounded = apply_bounds(column, &converted.array)?;
    report.count_changed(&column.name, Reason::Outside, bounded.clamped);
    if column.nullable && !matches!(column.kind, Kind::Category { .. }) {
        report.count_changed(&column.name, lost, converted.lost);
        report.count_changed(&column.name, Reason::NotANumber, bounded.nans);
    }
    let mut valid = bounded.valid;
    drops.push((Reason::Outside, bounded.dropped));
    if column.nullable {
        // An unknown category is not an absent value: its row is dropped, as declared.
        if matches!(column.kind, Kind::Category { .. }) && converted.lost > 0 {
            let present = bounded.array.logical_nulls().map(|nulls| nulls.into_inner());
            let absent_before = found.logical_nulls().map(|nulls| !nulls.inner());
            let kept = match (present, absent_before) {
                (Some(present), Some(absent)) => Some(&present | &absent),
                (present, _) => present,
            };
            valid = and(valid, kept);
            drops.push((lost, converted.lost));
        }
    } else {
        valid = and(valid, bounded.array.logical_nulls().map(|nulls| nulls.into_inner()));
        drops.extend([(Reason::Absent, absent), (lost, converted.lost), (Reason::NotANumber, bounded.nans)]);
    }
    Some(CheckedColumn { array: bounded.array, valid })
}

/// A column after its bounds are applied, and counts of the values they changed.
struct BoundedColumn {
    array: ArrayRef,
    valid: Mask,
    clamped: usize,
    dropped: usize,
    nans: usize,
}

fn apply_bounds(column: &Column, array: &ArrayRef) -> Option<BoundedColumn> {
    let untouched = || BoundedColumn { array: Arc::clone(array), valid: None, clamped: 0, dropped: 0, nans: 0 };
    match &column.kind {
        Kind::Number { min, max, outside } => bound_numbers::<Float64Type>(array, *min, *max, *outside),
        Kind::Integer { min, max, outside } => bound_numbers::<Int64Type>(array, *min, *max, *outside),
        Kind::Time { span } => bound_numbers::<TimestampMicrosecondType>(array, span.0, span.1 - 1, Outside::Drop),
        Kind::Text { longest } => {
            let texts = array.as_string_opt::<i32>()?;
            let short = |row: usize| texts.value_length(row) <= i32::try_from(*longest).unwrap_or(i32::MAX);
            let fits = |row: usize| short(row) || texts.is_null(row);
            if (0..texts.len()).all(fits) {
                return Some(untouched());
            }
            let valid = BooleanBuffer::collect_bool(texts.len(), fits);
            let dropped = texts.len() - valid.count_set_bits();
            Some(BoundedColumn { valid: Some(valid), dropped, ..untouched() })
        }
        Kind::Boolean | Kind::Category { .. } | Kind::Hashed => Some(untouched()),
    }
}

/// Applies bounds to numbers. NaN becomes null.
fn bound_numbers<T: ArrowPrimitiveType>(
    array: &ArrayRef, min: T::Native, max: T::Native, outside: Outside,
) -> Option<BoundedColumn>
where
    T::Native: PartialOrd,
{
    let numbers: &PrimitiveArray<T> = array.as_primitive_opt::<T>()?;
    let inside = |value: T::Native| min <= value && value <= max;
    let mut bounded = BoundedColumn { array: Arc::clone(array), valid: None, clamped: 0, dropped: 0, nans: 0 };
    // A branch-free loop, which the compiler vectorises. Most batches end here.
    if numbers.values().iter().fold(true, |all, &value| all & inside(value)) {
        return Some(bounded);
    }
    let mut values = numbers.values().to_vec();
    let mut present = vec![true; values.len()];
    let mut valid = vec![true; values.len()];
    for (row, value) in values.iter_mut().enumerate() {
        if numbers.is_null(row) {
            present[row] = false;
        } else if !inside(*value) {
            match ((*value).partial_cmp(&min), outside) {
                (None, _) => (present[row], bounded.nans) = (false, bounded.nans + 1),
                (_, Outside::Drop) => (valid[row], bounded.dropped) = (false, bounded.dropped + 1),
                (_, Outside::Clamp) => {
                    *value = if *value < min { min } else { max };
                    bounded.clamped += 1;
                }
            }
        }
    }
    let nulls = Some(NullBuffer::from(present)).filter(|nulls| nulls.null_count() > 0);
    bounded.array = Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(array.data_type().clone()));
    bounded.valid = (bounded.dropped > 0).then(|| BooleanBuffer::from(valid));
    Some(bounded)
}
