//! Group keys: the list of groups is public and known before any row is read.
//!
//! The set of keys that occur in rows is private, so a result has every group of the declared list, including empty
//! ones, and rows with a key outside the list belong to no group.

use std::collections::BTreeMap;

use sage_sql::{BinaryOperator, Case, Expr};

use super::refusal::PrivateQueryRefusal;
use super::span::{is_truth, literal_number, literal_text, time_part, time_part_range, value_span};
use crate::read::Row;
use crate::stream::{Kind, StreamFile};

/// The maximum number of groups, so that a result fits into a log record.
pub(super) const MAX_GROUPS: u32 = 10_000;

const PUBLIC_KEYS: &str = "the list of groups must be known without reading rows: group by a column with categories, an \
                     integer with declared bounds, a boolean, a part of a time such as extract(hour from ...), \
                     or a bucket such as floor(distance / 10)";

/// The list of keys of one grouping expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Keys {
    Texts(Vec<String>),
    /// The integers from the first to the second.
    Numbers(i64, i64),
    Truth,
}

/// The kind of a group key. Tests that must cover every kind match on it exhaustively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// A declared list of texts.
    Texts,
    /// A range of integers.
    Numbers,
    /// True and false.
    Truth,
}

impl Keys {
    pub(super) const fn kind(&self) -> KeyKind {
        match self {
            Self::Texts(_) => KeyKind::Texts,
            Self::Numbers(..) => KeyKind::Numbers,
            Self::Truth => KeyKind::Truth,
        }
    }

    /// The keys that an expression can have.
    ///
    /// # Errors
    /// When the list of its values is not public, or too long.
    pub(super) fn from_expression(expression: &Expr, file: &StreamFile) -> Result<Self, PrivateQueryRefusal> {
        let keys = match expression {
            Expr::Column(name) => match file.column(&name.name).map(|(_, column)| &column.kind) {
                Some(Kind::Category { categories, .. }) => Self::Texts(categories.clone()),
                Some(Kind::Boolean) => Self::Truth,
                Some(Kind::Integer { min, max, .. }) => Self::Numbers(*min, *max),
                Some(Kind::Time { .. }) => {
                    return Err(PrivateQueryRefusal::new(
                        name,
                        format!("a time column cannot be a group key; {PUBLIC_KEYS}"),
                    ));
                }
                Some(Kind::Text { .. } | Kind::Hashed) => {
                    let why = "the values of a text column are private; declare the column with type = \"category\" and \
                               its list";
                    return Err(PrivateQueryRefusal::new(name, why));
                }
                Some(Kind::Number { .. }) => return Err(PrivateQueryRefusal::new(name, PUBLIC_KEYS)),
                // `value_span` reports an unknown column.
                None => return value_span(expression, file).and(Err(PrivateQueryRefusal::new(name, PUBLIC_KEYS))),
            },
            Expr::Case(case) if case_texts(case).is_some() => Self::Texts(case_texts(case).unwrap_or_default()),
            other if is_truth(other, file) => Self::Truth,
            other => match time_part(other) {
                Some(part) => {
                    let why = "the parts of times that can be group keys are hour, minute, second, dow, isodow, day, doy, \
                               week, month and quarter";
                    let (low, high) = time_part_range(part).ok_or_else(|| PrivateQueryRefusal::new(other, why))?;
                    Self::Numbers(low, high)
                }
                None if is_whole(other, file) => Self::between(other, file)?,
                None => return Err(PrivateQueryRefusal::new(other, PUBLIC_KEYS)),
            },
        };
        match keys.count() {
            Some(1..=MAX_GROUPS) => Ok(keys),
            _ => {
                let why = format!(
                    "this makes more than {MAX_GROUPS} groups; use wider ones, as in floor({expression} / 100)"
                );
                Err(PrivateQueryRefusal::new(expression, why))
            }
        }
    }

    fn between(expression: &Expr, file: &StreamFile) -> Result<Self, PrivateQueryRefusal> {
        let (low, high) = value_span(expression, file)?;
        if !(low.is_finite() && high.is_finite() && low.abs() < 9e15 && high.abs() < 9e15) {
            return Err(PrivateQueryRefusal::new(expression, PUBLIC_KEYS));
        }
        Ok(Self::Numbers(low.floor() as i64, high.ceil() as i64))
    }

    /// The number of keys; `None` if it exceeds `u32`.
    pub(super) fn count(&self) -> Option<u32> {
        match self {
            Self::Texts(texts) => u32::try_from(texts.len()).ok(),
            Self::Numbers(low, high) => u32::try_from(high.checked_sub(*low)?.checked_add(1)?).ok(),
            Self::Truth => Some(2),
        }
    }

    /// The key at an index, as text.
    pub(super) fn name(&self, index: u32) -> String {
        match self {
            Self::Texts(texts) => texts.get(index as usize).cloned().unwrap_or_default(),
            Self::Numbers(low, _) => (low + i64::from(index)).to_string(),
            Self::Truth => (index == 1).to_string(),
        }
    }

    pub(super) fn key_index(&self) -> KeyIndex<'_> {
        match self {
            Self::Texts(texts) => KeyIndex::Texts(texts.iter().map(String::as_str).zip(0..).collect()),
            Self::Numbers(low, high) => KeyIndex::Numbers(*low, *high),
            Self::Truth => KeyIndex::Truth,
        }
    }
}

/// Finds the index of a row's key in the list.
pub(super) enum KeyIndex<'keys> {
    Texts(BTreeMap<&'keys str, u32>),
    Numbers(i64, i64),
    Truth,
}

impl KeyIndex<'_> {
    pub(super) fn find(&self, row: Row<'_>, column: usize) -> Option<u32> {
        match self {
            Self::Texts(indices) => row.text(column).and_then(|text| indices.get(text)).copied(),
            Self::Numbers(low, high) => {
                let key = row.integer(column).filter(|key| (low..=high).contains(&key))?;
                u32::try_from(key - low).ok()
            }
            Self::Truth => row.boolean(column).map(u32::from),
        }
    }
}

/// The texts that a CASE expression can return, if all are literals.
fn case_texts(case: &Case) -> Option<Vec<String>> {
    let mut texts: Vec<String> = Vec::new();
    for result in case.branches.iter().map(|(_, result)| result).chain(case.otherwise.as_deref()) {
        if *result == Expr::Null {
            continue;
        }
        let text = literal_text(result)?;
        if !texts.iter().any(|known| known == text) {
            texts.push(text.to_owned());
        }
    }
    (!texts.is_empty()).then_some(texts)
}

/// Whether all values of the expression are integers.
fn is_whole(expression: &Expr, file: &StreamFile) -> bool {
    let both = |left: &Expr, right: &Expr| is_whole(left, file) && is_whole(right, file);
    match expression {
        Expr::Column(name) => {
            file.column(&name.name).is_some_and(|(_, column)| matches!(column.kind, Kind::Integer { .. }))
        }
        Expr::Binary(
            BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Multiply | BinaryOperator::Remainder,
            left,
            right,
        ) => both(left, right),
        Expr::Call(name, arguments) => match (name.as_str(), arguments.as_slice()) {
            ("floor" | "ceil" | "ceiling" | "round" | "trunc", [_]) => true,
            ("least" | "greatest", parts) => parts.iter().all(|part| is_whole(part, file)),
            _ => time_part(expression).is_some(),
        },
        other => literal_number(other).is_some_and(|number| number.fract() == 0.0),
    }
}
