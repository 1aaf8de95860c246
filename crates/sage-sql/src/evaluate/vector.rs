//! Values of a batch: one value for all rows, or one per row.

use arrow::array::{Array, BooleanArray, StringViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;

use super::{Select, text_array};

/// Numbers or times. A null slot holds an arbitrary value, on which no result depends.
#[derive(Clone, Debug)]
pub(crate) enum Vector<T: ArrowNativeType> {
    Constant(Option<T>),
    Rows(ScalarBuffer<T>, Option<NullBuffer>),
}

/// Booleans.
#[derive(Clone, Debug)]
pub(crate) enum Booleans {
    Constant(Option<bool>),
    Rows(BooleanArray),
}

/// Texts.
#[derive(Clone, Debug)]
pub(crate) enum Texts {
    Constant(Option<String>),
    Rows(StringViewArray),
}

impl<T: ArrowNativeType> Vector<T> {
    pub(crate) fn into_rows(self, rows: usize) -> (ScalarBuffer<T>, Option<NullBuffer>) {
        match self {
            Self::Constant(Some(value)) => (vec![value; rows].into(), None),
            Self::Constant(None) => (vec![T::default(); rows].into(), Some(NullBuffer::new_null(rows))),
            Self::Rows(values, nulls) => (values, nulls),
        }
    }

    /// Applies a total function to each value.
    #[inline]
    pub(crate) fn map<U: ArrowNativeType>(self, apply: impl Fn(T) -> U) -> Vector<U> {
        match self {
            Self::Constant(value) => Vector::Constant(value.map(apply)),
            Self::Rows(values, nulls) => Vector::Rows(values.iter().map(|&value| apply(value)).collect(), nulls),
        }
    }

    /// Keeps the values for which the predicate holds; null elsewhere.
    #[inline]
    pub(crate) fn filter(self, holds: impl Fn(T) -> bool) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value.filter(|&value| holds(value))),
            Self::Rows(values, nulls) => {
                let known = BooleanBuffer::collect_bool(values.len(), |row| holds(values[row]));
                let nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(known)));
                Self::Rows(values, nulls)
            }
        }
    }

    /// Applies a total function to pairs of values; null where one of them is.
    #[inline]
    pub(crate) fn zip(self, other: Self, apply: impl Fn(T, T) -> T) -> Self {
        match (self, other) {
            (Self::Constant(None), _) | (_, Self::Constant(None)) => Self::Constant(None),
            (Self::Constant(Some(left)), Self::Constant(Some(right))) => Self::Constant(Some(apply(left, right))),
            (Self::Constant(Some(left)), right) => right.map(|right| apply(left, right)),
            (left, Self::Constant(Some(right))) => left.map(|left| apply(left, right)),
            (Self::Rows(left, left_nulls), Self::Rows(right, right_nulls)) => {
                let values = left.iter().zip(right.iter()).map(|(&left, &right)| apply(left, right)).collect();
                Self::Rows(values, NullBuffer::union(left_nulls.as_ref(), right_nulls.as_ref()))
            }
        }
    }

    /// Applies a total predicate to each value; null where the value is.
    #[inline]
    pub(crate) fn test(&self, holds: impl Fn(T) -> bool) -> Booleans {
        match self {
            Self::Constant(value) => Booleans::Constant(value.map(holds)),
            Self::Rows(values, nulls) => {
                let found = BooleanBuffer::collect_bool(values.len(), |row| holds(values[row]));
                Booleans::Rows(BooleanArray::new(found, nulls.clone()))
            }
        }
    }

    /// Applies a total predicate to pairs of values; null where one of them is.
    #[inline]
    pub(crate) fn compare(&self, other: &Self, holds: impl Fn(T, T) -> bool) -> Booleans {
        match (self, other) {
            (Self::Constant(None), _) | (_, Self::Constant(None)) => Booleans::Constant(None),
            (Self::Constant(Some(left)), right) => right.test(|right| holds(*left, right)),
            (left, Self::Constant(Some(right))) => left.test(|left| holds(left, *right)),
            (Self::Rows(left, left_nulls), Self::Rows(right, right_nulls)) => {
                // Both have the same length; the explicit bound lets the compiler drop bounds checks.
                let (left, right) = (&left[..], &right[..left.len().min(right.len())]);
                let found = BooleanBuffer::collect_bool(right.len(), |row| holds(left[row], right[row]));
                let nulls = NullBuffer::union(left_nulls.as_ref(), right_nulls.as_ref());
                Booleans::Rows(BooleanArray::new(found, nulls))
            }
        }
    }

    fn is_valid(&self, row: usize) -> bool {
        match self {
            Self::Constant(value) => value.is_some(),
            Self::Rows(_, nulls) => nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)),
        }
    }

    fn always_valid(&self) -> bool {
        matches!(self, Self::Constant(Some(_)) | Self::Rows(_, None))
    }
}

