//! Conversion of a column from its type in the file to its stored type.
//!
//! Only conversions that are lossless or unambiguous are made. Other types are refused before any value is read. A
//! single value that cannot be converted becomes null.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType};

use super::error::IngestError;
use super::source::Typing;
use crate::stream::{Column, Kind, UnknownCategory, hash_text};

/// A type that cannot be converted to the declared one.
#[derive(Debug)]
pub(super) struct TypeMismatch {
    pub(super) found: String,
    pub(super) allowed: &'static str,
}

impl TypeMismatch {
    pub(super) fn into_error(self, file: &str, column: &str) -> IngestError {
        let (file, column) = (file.to_owned(), column.to_owned());
        IngestError::Type { file, column, found: self.found, allowed: self.allowed }
    }
}

/// Converts the values of a declared column.
pub(super) struct Converter {
    kind: Kind,
    storage: DataType,
    categories: Option<Categories>,
}

/// A column in its stored type. Categories are a dictionary array.
pub(super) struct ConvertedColumn {
    pub(super) array: ArrayRef,
    /// How many unknown texts were replaced by the category declared for them.
    pub(super) others: usize,
    /// How many values became null because they do not have the declared type or are not in the list of categories.
    pub(super) lost: usize,
}

struct Categories {
    /// The texts in the declared order, shared by all batches.
    texts: ArrayRef,
    /// The sorted texts with their indices in the declared order.
    sorted: Vec<(String, i32)>,
    /// The index of the category that stands for unknown texts.
    other: Option<i32>,
}

/// The index of a text that is not in the list.
const UNKNOWN: i32 = -1;

impl Converter {
    pub(super) fn new(column: &Column) -> Self {
        let categories = match &column.kind {
            Kind::Category { categories, other } => Some(Categories::new(categories, other)),
            _ => None,
        };
        Self { kind: column.kind.clone(), storage: column.storage(), categories }
    }

    /// A description, for messages, of the types that can be converted.
    fn allowed(&self) -> &'static str {
        match self.kind {
            Kind::Number { .. } => "an integer, a float or a decimal",
            Kind::Integer { .. } => "an integer, or a float with whole numbers",
            Kind::Boolean => "a boolean",
            Kind::Time { .. } => "a timestamp, a date, or a text with one",
            Kind::Category { .. } | Kind::Text { .. } | Kind::Hashed => "a text, an integer or a boolean",
        }
    }

    fn accepts(&self, found: &DataType, typing: Typing) -> bool {
        let text = matches!(found, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if matches!(found, DataType::Null) || (typing == Typing::Text && text) {
            return true;
        }
        let decimal = matches!(
            found,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
        );
        match self.kind {
            Kind::Number { .. } => found.is_integer() || found.is_floating() || decimal,
            Kind::Integer { .. } => found.is_integer() || found.is_floating(),
            Kind::Boolean => matches!(found, DataType::Boolean),
            Kind::Time { .. } => text || matches!(found, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64),
            Kind::Category { .. } | Kind::Text { .. } | Kind::Hashed => {
                text || found.is_integer() || matches!(found, DataType::Boolean)
            }
        }
    }

    /// Checks that columns of this type can be converted, whatever their values.
    pub(super) fn check(&self, found: &DataType, typing: Typing) -> Result<(), TypeMismatch> {
        let accepted = self.accepts(value_type(found), typing);
        if accepted { Ok(()) } else { Err(TypeMismatch { found: found.to_string(), allowed: self.allowed() }) }
    }

    pub(super) fn convert(&self, array: &ArrayRef, typing: Typing) -> Result<ConvertedColumn, TypeMismatch> {
        self.check(array.data_type(), typing)?;
        let plain = value_type(array.data_type());
        let wrong = || TypeMismatch { found: array.data_type().to_string(), allowed: self.allowed() };
        if let Some(categories) = &self.categories {
            return categories.convert(array).ok_or_else(wrong);
        }
        let before = array.logical_null_count();
        let array = match (&self.kind, plain) {
            (Kind::Integer { .. }, _) => to_integers(array, plain).ok_or_else(wrong)?,
            (Kind::Hashed, _) => to_hashes(array).ok_or_else(wrong)?,
            (Kind::Time { .. }, _) => to_instants(array, plain).ok_or_else(wrong)?,
            (Kind::Text { longest }, DataType::Utf8View) => copy_texts(array, *longest as usize).ok_or_else(wrong)?,
            _ => cast(array, &self.storage).ok_or_else(wrong)?,
        };
        let lost = array.null_count().saturating_sub(before);
        Ok(ConvertedColumn { array, others: 0, lost })
    }
}

/// The type of the values, also of a dictionary array.
fn value_type(found: &DataType) -> &DataType {
    match found {
        DataType::Dictionary(_, values) => values.as_ref(),
        found => found,
    }
}

/// Copies texts out of their views. A text is truncated just past `longest` bytes, where it is known to be too long:
/// copies of one long text could otherwise exhaust memory.
fn copy_texts(array: &ArrayRef, longest: usize) -> Option<ArrayRef> {
    let texts = array.as_string_view_opt()?.iter();
    let end = |text: &'_ str| text.ceil_char_boundary(longest.saturating_add(1));
    Some(Arc::new(texts.map(|text| text.map(|text| &text[..end(text)])).collect::<StringArray>()))
}

/// Casts an array. Values that cannot be cast become null.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Null => Some(new_null_array(to, array.len())),
        found if found == to => Some(Arc::clone(array)),
        _ => cast_with_options(array, to, &CastOptions { safe: true, ..CastOptions::default() }).ok(),
    }
}

