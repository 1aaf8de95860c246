//! Lengths of time as files write them: `15m`, `1h`, `7d`.

use std::fmt;

/// A length of time in whole minutes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Width {
    minutes: u32,
}

const HOUR: u32 = 60;
const DAY: u32 = 24 * HOUR;
/// A hundred years. A longer time is taken for a typing error.
const LONGEST: u32 = 36_525 * DAY;
/// Microseconds in a minute.
const MINUTE_MICROSECONDS: i64 = 60_000_000;

impl Width {
    /// A description, for messages, of the texts that [`Width::parse`] accepts.
    pub const ALLOWED: &'static str =
        "a length of time in quotes such as \"15m\", \"1h\", \"1d\" or \"4w\", at least a minute and at most a century";

    /// One hour.
    pub const HOUR: Self = Self { minutes: HOUR };
    /// One day.
    pub const DAY: Self = Self { minutes: DAY };

    /// Four weeks.
    pub const FOUR_WEEKS: Self = Self { minutes: 28 * DAY };

    /// The length multiplied by `count`, at most a century.
    pub fn times(self, count: u32) -> Self {
        Self { minutes: self.minutes.saturating_mul(count.max(1)).min(LONGEST) }
    }

    /// Parses `15m`, `1h`, `7d` or `4w`. Returns `None` for zero and for more than a century.
    pub fn parse(text: &str) -> Option<Self> {
        let unit = match text.chars().next_back()? {
            'm' => 1,
            'h' => HOUR,
            'd' => DAY,
            'w' => 7 * DAY,
            _ => return None,
        };
        let digits = &text[..text.len() - 1];
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let minutes = digits.parse::<u32>().ok()?.checked_mul(unit)?;
        (1..=LONGEST).contains(&minutes).then_some(Self { minutes })
    }

    /// The length in microseconds, the unit of stored times.
    pub const fn microseconds(self) -> i64 {
        self.minutes as i64 * MINUTE_MICROSECONDS
    }

    /// Whether every block starts at midnight.
    pub(super) const fn is_days(self) -> bool {
        self.minutes.is_multiple_of(DAY)
    }

    /// Whether every block starts at a full hour.
    pub(super) const fn is_hours(self) -> bool {
        self.minutes.is_multiple_of(HOUR)
    }
}

impl fmt::Display for Width {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minutes {
            minutes if minutes.is_multiple_of(DAY) => write!(out, "{}d", minutes / DAY),
            minutes if minutes.is_multiple_of(HOUR) => write!(out, "{}h", minutes / HOUR),
            minutes => write!(out, "{minutes}m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_parsed_and_formatted() {
        for (text, back) in [
            ("15m", Some("15m")),
            ("60m", Some("1h")),
            ("36h", Some("36h")),
            ("48h", Some("2d")),
            ("4w", Some("28d")),
            ("0h", None),
            ("h", None),
            ("1s", None),
            ("-1h", None),
            ("1.5h", None),
            ("", None),
            ("9999999999d", None),
            ("40000d", None),
            ("1ж", None),
        ] {
            let read = Width::parse(text).map(|width| width.to_string());
            assert_eq!(read.as_deref(), back, "{text}");
        }
    }
}
