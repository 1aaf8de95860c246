//! Block keys: the mapping from a row's public attributes to its block, and back.
//!
//! A key is a hive path such as `hour=2026-11-01T08` or `users=0000001000/time=2026-10-29`. It must be computed
//! from the row alone, never from other rows or from the number of rows. The levels have a fixed order: users,
//! time, attribute, and `late` in late blocks.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

use super::width::Width;

/// The last level of the key of a late block, which holds rows that arrived after their block was sealed.
pub const LATE_LEVEL: &str = "late";

/// The most bytes of an encoded value, so that every file system accepts it as part of a folder's name.
pub(super) const PATH_VALUE_LIMIT: usize = 180;

/// The rule that partitions rows into blocks. At least one level is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRule {
    /// How many consecutive user numbers share a block.
    pub user_range: Option<u32>,
    /// The length of a block's time window. Windows are aligned to the beginning of 1970 in UTC.
    pub time: Option<Width>,
    /// The column whose category determines the block.
    pub attribute: Option<String>,
}

/// A half-open range of time, in microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant.
    pub start: i64,
    /// The first instant after the range.
    pub end: i64,
}

/// The levels of a parsed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The first user number of the range.
    pub users: Option<i64>,
    /// The time window.
    pub span: Option<Span>,
    /// The category.
    pub attribute: Option<String>,
    /// The day on which the batch with the late rows was received.
    pub late: Option<String>,
}

/// The numeric coordinates of a block. Levels that the rule does not use are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cell {
    /// The first user number of the range.
    pub users: i64,
    /// The number of the time window, counted from 1970.
    pub slot: i64,
    /// The index of the category in its list.
    pub attribute: u32,
}

impl BlockRule {
    /// How many levels a key has.
    pub fn levels(&self) -> usize {
        usize::from(self.user_range.is_some())
            + usize::from(self.time.is_some())
            + usize::from(self.attribute.is_some())
    }

    /// The cell of a row. Attributes that the rule does not use are ignored.
    #[inline]
    pub fn cell(&self, user: i64, time: i64, attribute: u32) -> Cell {
        let range = self.user_range.map_or(i64::MAX, i64::from);
        Cell {
            users: if self.user_range.is_some() { user.div_euclid(range).saturating_mul(range) } else { 0 },
            slot: self.time.map_or(0, |width| time.div_euclid(width.microseconds())),
            attribute: if self.attribute.is_some() { attribute } else { 0 },
        }
    }

    /// The key of a cell, or `None` for a cell that no stored row can have.
    pub fn key(&self, cell: Cell, categories: &[String]) -> Option<String> {
        let mut levels = Vec::with_capacity(3);
        if self.user_range.is_some() {
            levels.push(format!("users={:010}", u64::try_from(cell.users).ok()?));
        }
        if let Some(width) = self.time {
            let start = DateTime::from_timestamp_micros(cell.slot.checked_mul(width.microseconds())?)?;
            levels.push(format!("{}={}", time_level(width), start.format(time_format(width))));
        }
        if let Some(column) = &self.attribute {
            levels.push(format!("{column}={}", encoded(categories.get(cell.attribute as usize)?)));
        }
        Some(levels.join("/"))
    }

    /// Parses a key of this rule. Returns `None` for any text that [`BlockRule::key`] or [`late_key`] does not produce.
    pub fn parse(&self, key: &str) -> Option<Levels> {
        let mut parts = key.split('/');
        let mut level = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        let users = match self.user_range {
            Some(range) => {
                let text = level("users")?;
                let start: i64 = text.parse().ok()?;
                let canonical = start >= 0 && start % i64::from(range) == 0 && format!("{start:010}") == text;
                Some(canonical.then_some(start)?)
            }
            None => None,
        };
        let span = match self.time {
            Some(width) => Some(parse_span(width, &level(time_level(width))?)?),
            None => None,
        };
        let attribute = match &self.attribute {
            Some(column) => Some(decoded(&level(column)?)?),
            None => None,
        };
        let late = match parts.next() {
            Some(part) => {
                let day = part.strip_prefix(LATE_LEVEL)?.strip_prefix('=')?;
                NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
                Some(day.to_owned())
            }
            None => None,
        };
        parts.next().is_none().then_some(Levels { users, span, attribute, late })
    }
}

/// The name of the time level in a key.
fn time_level(width: Width) -> &'static str {
    match width {
        Width::HOUR => "hour",
        Width::DAY => "day",
        _ => "time",
    }
}

/// The format of the time in a key. It has no colons, because not every file system accepts them.
fn time_format(width: Width) -> &'static str {
    if width.is_days() {
        "%Y-%m-%d"
    } else if width.is_hours() {
        "%Y-%m-%dT%H"
    } else {
        "%Y-%m-%dT%H%M"
    }
}

fn parse_span(width: Width, text: &str) -> Option<Span> {
    let start = parse_time(text)?;
    let aligned = start.rem_euclid(width.microseconds()) == 0;
    let canonical = DateTime::from_timestamp_micros(start)?.format(time_format(width)).to_string() == text;
    (aligned && canonical).then_some(Span { start, end: start + width.microseconds() })
}

/// The key of the late block for rows of a sealed block, by the day on which their batch was received.
///
/// Privacy: whether a block is sealed is public. So is the day on which a batch arrives, because the caller
/// states it and no row influences it. The block of a late row therefore follows from the row alone and public
/// facts, and a row is in one block only. That suffices if the unit is a row. It does not if the unit is a user:
/// one user could have rows of one window in both blocks, each with the whole ceiling. So streams of users have no
/// late blocks.
pub fn late_key(key: &str, received: i64) -> Option<String> {
    let day = DateTime::from_timestamp_micros(received)?.format("%Y-%m-%d");
    Some(format!("{key}/{LATE_LEVEL}={day}"))
}

/// Percent-encodes a text for use in a folder's name. Letters, digits, `-`, `_` and `.` stay as they are.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Decodes what [`encoded`] produces; `None` for any other text.
fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (encoded(&text) == name).then_some(text)
}

/// Parses a UTC time to microseconds since 1970: `2026-11-01`, `2026-11-01T08`, `2026-11-01T0815`,
/// `2026-11-01T08:15`, or `2026-11-01T08:15:30` with or without a fraction of a second.
pub fn parse_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00"));
    if date.len() != 10 || !clock.is_ascii() {
        return None;
    }
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    let clock = match clock.len() {
        2 => format!("{clock}:00:00"),
        4 => format!("{}:{}:00", &clock[..2], &clock[2..]),
        5 => format!("{clock}:00"),
        _ => clock.to_owned(),
    };
    let clock = NaiveTime::parse_from_str(&clock, "%H:%M:%S%.f").ok()?;
    Some(NaiveDateTime::new(date, clock).and_utc().timestamp_micros())
}

/// Formats an instant as a date, a time with seconds or a time with microseconds, whichever is the shortest exact form.
/// [`parse_time`] reads it back.
pub fn format_time(instant: i64) -> String {
    let format = match instant {
        instant if instant.rem_euclid(Width::DAY.microseconds()) == 0 => "%Y-%m-%d",
        instant if instant.rem_euclid(1_000_000) == 0 => "%Y-%m-%dT%H:%M:%S",
        _ => "%Y-%m-%dT%H:%M:%S%.6f",
    };
    DateTime::from_timestamp_micros(instant).map_or_else(String::new, |time| time.format(format).to_string())
}
