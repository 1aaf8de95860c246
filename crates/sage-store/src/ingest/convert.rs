//! From the type a column was found in to the one it is stored in.
//!
//! Only what loses nothing, or is what everybody means, is converted; the rest is refused by type, before any
//! value is looked at. A single value that cannot be converted becomes absent.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType};

use super::error::IngestError;
use super::source::Typing;
use crate::stream::{Column, Kind, Other};

/// Why a column cannot be stored.
#[derive(Debug)]
pub(super) struct WrongType {
    pub(super) found: String,
    pub(super) allowed: &'static str,
}

impl WrongType {
    pub(super) fn of(self, file: &str, column: &str) -> IngestError {
        let (file, column) = (file.to_owned(), column.to_owned());
        IngestError::Type { file, column, found: self.found, allowed: self.allowed }
    }
}

/// A declared column with what is needed to convert what comes under its name.
pub(super) struct Converter {
    kind: Kind,
    storage: DataType,
    categories: Option<Categories>,
}

/// A column in the type it is stored in, or by the numbers of its categories.
pub(super) struct Converted {
    pub(super) array: ArrayRef,
    /// How many texts were taken as the category for others.
    pub(super) others: usize,
    /// How many values were there and are none of the declared type, or of no category.
    pub(super) lost: usize,
}

struct Categories {
    /// The texts in the declared order, shared by all batches.
    texts: ArrayRef,
    /// The texts in their own order, with their places.
    sorted: Vec<(String, i32)>,
    other: Option<i32>,
}

/// The place of a text that is none of the categories.
const NOWHERE: i32 = -1;

impl Converter {
    pub(super) fn new(column: &Column) -> Self {
        let categories = match &column.kind {
            Kind::Category { categories, other } => Some(Categories::new(categories, other)),
            _ => None,
        };
        Self { kind: column.kind.clone(), storage: column.storage(), categories }
    }

    /// What types may come, for messages.
    fn allowed(&self) -> &'static str {
        match self.kind {
            Kind::Number { .. } => "an integer, a float or a decimal",
            Kind::Integer { .. } => "an integer, or a float with whole numbers",
            Kind::Boolean => "a boolean",
            Kind::Time { .. } => "a timestamp, a date, or a text with one",
            Kind::Category { .. } | Kind::Text { .. } => "a text, an integer or a boolean",
        }
    }

    fn takes(&self, found: &DataType, typing: Typing) -> bool {
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
            Kind::Category { .. } | Kind::Text { .. } => {
                text || found.is_integer() || matches!(found, DataType::Boolean)
            }
        }
    }

    /// Whether columns of this type can be converted, whatever is in them.
    pub(super) fn check(&self, found: &DataType, typing: Typing) -> Result<(), WrongType> {
        let takes = self.takes(plain(found), typing);
        if takes { Ok(()) } else { Err(WrongType { found: found.to_string(), allowed: self.allowed() }) }
    }

    pub(super) fn convert(&self, array: &ArrayRef, typing: Typing) -> Result<Converted, WrongType> {
        self.check(array.data_type(), typing)?;
        let plain = plain(array.data_type());
        let wrong = || WrongType { found: array.data_type().to_string(), allowed: self.allowed() };
        if let Some(categories) = &self.categories {
            return categories.convert(array).ok_or_else(wrong);
        }
        let before = array.logical_null_count();
        let array = match (&self.kind, plain) {
            (Kind::Integer { .. }, _) => whole_numbers(array, plain).ok_or_else(wrong)?,
            (Kind::Time { .. }, _) => instants(array, plain).ok_or_else(wrong)?,
            (Kind::Text { longest }, DataType::Utf8View) => texts(array, *longest as usize).ok_or_else(wrong)?,
            _ => cast(array, &self.storage).ok_or_else(wrong)?,
        };
        let lost = array.null_count().saturating_sub(before);
        Ok(Converted { array, others: 0, lost })
    }
}

/// The type of the values, which may be kept in a dictionary.
fn plain(found: &DataType) -> &DataType {
    match found {
        DataType::Dictionary(_, values) => values.as_ref(),
        found => found,
    }
}

/// Texts of their own, each cut where it is known to be too long: copies of a long one could fill the memory.
fn texts(array: &ArrayRef, longest: usize) -> Option<ArrayRef> {
    let texts = array.as_string_view_opt()?.iter();
    let cut = |text: &'_ str| text.ceil_char_boundary(longest.saturating_add(1));
    Some(Arc::new(texts.map(|text| text.map(|text| &text[..cut(text)])).collect::<StringArray>()))
}

