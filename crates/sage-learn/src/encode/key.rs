//! Categorical columns: from a value to the index of its category.

use serde::{Deserialize, Serialize};

use super::encoding::{EncodingError, Source};
use super::hash::{integer_index, text_index};
use super::scale::present;

/// The most categories of a key: the size limit of a table of the kernel; all indices are exact in `f32`.
const CATEGORY_LIMIT: usize = 1 << 24;

/// The category of a row by one of its columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The index of the column.
    pub column: u32,
    /// How its value becomes a category index.
    pub kind: KeyKind,
}

/// How a value becomes a category index. The last index is for all other values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// One of a list of values.
    OneOf(Categories),
    /// A bucket between edges: below the first, from each up to the next, from the last on. A missing number
    /// (null, NaN or infinite) has the last index.
    Bucket(Vec<f64>),
    /// The hash of a whole number by [`integer_index`] into this many indices, and one more for other values.
    HashInteger(u32),
    /// The hash of a text by [`text_index`] into this many indices, and one more for other values.
    HashText(u32),
}

/// The values of a category, in the order of their indices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Categories {
    /// Texts.
    Texts(Vec<String>),
    /// Whole numbers.
    Integers(Vec<i64>),
}

impl Key {
    /// The number of categories, including the last one for other values.
    pub fn categories(&self) -> u32 {
        let named = match &self.kind {
            KeyKind::OneOf(Categories::Texts(texts)) => texts.len(),
            KeyKind::OneOf(Categories::Integers(integers)) => integers.len(),
            KeyKind::Bucket(edges) => edges.len() + 1,
            KeyKind::HashInteger(count) | KeyKind::HashText(count) => *count as usize,
        };
        u32::try_from(named + 1).unwrap_or(u32::MAX)
    }

    pub(super) fn check(&self) -> Result<(), EncodingError> {
        let distinct = match &self.kind {
            KeyKind::OneOf(Categories::Texts(texts)) => !texts.is_empty() && sorted(texts).is_ok(),
            KeyKind::OneOf(Categories::Integers(integers)) => !integers.is_empty() && sorted(integers).is_ok(),
            KeyKind::Bucket(edges) => {
                let finite = edges.iter().all(|edge| edge.is_finite());
                !edges.is_empty() && finite && edges.windows(2).all(|pair| pair[0] < pair[1])
            }
            KeyKind::HashInteger(count) | KeyKind::HashText(count) => *count > 0,
        };
        if !distinct {
            return Err(EncodingError::Categories);
        }
        if self.categories() as usize <= CATEGORY_LIMIT { Ok(()) } else { Err(EncodingError::TooManyCategories) }
    }

    pub(super) fn prepare(&self) -> Prepared {
        let order = match &self.kind {
            KeyKind::OneOf(Categories::Texts(texts)) => sorted(texts).unwrap_or_default(),
            KeyKind::OneOf(Categories::Integers(integers)) => sorted(integers).unwrap_or_default(),
            _ => Vec::new(),
        };
        Prepared { order, categories: self.categories() }
    }

    /// The category index of a row: below [`Key::categories`] for every row.
    pub(super) fn category(&self, prepared: &Prepared, row: &impl Source) -> u32 {
        let found = match &self.kind {
            KeyKind::OneOf(Categories::Texts(texts)) => {
                row.text(self.column).and_then(|text| prepared.find(|index| texts[index].as_str().cmp(text)))
            }
            KeyKind::OneOf(Categories::Integers(integers)) => {
                row.integer(self.column).and_then(|integer| prepared.find(|index| integers[index].cmp(&integer)))
            }
            KeyKind::Bucket(edges) => row
                .number(self.column)
                .and_then(present)
                .map(|number| edges.partition_point(|edge| *edge <= number) as u32),
            KeyKind::HashInteger(count) => row.integer(self.column).and_then(|integer| integer_index(integer, *count)),
            KeyKind::HashText(count) => row.text(self.column).map(|text| text_index(text, *count)),
        };
        found.unwrap_or(prepared.categories - 1)
    }
}

/// A lookup that is computed once per key, not once per row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prepared {
    /// Category indices in the order of their values.
    order: Vec<u32>,
    /// The number of categories.
    pub(super) categories: u32,
}

impl Prepared {
    fn find(&self, compare: impl Fn(usize) -> std::cmp::Ordering) -> Option<u32> {
        self.order.binary_search_by(|&index| compare(index as usize)).ok().map(|position| self.order[position])
    }
}

/// Category indices in the order of their values; an error if a value is duplicated.
fn sorted<T: Ord>(values: &[T]) -> Result<Vec<u32>, EncodingError> {
    let mut order: Vec<u32> = (0..values.len()).map(|index| index as u32).collect();
    order.sort_by(|&one, &other| values[one as usize].cmp(&values[other as usize]));
    let duplicate = order.windows(2).any(|pair| values[pair[0] as usize] == values[pair[1] as usize]);
    if duplicate { Err(EncodingError::Categories) } else { Ok(order) }
}
