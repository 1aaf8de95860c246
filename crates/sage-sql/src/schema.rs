//! The columns that expressions can name, and how they are read from a batch.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use crate::evaluate::{Booleans, Texts, Vector};
use crate::program::Kind;

/// The supported days, counted from 1970: the years 1700 to 2199. A time outside this range is read as null.
pub const DAYS: Range<i64> = -98_615..84_006;

pub(crate) const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The names and kinds of the columns of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<(String, DataType, Option<Kind>)>,
}

impl Schema {
    /// The columns of an Arrow schema. A column with an unsupported type may be present; an expression that uses it is
    /// refused.
    pub fn new(schema: &arrow::datatypes::Schema) -> Self {
        let column = |field: &arrow::datatypes::FieldRef| {
            (field.name().clone(), field.data_type().clone(), kind(field.data_type()))
        };
        Self { columns: schema.fields().iter().map(column).collect() }
    }

    /// The index and the kind of a column; the kind is `None` if the type is not supported.
    pub(crate) fn column(&self, name: &str) -> Option<(usize, Option<Kind>)> {
        let index = self.columns.iter().position(|(column, ..)| column == name)?;
        Some((index, self.columns[index].2))
    }

    /// The names of all columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, ..)| name.as_str())
    }

    /// The types of all columns.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&str, &DataType)> {
        self.columns.iter().map(|(name, kind, _)| (name.as_str(), kind))
    }
}

fn kind(found: &DataType) -> Option<Kind> {
    let universal = |zone: &str| matches!(zone, "UTC" | "+00:00" | "Z");
    match found {
        DataType::Boolean => Some(Kind::Boolean),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(Kind::Integer),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Some(Kind::Integer),
        // Its upper half does not fit into signed 64-bit integers.
        DataType::UInt64 | DataType::Float32 | DataType::Float64 => Some(Kind::Float),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Kind::Text),
        DataType::Dictionary(_, values) => kind(values).filter(|kind| *kind == Kind::Text),
        DataType::Date32 => Some(Kind::Time),
        DataType::Timestamp(_, zone) => zone.as_deref().is_none_or(universal).then_some(Kind::Time),
        DataType::Null => Some(Kind::Null),
        _ => None,
    }
}

/// Reads a column of floats. A column of another kind is read as null.
pub(crate) fn floats(column: &ArrayRef) -> Vector<f64> {
    match column.data_type() {
        DataType::Float64 => primitive::<Float64Type>(column),
        DataType::Float32 => convert_values::<Float32Type, f64>(column, f64::from),
        DataType::UInt64 => convert_values::<UInt64Type, f64>(column, |value| value as f64),
        _ => Vector::Constant(None),
    }
}

/// Reads a column of integers. A column of another kind is read as null.
pub(crate) fn integers(column: &ArrayRef) -> Vector<i64> {
    match column.data_type() {
        DataType::Int64 => primitive::<Int64Type>(column),
        DataType::Int32 => convert_values::<Int32Type, i64>(column, i64::from),
        DataType::Int16 => convert_values::<Int16Type, i64>(column, i64::from),
        DataType::Int8 => convert_values::<Int8Type, i64>(column, i64::from),
        DataType::UInt32 => convert_values::<UInt32Type, i64>(column, i64::from),
        DataType::UInt16 => convert_values::<UInt16Type, i64>(column, i64::from),
        DataType::UInt8 => convert_values::<UInt8Type, i64>(column, i64::from),
        _ => Vector::Constant(None),
    }
}

/// Reads a column of booleans. A column of another kind is read as null.
pub(crate) fn booleans(column: &ArrayRef) -> Booleans {
    column.as_boolean_opt().map_or(Booleans::Constant(None), |column| Booleans::Rows(column.clone()))
}

/// Reads a column of texts. A column of another kind is read as null.
pub(crate) fn texts(column: &ArrayRef) -> Texts {
    if let Some(views) = column.as_string_view_opt() {
        return Texts::Rows(views.clone());
    }
    let views: Option<StringViewArray> = match kind(column.data_type()) {
        Some(Kind::Text) => {
            cast(column, &DataType::Utf8View).ok().and_then(|views| views.as_string_view_opt().cloned())
        }
        _ => None,
    };
    views.map_or(Texts::Constant(None), Texts::Rows)
}

/// Reads a column of times, in microseconds since 1970. A time outside [`DAYS`] is null.
pub(crate) fn times(column: &ArrayRef) -> Vector<i64> {
    match column.data_type() {
        DataType::Date32 => within_days::<Date32Type>(column, 1, |day| i64::from(day) * MICROSECONDS_PER_DAY),
        DataType::Timestamp(TimeUnit::Second, _) => {
            within_days::<TimestampSecondType>(column, 86_400, |time| time * 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            within_days::<TimestampMillisecondType>(column, 86_400_000, |time| time * 1_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            within_days::<TimestampMicrosecondType>(column, MICROSECONDS_PER_DAY, |time| time)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            within_days::<TimestampNanosecondType>(column, MICROSECONDS_PER_DAY * 1_000, |time| time.div_euclid(1_000))
        }
        _ => Vector::Constant(None),
    }
}

fn primitive<T: ArrowPrimitiveType>(column: &ArrayRef) -> Vector<T::Native> {
    let column = column.as_primitive::<T>();
    Vector::Rows(column.values().clone(), column.nulls().cloned())
}

fn convert_values<T: ArrowPrimitiveType, U: arrow::datatypes::ArrowNativeType>(
    column: &ArrayRef, convert: impl Fn(T::Native) -> U,
) -> Vector<U> {
    let column: &PrimitiveArray<T> = column.as_primitive::<T>();
    let values: ScalarBuffer<U> = column.values().iter().map(|&value| convert(value)).collect();
    Vector::Rows(values, column.nulls().cloned())
}

/// Converts the times of a column with `units_per_day` units per day; null outside [`DAYS`].
fn within_days<T: ArrowPrimitiveType>(
    column: &ArrayRef, units_per_day: i64, convert: impl Fn(T::Native) -> i64,
) -> Vector<i64>
where
    T::Native: Into<i64>,
{
    let column = column.as_primitive::<T>();
    let range = DAYS.start * units_per_day..DAYS.end * units_per_day;
    let inside = |time: T::Native| range.contains(&time.into());
    // The conversion could overflow outside the range, so such values are replaced first.
    let values: ScalarBuffer<i64> =
        column.values().iter().map(|&time| if inside(time) { convert(time) } else { 0 }).collect();
    let known = arrow::buffer::BooleanBuffer::collect_bool(column.len(), |row| inside(column.values()[row]));
    let known = NullBuffer::new(known);
    Vector::Rows(values, NullBuffer::union(column.nulls(), Some(&known)))
}