impl<T: ArrowNativeType> Select for Vector<T> {
    fn select(condition: &Booleans, then: Self, otherwise: Self, rows: usize) -> Self {
        if let Booleans::Constant(chosen) = condition {
            return if *chosen == Some(true) { then } else { otherwise };
        }
        let chosen = condition.true_bits(rows);
        let nulls = match then.always_valid() && otherwise.always_valid() {
            true => None,
            false => Some(NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| {
                if chosen.value(row) { then.is_valid(row) } else { otherwise.is_valid(row) }
            }))),
        };
        let pick = |of: &Self| match of {
            Self::Constant(value) => Err(value.unwrap_or_default()),
            Self::Rows(values, _) => Ok(values.clone()),
        };
        let values: ScalarBuffer<T> = match (pick(&then), pick(&otherwise)) {
            (Ok(one), Ok(two)) => select_values(&chosen, |row| one[row], |row| two[row]),
            (Ok(one), Err(two)) => select_values(&chosen, |row| one[row], |_| two),
            (Err(one), Ok(two)) => select_values(&chosen, |_| one, |row| two[row]),
            (Err(one), Err(two)) => select_values(&chosen, |_| one, |_| two),
        };
        Self::Rows(values, nulls)
    }

    fn known(&self) -> Booleans {
        match self {
            Self::Constant(value) => Booleans::Constant(Some(value.is_some())),
            Self::Rows(_, None) => Booleans::Constant(Some(true)),
            Self::Rows(_, Some(nulls)) => Booleans::Rows(BooleanArray::new(nulls.inner().clone(), None)),
        }
    }
}

/// Selects one of two values for each row; both are read.
#[inline]
fn select_values<T: ArrowNativeType>(
    chosen: &BooleanBuffer, then: impl Fn(usize) -> T, otherwise: impl Fn(usize) -> T,
) -> ScalarBuffer<T> {
    let rows = 0..chosen.len();
    rows.map(|row| {
        let (then, otherwise) = (then(row), otherwise(row));
        if chosen.value(row) { then } else { otherwise }
    })
    .collect()
}

impl Booleans {
    pub(crate) fn into_array(self, rows: usize) -> BooleanArray {
        match self {
            Self::Rows(array) => array,
            Self::Constant(Some(true)) => BooleanArray::new(BooleanBuffer::new_set(rows), None),
            Self::Constant(Some(false)) => BooleanArray::new(BooleanBuffer::new_unset(rows), None),
            Self::Constant(None) => BooleanArray::new(BooleanBuffer::new_unset(rows), Some(NullBuffer::new_null(rows))),
        }
    }

    /// The rows that are true.
    pub(crate) fn true_rows(self, rows: usize) -> BooleanBuffer {
        match self {
            Self::Constant(Some(true)) => BooleanBuffer::new_set(rows),
            Self::Constant(_) => BooleanBuffer::new_unset(rows),
            Self::Rows(array) => match array.nulls() {
                None => array.values().clone(),
                Some(nulls) => array.values() & nulls.inner(),
            },
        }
    }

