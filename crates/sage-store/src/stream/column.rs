//! Columns of a stream: the type and the bounds of each, declared before any row is read.
//!
//! Bounds are never computed from rows, because such a bound would be a release.

use arrow::datatypes::{DataType, TimeUnit};

use super::key::parse_time;
use crate::document::{DocumentError, Section};

/// How ingest treats a value outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The nearest bound is stored instead.
    Clamp,
    /// The row is dropped.
    Drop,
}

/// How ingest treats a text that is not in the list of categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownCategory {
    /// The row is dropped.
    Drop,
    /// The value is stored as this category of the list.
    Category(String),
}

/// The type of a column and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A finite real number.
    Number {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
        /// How values outside the bounds are treated. NaN counts as absent.
        outside: Outside,
    },
    /// An integer.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
        /// How values outside the bounds are treated.
        outside: Outside,
    },
    /// True or false.
    Boolean,
    /// An instant with microsecond precision.
    Time {
        /// The first instant (inclusive) and the last (exclusive), in microseconds since 1970, UTC.
        span: (i64, i64),
    },
    /// One of a list of texts.
    Category {
        /// The list.
        categories: Vec<String>,
        /// How texts outside the list are treated.
        other: UnknownCategory,
    },
    /// Any text.
    Text {
        /// The greatest length in bytes. Rows with a longer text are dropped.
        longest: u32,
    },
    /// The hash of a text, as [`hash_text`](super::hash_text) computes it. The text itself is not stored.
    Hashed,
}

/// A column of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, in ingested files and in stored parts.
    pub name: String,
    /// Its type and bounds.
    pub kind: Kind,
    /// Whether the value may be absent. If not, rows without a value are dropped.
    pub nullable: bool,
}

/// Years 1 to 9999, the range that common readers of Parquet can represent.
pub(super) const ALL_TIME: (i64, i64) = (-62_135_596_800_000_000, 253_402_300_800_000_000);

const LONGEST_DEFAULT: i64 = 1024;
const LONGEST_LIMIT: i64 = 1 << 20;
/// The most categories of a column. Each can be a block of its own, so more would not be practical.
const CATEGORIES_LIMIT: usize = 100_000;
const NAME_LIMIT: usize = 128;
const NAME: &str = "a text of 1 to 128 characters that neither starts with `_` nor contains a control character";

/// The type of a column as its file names it, before its bounds are read.
#[derive(Clone, Copy)]
enum TypeName {
    Number,
    Integer,
    Boolean,
    Time,
    Category,
    Text,
    Hashed,
}

const TYPES: [(&str, TypeName); 7] = [
    ("number", TypeName::Number),
    ("integer", TypeName::Integer),
    ("boolean", TypeName::Boolean),
    ("time", TypeName::Time),
    ("category", TypeName::Category),
    ("text", TypeName::Text),
    ("hashed", TypeName::Hashed),
];

impl Column {
    /// Reads a `[[columns]]` table.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        section.only(&["name", "type", "nullable", "min", "max", "outside", "categories", "other", "longest"])?;
        let name = section.text("name", NAME)?;
        let valid = !name.is_empty() && name.chars().count() <= NAME_LIMIT && !name.chars().any(char::is_control);
        if !valid || name.starts_with('_') {
            return Err(section.wrong("name", NAME));
        }
        let type_name = section.choice("type", &TYPES, None)?;
        let own: &[&str] = match type_name {
            TypeName::Number | TypeName::Integer => &["min", "max", "outside"],
            TypeName::Boolean | TypeName::Hashed => &[],
            TypeName::Time => &["min", "max"],
            TypeName::Category => &["categories", "other"],
            TypeName::Text => &["longest"],
        };
        for key in ["min", "max", "outside", "categories", "other", "longest"] {
            if section.has(key) && !own.contains(&key) {
                return Err(section.wrong(key, "left out: columns of this type have no such key"));
            }
        }
        let nullable = section.flag("nullable", false)?;
        Ok(Self { name: name.to_owned(), kind: type_name.read_kind(section)?, nullable })
    }

    /// The Arrow type in which values are stored.
    pub fn storage(&self) -> DataType {
        match self.kind {
            Kind::Number { .. } => DataType::Float64,
            Kind::Integer { .. } | Kind::Hashed => DataType::Int64,
            Kind::Boolean => DataType::Boolean,
            Kind::Time { .. } => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::Category { .. } | Kind::Text { .. } => DataType::Utf8,
        }
    }
}

impl TypeName {
    fn read_kind(self, section: &Section<'_>) -> Result<Kind, DocumentError> {
        match self {
            Self::Number => read_number(section),
            Self::Integer => read_integer(section),
            Self::Boolean => Ok(Kind::Boolean),
            Self::Time => read_time(section),
            Self::Category => read_category(section),
            Self::Hashed => Ok(Kind::Hashed),
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
        let found = parse_time(text).filter(|instant| (ALL_TIME.0..=ALL_TIME.1).contains(instant));
        found.ok_or_else(|| section.wrong(key, INSTANT))
    };
    let span = (bound("min", ALL_TIME.0)?, bound("max", ALL_TIME.1)?);
    if span.0 >= span.1 {
        return Err(section.wrong("max", "later than `min`; it is the first instant after the allowed range"));
    }
    Ok(Kind::Time { span })
}

fn read_category(section: &Section<'_>) -> Result<Kind, DocumentError> {
    const CATEGORIES: &str = "a list of 1 to 100000 different texts, none of them empty";
    let categories =
        section.texts("categories", CATEGORIES)?.ok_or_else(|| section.missing("categories", CATEGORIES))?;
    let mut sorted: Vec<&String> = categories.iter().collect();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    if categories.is_empty() || categories.len() > CATEGORIES_LIMIT || repeated || sorted[0].is_empty() {
        return Err(section.wrong("categories", CATEGORIES));
    }
    const OTHER: &str = "\"drop\" or one of the categories";
    let other = match section.optional_text("other", OTHER)? {
        None | Some("drop") => UnknownCategory::Drop,
        Some(text) if categories.iter().any(|category| category == text) => UnknownCategory::Category(text.to_owned()),
        Some(_) => return Err(section.wrong("other", OTHER)),
    };
    Ok(Kind::Category { categories, other })
}