/// Converts to instants in UTC. A timestamp counts from 1970 in UTC whatever its display zone, and one without a zone
/// is taken to be in UTC, so only texts have a zone to parse.
fn to_instants(array: &ArrayRef, plain: &DataType) -> Option<ArrayRef> {
    let zone = if matches!(plain, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null) {
        None
    } else {
        Some("+00:00".into())
    };
    let instants = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    let instants = instants.as_primitive_opt::<TimestampMicrosecondType>()?.clone();
    Some(Arc::new(instants.with_timezone("UTC")))
}

/// Converts to integers, also from floats such as `3.0`, which some programs use for integer columns with nulls.
fn to_integers(array: &ArrayRef, plain: &DataType) -> Option<ArrayRef> {
    if plain.is_integer() {
        return cast(array, &DataType::Int64);
    }
    let text = !plain.is_floating();
    let direct = if text { Some(cast(array, &DataType::Int64)?) } else { None };
    if let Some(direct) = &direct
        && direct.null_count() == array.logical_null_count()
    {
        return Some(Arc::clone(direct));
    }
    let floats = cast(array, &DataType::Float64)?;
    let floats: &Float64Array = floats.as_primitive_opt::<Float64Type>()?;
    let direct = direct.as_ref().and_then(|array| array.as_primitive_opt::<Int64Type>());
    let whole = (0..array.len()).map(|row| {
        let exact = direct.filter(|direct| direct.is_valid(row)).map(|direct| direct.value(row));
        exact.or_else(|| float_to_integer(floats.is_valid(row).then(|| floats.value(row))?))
    });
    Some(Arc::new(whole.collect::<Int64Array>()))
}

/// Converts texts to their hashes. The empty text becomes null, as it does in a CSV file and in a prediction request.
fn to_hashes(array: &ArrayRef) -> Option<ArrayRef> {
    // Views share their texts: copies of one long text could otherwise exhaust memory.
    let texts = cast(array, &DataType::Utf8View)?;
    let hash = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(hash_text);
    Some(Arc::new(texts.as_string_view_opt()?.iter().map(hash).collect::<Int64Array>()))
}

/// A float as an integer, if it is one within the range that floats represent exactly.
fn float_to_integer(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.trunc() == float && float.abs() <= EXACT).then_some(float as i64)
}

impl Categories {
    fn new(categories: &[String], other: &UnknownCategory) -> Self {
        let indices = 0..i32::try_from(categories.len()).unwrap_or(i32::MAX);
        let mut sorted: Vec<(String, i32)> = categories.iter().cloned().zip(indices).collect();
        sorted.sort_unstable();
        let mut list = Self { texts: Arc::new(StringArray::from(categories.to_vec())), sorted, other: None };
        if let UnknownCategory::Category(text) = other {
            list.other = Some(list.index(text)).filter(|&index| index != UNKNOWN);
        }
        list
    }

    /// The index of a text in the declared order, or [`UNKNOWN`].
    fn index(&self, text: &str) -> i32 {
        let found = self.sorted.binary_search_by(|(category, _)| category.as_str().cmp(text));
        found.map_or(UNKNOWN, |position| self.sorted[position].1)
    }

    fn convert(&self, array: &ArrayRef) -> Option<ConvertedColumn> {
        let indices: Vec<i32> = match array.data_type() {
            DataType::Dictionary(key, _) if **key == DataType::Int32 => {
                let dictionary = array.as_dictionary_opt::<Int32Type>()?;
                let indices = self.indices(&cast(dictionary.values(), &DataType::Utf8)?)?;
                let keys = dictionary.keys();
                // The key of a null is arbitrary. It is masked below.
                let index =
                    |&key: &i32| indices.get(usize::try_from(key).unwrap_or(usize::MAX)).copied().unwrap_or(UNKNOWN);
                keys.values().iter().map(index).collect()
            }
            _ => self.indices(&cast(array, &DataType::Utf8)?)?,
        };
        Some(self.build_column(indices, array))
    }

    fn indices(&self, texts: &ArrayRef) -> Option<Vec<i32>> {
        let texts = texts.as_string_opt::<i32>()?;
        let mut last: (&str, i32) = ("", UNKNOWN);
        let indices = (0..texts.len()).map(|row| {
            let text = texts.value(row);
            if text != last.0 {
                last = (text, self.index(text));
            }
            last.1
        });
        Some(indices.collect())
    }

    /// Builds the dictionary array. It has the nulls of `array`, and nulls for unknown texts unless they have a
    /// category.
    fn build_column(&self, mut indices: Vec<i32>, array: &ArrayRef) -> ConvertedColumn {
        let nulls = array.logical_nulls();
        let absent = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let unknown = indices.iter().enumerate().filter(|(row, index)| **index == UNKNOWN && !absent(*row)).count();
        let (mut others, mut lost) = (0, 0);
        match self.other {
            Some(other) if unknown > 0 => {
                others = unknown;
                indices.iter_mut().filter(|index| **index == UNKNOWN).for_each(|index| *index = other);
            }
            _ => lost = unknown,
        }
        let keys: Int32Array = if lost == 0 && nulls.is_none() {
            Int32Array::from(indices)
        } else {
            let present = |(row, index): (usize, i32)| Some(index).filter(|_| index != UNKNOWN && !absent(row));
            indices.into_iter().enumerate().map(present).collect()
        };
        let array = DictionaryArray::<Int32Type>::new(keys, Arc::clone(&self.texts));
        ConvertedColumn { array: Arc::new(array), others, lost }
    }
}

/// The values of a numeric column. Those of nulls are arbitrary.
pub(super) fn values_of<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<&[T::Native]> {
    array.as_primitive_opt::<T>().map(|array| array.values().as_ref())
}