    fn true_bits(&self, rows: usize) -> BooleanBuffer {
        self.clone().true_rows(rows)
    }

    /// Maps null to false.
    pub(crate) fn null_as_false(self, rows: usize) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(Some(value == Some(true))),
            rest => Self::Rows(BooleanArray::new(rest.true_rows(rows), None)),
        }
    }

    pub(crate) fn not(self) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value.map(|value| !value)),
            Self::Rows(array) => Self::Rows(BooleanArray::new(!array.values(), array.nulls().cloned())),
        }
    }

    /// Kleene AND: false if one operand is false, otherwise null if one is null.
    pub(crate) fn both(left: Self, right: Self) -> Self {
        match (left, right) {
            (Self::Constant(left), Self::Constant(right)) => Self::Constant(match (left, right) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }),
            (Self::Constant(Some(true)), rest) | (rest, Self::Constant(Some(true))) => rest,
            (Self::Constant(Some(false)), _) | (_, Self::Constant(Some(false))) => Self::Constant(Some(false)),
            (Self::Constant(None), Self::Rows(rest)) | (Self::Rows(rest), Self::Constant(None)) => {
                // False where the other is false, null elsewhere.
                let false_rows = false_rows(&rest);
                Self::Rows(BooleanArray::new(!&false_rows, Some(NullBuffer::new(false_rows))))
            }
            (Self::Rows(left), Self::Rows(right)) => {
                let values = left.values() & right.values();
                let nulls = match (left.nulls(), right.nulls()) {
                    (None, None) => None,
                    _ => {
                        let known = &known_rows(&left) & &known_rows(&right);
                        Some(NullBuffer::new(&(&known | &false_rows(&left)) | &false_rows(&right)))
                    }
                };
                // A slot with one false operand is false, whatever the other operand's null slot holds.
                let values = match nulls {
                    None => values,
                    Some(_) => &(&values & &!&false_rows(&left)) & &!&false_rows(&right),
                };
                Self::Rows(BooleanArray::new(values, nulls))
            }
        }
    }

    /// Kleene OR, by De Morgan's law.
    pub(crate) fn either(left: Self, right: Self) -> Self {
        Self::both(left.not(), right.not()).not()
    }
}

/// The rows that are not null.
fn known_rows(array: &BooleanArray) -> BooleanBuffer {
    array.nulls().map_or_else(|| BooleanBuffer::new_set(array.len()), |nulls| nulls.inner().clone())
}

/// The rows that are false.
fn false_rows(array: &BooleanArray) -> BooleanBuffer {
    &!array.values() & &known_rows(array)
}

impl Select for Booleans {
    fn select(condition: &Booleans, then: Self, otherwise: Self, rows: usize) -> Self {
        if let Self::Constant(chosen) = condition {
            return if *chosen == Some(true) { then } else { otherwise };
        }
        let chosen = condition.true_bits(rows);
        let (then, otherwise) = (then.into_array(rows), otherwise.into_array(rows));
        let mixed = |one: &BooleanBuffer, two: &BooleanBuffer| &(&chosen & one) | &(&!&chosen & two);
        let nulls = match (then.nulls(), otherwise.nulls()) {
            (None, None) => None,
            _ => Some(NullBuffer::new(mixed(&known_rows(&then), &known_rows(&otherwise)))),
        };
        Self::Rows(BooleanArray::new(mixed(then.values(), otherwise.values()), nulls))
    }

    fn known(&self) -> Booleans {
        match self {
            Self::Constant(value) => Self::Constant(Some(value.is_some())),
            Self::Rows(array) => match array.nulls() {
                None => Self::Constant(Some(true)),
                Some(nulls) => Self::Rows(BooleanArray::new(nulls.inner().clone(), None)),
            },
        }
    }
}

impl Texts {
    pub(crate) fn into_array(self, rows: usize) -> StringViewArray {
        match self {
            Self::Rows(array) => array,
            Self::Constant(value) => text_array((0..rows).map(|_| value.as_deref())),
        }
    }

