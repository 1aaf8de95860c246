//! Public keys: which groups there are is known before any row is seen.
//!
//! Which keys occur among rows is itself something about rows, so every group of a declared list is in the answer,
//! the empty ones too, and rows whose key is not in the list are in no group.

use std::collections::BTreeMap;

use sage_sql::{BinaryOperator, Case, Expr};

use super::refusal::QuestionRefusal;
use super::span::{asked_part, is_truth, number_of, part_of_time, span, text_of};
use crate::read::Row;
use crate::stream::{Kind, StreamFile};

/// More groups than anybody reads, and an answer that still fits into an event of the log.
pub(super) const GROUPS: u32 = 10_000;

const WHOLE: &str = "which groups there are must be known before any row is seen: group by a column with categories, a \
                     whole number with declared bounds, a truth value, a part of a time such as extract(hour from ...), \
                     or a bucket such as floor(distance / 10)";

/// The keys that there are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Keys {
    Texts(Vec<String>),
    /// Whole numbers from the one to the other.
    Numbers(i64, i64),
    Truth,
}

/// The kind of a grouping key. Tests that must cover every kind match on it exhaustively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// A declared list of texts.
    Texts,
    /// A range of whole numbers.
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

    /// The keys of an expression.
    ///
    /// # Errors
    /// When its values are not known beforehand, or are too many.
    pub(super) fn of(expression: &Expr, file: &StreamFile) -> Result<Self, QuestionRefusal> {
        let keys = match expression {
            Expr::Column(name) => match file.column(&name.name).map(|(_, column)| &column.kind) {
                Some(Kind::Category { categories, .. }) => Self::Texts(categories.clone()),
                Some(Kind::Boolean) => Self::Truth,
                Some(Kind::Integer { min, max, .. }) => Self::Numbers(*min, *max),
                Some(Kind::Time { .. }) => {
                    return Err(QuestionRefusal::new(name, format!("a time has no list of values; {WHOLE}")));
                }
                Some(Kind::Text { .. }) => {
                    let why =
                        "the values of a text column are private; declare it with type = \"category\" and its list";
                    return Err(QuestionRefusal::new(name, why));
                }
                Some(Kind::Number { .. }) => return Err(QuestionRefusal::new(name, WHOLE)),
                // An unknown column is named by whoever looks for its bounds.
                None => return span(expression, file).and(Err(QuestionRefusal::new(name, WHOLE))),
            },
            Expr::Case(case) if named(case).is_some() => Self::Texts(named(case).unwrap_or_default()),
            other if is_truth(other, file) => Self::Truth,
            other => match asked_part(other) {
                Some(part) => {
                    let why = "parts of times with a list of values are hour, minute, second, dow, isodow, day, doy, \
                               week, month and quarter";
                    let (low, high) = part_of_time(part).ok_or_else(|| QuestionRefusal::new(other, why))?;
                    Self::Numbers(low, high)
                }
                None if is_whole(other, file) => Self::between(other, file)?,
                None => return Err(QuestionRefusal::new(other, WHOLE)),
            },
        };
        match keys.count() {
            Some(1..=GROUPS) => Ok(keys),
            _ => {
                let why =
                    format!("this makes more than {GROUPS} groups; take wider ones, as in floor({expression} / 100)");
                Err(QuestionRefusal::new(expression, why))
            }
        }
    }

    fn between(expression: &Expr, file: &StreamFile) -> Result<Self, QuestionRefusal> {
        let (low, high) = span(expression, file)?;
        if !(low.is_finite() && high.is_finite() && low.abs() < 9e15 && high.abs() < 9e15) {
            return Err(QuestionRefusal::new(expression, WHOLE));
        }
        Ok(Self::Numbers(low.floor() as i64, high.ceil() as i64))
    }

    /// How many there are; nothing if that is no number to speak of.
    pub(super) fn count(&self) -> Option<u32> {
        match self {
            Self::Texts(texts) => u32::try_from(texts.len()).ok(),
            Self::Numbers(low, high) => u32::try_from(high.checked_sub(*low)?.checked_add(1)?).ok(),
            Self::Truth => Some(2),
        }
    }

    /// The key at a place, as text.
    pub(super) fn name(&self, place: u32) -> String {
        match self {
            Self::Texts(texts) => texts.get(place as usize).cloned().unwrap_or_default(),
            Self::Numbers(low, _) => (low + i64::from(place)).to_string(),
            Self::Truth => (place == 1).to_string(),
        }
    }

    pub(super) fn finder(&self) -> Finder<'_> {
        match self {
            Self::Texts(texts) => Finder::Texts(texts.iter().map(String::as_str).zip(0..).collect()),
            Self::Numbers(low, high) => Finder::Numbers(*low, *high),
            Self::Truth => Finder::Truth,
        }
    }
}

/// Finds the place of a row's key.
pub(super) enum Finder<'keys> {
    Texts(BTreeMap<&'keys str, u32>),
    Numbers(i64, i64),
    Truth,
}

impl Finder<'_> {
    pub(super) fn of(&self, row: Row<'_>, column: usize) -> Option<u32> {
        match self {
            Self::Texts(places) => row.text(column).and_then(|text| places.get(text)).copied(),
            Self::Numbers(low, high) => {
                let key = row.integer(column).filter(|key| (low..=high).contains(&key))?;
                u32::try_from(key - low).ok()
            }
            Self::Truth => row.boolean(column).map(u32::from),
        }
    }
}

/// The texts that a CASE chooses from, if all of them are written out.
fn named(case: &Case) -> Option<Vec<String>> {
    let mut texts: Vec<String> = Vec::new();
    for result in case.branches.iter().map(|(_, result)| result).chain(case.otherwise.as_deref()) {
        if *result == Expr::Null {
            continue;
        }
        let text = text_of(result)?;
        if !texts.iter().any(|known| known == text) {
            texts.push(text.to_owned());
        }
    }
    (!texts.is_empty()).then_some(texts)
}

/// Whether all values of the expression are whole numbers.
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
            _ => asked_part(expression).is_some(),
        },
        other => number_of(other).is_some_and(|number| number.fract() == 0.0),
    }
}
