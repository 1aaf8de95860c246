//! Values shared by several tables of a pipeline file: bounds, group keys, window lengths.

use std::fmt;

use crate::document::{DocumentError, Section, Shape, list};
use crate::stream::Width;

/// A lower and an upper bound, both finite, the lower one smaller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    low: f64,
    high: f64,
}

impl Bounds {
    pub(super) const ALLOWED: &'static str =
        "a list of two finite numbers, the lower one first, such as [0, 100], chosen without looking at the data";

    /// New bounds; `None` unless both are finite and the first is smaller.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        (low < high && (high - low).is_finite()).then_some(Self { low, high })
    }

    /// The lower bound.
    pub const fn low(self) -> f64 {
        self.low
    }

    /// The upper bound.
    pub const fn high(self) -> f64 {
        self.high
    }

    pub(super) fn read(section: &Section<'_>, key: &str) -> Result<Self, DocumentError> {
        match section.numbers(key, Self::ALLOWED)?.as_slice() {
            &[low, high] => Self::new(low, high).ok_or_else(|| section.wrong(key, Self::ALLOWED)),
            _ => Err(section.wrong(key, Self::ALLOWED)),
        }
    }
}

impl fmt::Display for Bounds {
    /// The debug form of a float is the shortest text that parses to the same float, with a point or an exponent.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "[{:?}, {:?}]", self.low, self.high)
    }
}

/// A public list of groups or categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The integers from 0 to below this number.
    Count(u32),
    /// These texts.
    Texts(Vec<String>),
}

/// The maximum number of keys of a table or a feature.
pub(super) const KEYS_LIMIT: u32 = 1 << 20;

impl Keys {
    const ALLOWED: &'static str = "a whole number from 1 to 1048576, for the keys 0, 1, and so on, or a list of as many \
                                   different texts";

    /// The number of keys.
    pub fn count(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            Self::Texts(texts) => u32::try_from(texts.len()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn read(section: &Section<'_>, key: &str) -> Result<Self, DocumentError> {
        let wrong = || section.wrong(key, Self::ALLOWED);
        if section.shape(key) == Some(Shape::List) {
            let texts = section.texts(key, Self::ALLOWED)?.unwrap_or_default();
            let mut sorted: Vec<&String> = texts.iter().collect();
            sorted.sort_unstable();
            let doubled = sorted.windows(2).any(|pair| pair[0] == pair[1]);
            let fine = !texts.is_empty() && !doubled && texts.len() <= KEYS_LIMIT as usize;
            return if fine { Ok(Self::Texts(texts)) } else { Err(wrong()) };
        }
        read_count(section, key, KEYS_LIMIT, Self::ALLOWED).map(Self::Count)
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(out, "{count}"),
            Self::Texts(texts) => out.write_str(&list(texts)),
        }
    }
}

/// The length of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A length of time, for streams with blocks of time.
    Time(Width),
    /// A number of blocks.
    Blocks(u32),
}

impl Extent {
    const ALLOWED: &'static str = "a length of time in quotes such as \"7d\", or a whole number of blocks from 1 to \
                                   100000000";

    pub(super) fn read(section: &Section<'_>, key: &str) -> Result<Option<Self>, DocumentError> {
        match section.shape(key) {
            None => Ok(None),
            Some(Shape::Text) => {
                let width = Width::parse(section.text(key, Self::ALLOWED)?);
                width.map(|width| Some(Self::Time(width))).ok_or_else(|| section.wrong(key, Self::ALLOWED))
            }
            Some(_) => read_count(section, key, 100_000_000, Self::ALLOWED).map(|blocks| Some(Self::Blocks(blocks))),
        }
    }

    /// Whether both have the same unit and this one is not longer.
    pub(super) fn at_most(self, other: Self) -> bool {
        match (self, other) {
            (Self::Time(one), Self::Time(two)) => one <= two,
            (Self::Blocks(one), Self::Blocks(two)) => one <= two,
            _ => false,
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(width) => write!(out, "\"{width}\""),
            Self::Blocks(blocks) => write!(out, "{blocks}"),
        }
    }
}

/// A whole number from one up to a limit.
pub(crate) fn read_count(section: &Section<'_>, key: &str, limit: u32, allowed: &str) -> Result<u32, DocumentError> {
    let count = u32::try_from(section.whole_number(key, allowed)?).ok();
    count.filter(|count| (1..=limit).contains(count)).ok_or_else(|| section.wrong(key, allowed))
}

/// A number for which the test holds, or the default.
pub(crate) fn read_number(
    section: &Section<'_>, key: &str, allowed: &str, default: Option<f64>, fits: impl Fn(f64) -> bool,
) -> Result<f64, DocumentError> {
    if let (false, Some(default)) = (section.has(key), default) {
        return Ok(default);
    }
    let number = section.number(key, allowed)?;
    if fits(number) { Ok(number) } else { Err(section.wrong(key, allowed)) }
}

/// Reads a length of time, if the key is present.
pub(super) fn read_width(section: &Section<'_>, key: &str) -> Result<Option<Width>, DocumentError> {
    let Some(text) = section.optional_text(key, Width::ALLOWED)? else { return Ok(None) };
    Width::parse(text).map(Some).ok_or_else(|| section.wrong(key, Width::ALLOWED))
}

/// The maximum length of an expression, in bytes.
const SQL_LIMIT: usize = 1 << 16;

/// Reads an SQL expression over the columns of one row.
pub(super) fn read_sql(section: &Section<'_>, key: &str) -> Result<String, DocumentError> {
    const SQL: &str = "an SQL expression over the columns of one row, such as \"distance / duration\"";
    let sql = section.text(key, SQL)?;
    let fine = !sql.trim().is_empty() && sql.len() <= SQL_LIMIT;
    if fine { Ok(sql.to_owned()) } else { Err(section.wrong(key, SQL)) }
}

/// Reads the name or alias of a release.
pub(super) fn read_release(section: &Section<'_>, key: &str) -> Result<String, DocumentError> {
    const ALIAS: &str = "the name or alias of a release, such as \"taxi-duration@champion\"";
    let alias = section.text(key, ALIAS)?;
    let fine = !alias.is_empty() && alias.len() <= 200 && !alias.chars().any(char::is_control);
    if fine { Ok(alias.to_owned()) } else { Err(section.wrong(key, ALIAS)) }
}

/// Fails with the reason on the first of these keys that is present.
pub(super) fn forbid_keys(section: &Section<'_>, keys: &[&str], why: &str) -> Result<(), DocumentError> {
    match keys.iter().find(|key| section.has(key)) {
        Some(key) => Err(section.wrong(key, format!("left out: {why}"))),
        None => Ok(()),
    }
}