    /// The text of a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Constant(value) => value.as_deref(),
            Self::Rows(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }

    /// Applies a total function from texts to numbers.
    pub(crate) fn map_to<T: ArrowNativeType>(&self, measure: impl Fn(&str) -> T) -> Vector<T> {
        match self {
            Self::Constant(value) => Vector::Constant(value.as_deref().map(measure)),
            Self::Rows(array) => {
                let values = (0..array.len()).map(|row| self.get(row).map_or(T::default(), &measure)).collect();
                Vector::Rows(values, array.nulls().cloned())
            }
        }
    }

    /// Applies a function from texts to numbers or null.
    pub(crate) fn parsed<T: ArrowNativeType>(&self, parse: impl Fn(&str) -> Option<T>) -> Vector<T> {
        match self {
            Self::Constant(value) => Vector::Constant(value.as_deref().and_then(parse)),
            Self::Rows(array) => {
                let found: Vec<Option<T>> = (0..array.len()).map(|row| self.get(row).and_then(&parse)).collect();
                let known = BooleanBuffer::collect_bool(found.len(), |row| found[row].is_some());
                let values = found.into_iter().map(Option::unwrap_or_default).collect();
                Vector::Rows(values, Some(NullBuffer::new(known)))
            }
        }
    }

    /// Applies a total predicate to each text; null where the text is.
    pub(crate) fn test(&self, holds: impl Fn(&str) -> bool) -> Booleans {
        match self {
            Self::Constant(value) => Booleans::Constant(value.as_deref().map(holds)),
            Self::Rows(array) => {
                let found = BooleanBuffer::collect_bool(array.len(), |row| holds(array.value(row)));
                Booleans::Rows(BooleanArray::new(found, array.nulls().cloned()))
            }
        }
    }

    /// Applies a total predicate to pairs of texts; null where one of them is.
    pub(crate) fn compare(&self, other: &Self, rows: usize, holds: impl Fn(&str, &str) -> bool) -> Booleans {
        match (self, other) {
            (Self::Constant(None), _) | (_, Self::Constant(None)) => Booleans::Constant(None),
            (Self::Constant(Some(left)), right) => right.test(|right| holds(left, right)),
            (left, Self::Constant(Some(right))) => left.test(|left| holds(left, right)),
            (Self::Rows(left), Self::Rows(right)) => {
                let found = BooleanBuffer::collect_bool(rows, |row| holds(left.value(row), right.value(row)));
                Booleans::Rows(BooleanArray::new(found, NullBuffer::union(left.nulls(), right.nulls())))
            }
        }
    }

    /// Applies a function from texts to texts or null.
    pub(crate) fn map(&self, apply: impl Fn(&str) -> Option<String>) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value.as_deref().and_then(apply)),
            Self::Rows(array) => {
                let mut builder = arrow::array::StringViewBuilder::with_capacity(array.len());
                for row in 0..array.len() {
                    builder.append_option(self.get(row).and_then(&apply));
                }
                Self::Rows(builder.finish())
            }
        }
    }
}

impl Select for Texts {
    fn select(condition: &Booleans, then: Self, otherwise: Self, rows: usize) -> Self {
        if let Booleans::Constant(chosen) = condition {
            return if *chosen == Some(true) { then } else { otherwise };
        }
        let chosen = condition.true_bits(rows);
        let pick = |row: usize| if chosen.value(row) { then.get(row) } else { otherwise.get(row) };
        Self::Rows(text_array((0..rows).map(pick)))
    }

    fn known(&self) -> Booleans {
        match self {
            Self::Constant(value) => Booleans::Constant(Some(value.is_some())),
            Self::Rows(array) => match array.nulls() {
                None => Booleans::Constant(Some(true)),
                Some(nulls) => Booleans::Rows(BooleanArray::new(nulls.inner().clone(), None)),
            },
        }
    }
}