/// Casts, and leaves out what cannot be cast.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Null => Some(new_null_array(to, array.len())),
        found if found == to => Some(Arc::clone(array)),
        _ => cast_with_options(array, to, &CastOptions { safe: true, ..CastOptions::default() }).ok(),
    }
}

/// Instants in UTC. A timestamp counts from 1970 in UTC whatever zone it is shown in, and one without a zone is
/// taken to be in UTC, so that only texts have a zone to be read.
fn instants(array: &ArrayRef, plain: &DataType) -> Option<ArrayRef> {
    let zone = if matches!(plain, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null) {
        None
    } else {
        Some("+00:00".into())
    };
    let instants = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    let instants = instants.as_primitive_opt::<TimestampMicrosecondType>()?.clone();
    Some(Arc::new(instants.with_timezone("UTC")))
}

/// Whole numbers, also those that a program with absent values had to keep as floats, as `3.0`.
fn whole_numbers(array: &ArrayRef, plain: &DataType) -> Option<ArrayRef> {
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
        exact.or_else(|| whole_number(floats.is_valid(row).then(|| floats.value(row))?))
    });
    Some(Arc::new(whole.collect::<Int64Array>()))
}

/// A float as the integer it is, if it is one that floats count exactly.
fn whole_number(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.trunc() == float && float.abs() <= EXACT).then_some(float as i64)
}

impl Categories {
    fn new(categories: &[String], other: &Other) -> Self {
        let places = 0..i32::try_from(categories.len()).unwrap_or(i32::MAX);
        let mut sorted: Vec<(String, i32)> = categories.iter().cloned().zip(places).collect();
        sorted.sort_unstable();
        let mut list = Self { texts: Arc::new(StringArray::from(categories.to_vec())), sorted, other: None };
        if let Other::Category(text) = other {
            list.other = Some(list.place(text)).filter(|&place| place != NOWHERE);
        }
        list
    }

    fn place(&self, text: &str) -> i32 {
        let found = self.sorted.binary_search_by(|(category, _)| category.as_str().cmp(text));
        found.map_or(NOWHERE, |at| self.sorted[at].1)
    }

    fn convert(&self, array: &ArrayRef) -> Option<Converted> {
        let places: Vec<i32> = match array.data_type() {
            DataType::Dictionary(key, _) if **key == DataType::Int32 => {
                let numbered = array.as_dictionary_opt::<Int32Type>()?;
                let places = self.places(&cast(numbered.values(), &DataType::Utf8)?)?;
                let keys = numbered.keys();
                // Under an absent key stands any number; it is masked below.
                let at =
                    |&key: &i32| places.get(usize::try_from(key).unwrap_or(usize::MAX)).copied().unwrap_or(NOWHERE);
                keys.values().iter().map(at).collect()
            }
            _ => self.places(&cast(array, &DataType::Utf8)?)?,
        };
        Some(self.collect(places, array))
    }

    fn places(&self, texts: &ArrayRef) -> Option<Vec<i32>> {
        let texts = texts.as_string_opt::<i32>()?;
        let mut last: (&str, i32) = ("", NOWHERE);
        let places = (0..texts.len()).map(|row| {
            let text = texts.value(row);
            if text != last.0 {
                last = (text, self.place(text));
            }
            last.1
        });
        Some(places.collect())
    }

    /// Numbers of categories, where nothing is absent that was not, but for texts of no category.
    fn collect(&self, mut places: Vec<i32>, array: &ArrayRef) -> Converted {
        let nulls = array.logical_nulls();
        let absent = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let strangers = places.iter().enumerate().filter(|(row, place)| **place == NOWHERE && !absent(*row)).count();
        let (mut others, mut lost) = (0, 0);
        match self.other {
            Some(other) if strangers > 0 => {
                others = strangers;
                places.iter_mut().filter(|place| **place == NOWHERE).for_each(|place| *place = other);
            }
            _ => lost = strangers,
        }
        let keys: Int32Array = if lost == 0 && nulls.is_none() {
            Int32Array::from(places)
        } else {
            let present = |(row, place): (usize, i32)| Some(place).filter(|_| place != NOWHERE && !absent(row));
            places.into_iter().enumerate().map(present).collect()
        };
        let array = DictionaryArray::<Int32Type>::new(keys, Arc::clone(&self.texts));
        Converted { array: Arc::new(array), others, lost }
    }
}

/// The values of a column of numbers, with what stands under absent ones.
pub(super) fn values_of<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<&[T::Native]> {
    array.as_primitive_opt::<T>().map(|array| array.values().as_ref())
}
