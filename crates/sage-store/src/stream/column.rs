//! What a column may hold: its type and its bounds, as declared before any row is seen.
//!
//! Bounds are never taken from rows: a bound guessed from data is a release.

use arrow::datatypes::{DataType, TimeUnit};

use super::key::time_of;
use crate::document::{DocumentError, Section};

/// What becomes of a value outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The nearest bound is stored instead.
    Clamp,
    /// The row is left out.
    Drop,
}

/// What becomes of a text that is none of the categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Other {
    /// The row is left out.
    Drop,
    /// It is stored as this category, which is one of the list.
    Category(String),
}

/// The type of a column and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A finite real number.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// What becomes of others. What is no number at all counts as absent.
        outside: Outside,
    },
    /// A whole number.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
        /// What becomes of others.
        outside: Outside,
    },
    /// True or false.
    Boolean,
    /// An instant, to the microsecond.
    Time {
        /// The first instant and the first after the last, in microseconds since 1970, UTC.
        span: (i64, i64),
    },
    /// One of a list of texts.
    Category {
        /// The list.
        categories: Vec<String>,
        /// What becomes of others.
        other: Other,
    },
    /// Any text.
    Text {
        /// The most bytes it may have. Rows with longer ones are left out.
        longest: u32,
    },
}

/// A column of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, in the files that come in and in the parts.
    pub name: String,
    /// What it may hold.
    pub kind: Kind,
    /// Whether it may be absent. Where it may not, rows without it are left out.
    pub nullable: bool,
}

/// Years 1 to 9999, which every reader of the parts can show.
pub(super) const ALL_TIME: (i64, i64) = (-62_135_596_800_000_000, 253_402_300_800_000_000);

const LONGEST_DEFAULT: i64 = 1024;
const LONGEST_LIMIT: i64 = 1 << 20;
/// As many categories as a block of its own for each would still be sensible with, and then some.
const CATEGORIES_LIMIT: usize = 100_000;
const NAME_LIMIT: usize = 128;
const NAME: &str = "a text of 1 to 128 characters that neither starts with `_` nor holds a control character";

#[derive(Clone, Copy)]
enum Word {
    Number,
    Integer,
    Boolean,
    Time,
    Category,
    Text,
}

const TYPES: [(&str, Word); 6] = [
    ("number", Word::Number),
    ("integer", Word::Integer),
    ("boolean", Word::Boolean),
    ("time", Word::Time),
    ("category", Word::Category),
    ("text", Word::Text),
];

impl Column {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        section.only(&["name", "type", "nullable", "min", "max", "outside", "categories", "other", "longest"])?;
        let name = section.text("name", NAME)?;
        let fine = !name.is_empty() && name.chars().count() <= NAME_LIMIT && !name.chars().any(char::is_control);
        if !fine || name.starts_with('_') {
            return Err(section.wrong("name", NAME));
        }
        let word = section.choice("type", &TYPES, None)?;
        let own: &[&str] = match word {
            Word::Number | Word::Integer => &["min", "max", "outside"],
            Word::Boolean => &[],
            Word::Time => &["min", "max"],
            Word::Category => &["categories", "other"],
            Word::Text => &["longest"],
        };
        for key in ["min", "max", "outside", "categories", "other", "longest"] {
            if section.has(key) && !own.contains(&key) {
                return Err(section.wrong(key, "left out: columns of this type have no such key"));
            }
        }
        let nullable = section.flag("nullable", false)?;
        Ok(Self { name: name.to_owned(), kind: word.read(section)?, nullable })
    }

    /// How it is stored.
    pub fn storage(&self) -> DataType {
        match self.kind {
            Kind::Number { .. } => DataType::Float64,
            Kind::Integer { .. } => DataType::Int64,
            Kind::Boolean => DataType::Boolean,
            Kind::Time { .. } => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::Category { .. } | Kind::Text { .. } => DataType::Utf8,
        }
    }
}

impl Word {
    fn read(self, section: &Section<'_>) -> Result<Kind, DocumentError> {
        match self {
            Self::Number => read_number(section),
            Self::Integer => read_integer(section),
            Self::Boolean => Ok(Kind::Boolean),
            Self::Time => read_time(section),
            Self::Category => read_category(section),
            Self::Text => {
                const LONGEST: &str = "a whole number of bytes from 1 to 1048576";
                let longest =
                    if section.has("longest") { section.whole_number("longest", LONGEST)? } else { LONGEST_DEFAULT };
                let longest =
                    u32::try_from(longest).ok().filter(|&bytes| (1..=LONGEST_LIMIT).contains(&i64::from(bytes)));
                longest.map(|longest| Kind::Text { longest }).ok_or_else(|| section.wrong("longest", LONGEST))
            }
        }
    }
}

const OUTSIDE: [(&str, Outside); 2] = [("clamp", Outside::Clamp), ("drop", Outside::Drop)];

fn read_number(section: &Section<'_>) -> Result<Kind, DocumentError> {
    let min = section.number("min", "the least value, a finite number known without looking at rows")?;
    let max = section.number("max", "the greatest value, a finite number known without looking at rows")?;
    if min > max {
        return Err(section.wrong("max", "at least `min`"));
    }
    Ok(Kind::Number { min, max, outside: section.choice("outside", &OUTSIDE, Some(Outside::Clamp))? })
}

fn read_integer(section: &Section<'_>) -> Result<Kind, DocumentError> {
    let min = section.whole_number("min", "the least value, a whole number known without looking at rows")?;
    let max = section.whole_number("max", "the greatest value, a whole number known without looking at rows")?;
    if min > max {
        return Err(section.wrong("max", "at least `min`"));
    }
    Ok(Kind::Integer { min, max, outside: section.choice("outside", &OUTSIDE, Some(Outside::Clamp))? })
}

fn read_time(section: &Section<'_>) -> Result<Kind, DocumentError> {
    const INSTANT: &str = "a time of years 1 to 9999 in quotes such as \"2026-11-01\" or \"2026-11-01T08:00\", in UTC";
    let bound = |key: &str, all: i64| -> Result<i64, DocumentError> {
        let Some(text) = section.optional_text(key, INSTANT)? else { return Ok(all) };
        let found = time_of(text).filter(|instant| (ALL_TIME.0..=ALL_TIME.1).contains(instant));
        found.ok_or_else(|| section.wrong(key, INSTANT))
    };
    let span = (bound("min", ALL_TIME.0)?, bound("max", ALL_TIME.1)?);
    if span.0 >= span.1 {
        return Err(section.wrong("max", "later than `min`; it is the first instant that is outside"));
    }
    Ok(Kind::Time { span })
}

fn read_category(section: &Section<'_>) -> Result<Kind, DocumentError> {
    const CATEGORIES: &str = "a list of 1 to 100000 different texts, none of them empty";
    let categories =
        section.texts("categories", CATEGORIES)?.ok_or_else(|| section.missing("categories", CATEGORIES))?;
    let mut sorted: Vec<&String> = categories.iter().collect();
    sorted.sort_unstable();
    let doubled = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    if categories.is_empty() || categories.len() > CATEGORIES_LIMIT || doubled || sorted[0].is_empty() {
        return Err(section.wrong("categories", CATEGORIES));
    }
    const OTHER: &str = "\"drop\" or one of the categories";
    let other = match section.optional_text("other", OTHER)? {
        None | Some("drop") => Other::Drop,
        Some(text) if categories.iter().any(|category| category == text) => Other::Category(text.to_owned()),
        Some(_) => return Err(section.wrong("other", OTHER)),
    };
    Ok(Kind::Category { categories, other })
}
