//! The proleptic Gregorian calendar on microseconds since 1970, in UTC.
//!
//! Every function is total on the times that a vector can hold: those within [`DAYS`](crate::DAYS) and, after
//! truncation to a week, a few days before. No arithmetic can overflow on them.

use crate::program::{Part, Unit};
use crate::schema::{DAYS, MICROSECONDS_PER_DAY as DAY};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Year, month and day of a day number counted from 1970.
///
/// The computation starts years in March, so that the leap day is the last day of a year.
pub(crate) const fn date(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let era = from_march.div_euclid(146_097);
    let of_era = from_march.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + (month <= 2) as i64, month, day)
}

/// The day number, counted from 1970, of a date.
pub(crate) const fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - (month <= 2) as i64;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

/// The ISO year and week of a day: those of the Thursday of its week.
const fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, ..) = date(thursday);
    (year, (thursday - day_of(year, 1, 1)) / 7 + 1)
}

/// A part of a time.
#[inline]
pub(crate) const fn part(part: Part, time: i64) -> i64 {
    let days = time.div_euclid(DAY);
    match part {
        Part::Hour => time.rem_euclid(DAY) / HOUR,
        Part::Minute => time.rem_euclid(HOUR) / MINUTE,
        Part::Second => time.rem_euclid(MINUTE) / SECOND,
        Part::Millisecond => time.rem_euclid(MINUTE) / 1_000,
        Part::Microsecond => time.rem_euclid(MINUTE),
        Part::Nanosecond => time.rem_euclid(MINUTE) * 1_000,
        // The first day of 1970 was a Thursday.
        Part::DayOfWeek => (days + 4).rem_euclid(7),
        Part::IsoDayOfWeek => (days + 3).rem_euclid(7) + 1,
        Part::Year => date(days).0,
        Part::Quarter => (date(days).1 + 2) / 3,
        Part::Month => date(days).1,
        Part::Day => date(days).2,
        Part::DayOfYear => days - day_of(date(days).0, 1, 1) + 1,
        Part::IsoYear => iso_week(days).0,
        Part::Week => iso_week(days).1,
    }
}

/// The first instant of the unit in which a time lies.
#[inline]
pub(crate) const fn truncate(unit: Unit, time: i64) -> i64 {
    let days = time.div_euclid(DAY);
    match unit {
        Unit::Microsecond => time,
        Unit::Millisecond => time - time.rem_euclid(1_000),
        Unit::Second => time - time.rem_euclid(SECOND),
        Unit::Minute => time - time.rem_euclid(MINUTE),
        Unit::Hour => time - time.rem_euclid(HOUR),
        Unit::Day => days * DAY,
        Unit::Week => (days - (days + 3).rem_euclid(7)) * DAY,
        Unit::Month => {
            let (year, month, _) = date(days);
            day_of(year, month, 1) * DAY
        }
        Unit::Quarter => {
            let (year, month, _) = date(days);
            day_of(year, (month - 1) / 3 * 3 + 1, 1) * DAY
        }
        Unit::Year => day_of(date(days).0, 1, 1) * DAY,
    }
}

/// Parses a time such as `2026-11-01`, `2026-11-01T08:00` or `2026-11-01 08:00:00.25`, optionally followed by an offset
/// such as `Z` or `+02:00`. Returns `None` for other texts and for times outside [`DAYS`].
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let bytes = text.trim().as_bytes();
    let (date_part, rest) = bytes.split_at_checked(10)?;
    let (year, month, day) = (digits(date_part, 0, 4)?, digits(date_part, 5, 2)?, digits(date_part, 8, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if date_part[4] != b'-' || date_part[7] != b'-' || !(1..=length).contains(&day) {
        return None;
    }
    let time = day_of(year, month, day) * DAY + time_of_day(rest)?;
    (DAYS.start * DAY..DAYS.end * DAY).contains(&time).then_some(time)
}

/// Parses `count` decimal digits from an index on.
fn digits(bytes: &[u8], from: usize, count: usize) -> Option<i64> {
    let found = bytes.get(from..from + count)?;
    found.iter().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

/// Parses the time of day after a date, as microseconds since midnight in UTC.
fn time_of_day(text: &[u8]) -> Option<i64> {
    let Some((separator, clock)) = text.split_first() else { return Some(0) };
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let (hour, minute) = (digits(clock, 0, 2)?, digits(clock, 3, 2)?);
    if clock[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    let mut rest = &clock[5..];
    let mut time = hour * HOUR + minute * MINUTE;
    if let Some(seconds) = rest.strip_prefix(b":") {
        let second = digits(seconds, 0, 2).filter(|second| *second <= 59)?;
        time += second * SECOND;
        rest = &seconds[2..];
        if let Some(fraction) = rest.strip_prefix(b".") {
            let count = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&count) {
                return None;
            }
            let weight = |index: usize| 10_i64.pow(u32::try_from(5 - index).unwrap_or(0));
            let kept = fraction[..count].iter().take(6).enumerate();
            time += kept.map(|(index, byte)| i64::from(byte - b'0') * weight(index)).sum::<i64>();
            rest = &fraction[count..];
        }
    }
    Some(time - offset(rest)?)
}

/// Parses a UTC offset, in microseconds.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, zone) = match text.split_first() {
        None | Some((b'Z' | b'z', [])) => return Some(0),
        Some((b'+', zone)) => (1, zone),
        Some((b'-', zone)) => (-1, zone),
        Some(_) => return None,
    };
    let (hours, minutes) = match zone.len() {
        2 => (digits(zone, 0, 2)?, 0),
        4 => (digits(zone, 0, 2)?, digits(zone, 2, 2)?),
        5 if zone[2] == b':' => (digits(zone, 0, 2)?, digits(zone, 3, 2)?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * HOUR + minutes * MINUTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the definition of the calendar, one day after the other.
    #[test]
    fn every_day_follows_the_day_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day, mut weekday) = (1700, 1, 1, 5);
        for days in DAYS {
            assert_eq!(date(days), (year, month, day), "day {days}");
            assert_eq!(day_of(year, month, day), days);
            assert_eq!(part(Part::DayOfWeek, days * DAY), weekday);
            assert_eq!(part(Part::IsoDayOfWeek, days * DAY), (weekday + 6) % 7 + 1);
            let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            weekday = (weekday + 1) % 7;
            day += 1;
            if day > lengths[usize::try_from(month - 1).expect("a month")] {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
        assert_eq!((year, month, day), (2200, 1, 1));
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        for (text, year, week) in [
            ("2005-01-01", 2004, 53),
            ("2005-01-02", 2004, 53),
            ("2005-12-31", 2005, 52),
            ("2007-01-01", 2007, 1),
            ("2008-12-29", 2009, 1),
            ("2010-01-03", 2009, 53),
            ("2026-11-17", 2026, 47),
        ] {
            let time = parse_time(text).expect("a date");
            assert_eq!((part(Part::IsoYear, time), part(Part::Week, time)), (year, week), "{text}");
        }
    }

    #[test]
    fn times_are_parsed() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("1970-01-02T00:00:01", Some(DAY + SECOND)),
            (" 1970-01-01 01:02 ", Some(HOUR + 2 * MINUTE)),
            ("1970-01-01T00:00:00.000001Z", Some(1)),
            ("1970-01-01T00:00:00.1234567", Some(123_456)),
            ("1970-01-01T02:00:00+02:00", Some(0)),
            ("1970-01-01T00:00:00-0130", Some(90 * MINUTE)),
            ("1700-01-01", Some(DAYS.start * DAY)),
            ("1699-12-31", None),
            ("2199-12-31T23:59:59", Some(DAYS.end * DAY - SECOND)),
            ("2200-01-01", None),
            ("2023-02-29", None),
            ("2024-02-29", Some(day_of(2024, 2, 29) * DAY)),
            ("2024-13-01", None),
            ("2024-1-1", None),
            ("2024-01-01T24:00", None),
            ("2024-01-01T10", None),
            ("2024-01-01T10:00:00.", None),
            ("2024-01-01T10:00+1", None),
            ("-290308-12-21", None),
            ("\u{1f695}\u{301}\u{1f695}", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }

    #[test]
    fn truncation_goes_to_the_start_of_the_unit() {
        let time = parse_time("2026-11-17T18:40:59.123456").expect("a time");
        for (unit, expected) in [
            (Unit::Millisecond, "2026-11-17T18:40:59.123"),
            (Unit::Second, "2026-11-17T18:40:59"),
            (Unit::Minute, "2026-11-17T18:40"),
            (Unit::Hour, "2026-11-17T18:00"),
            (Unit::Day, "2026-11-17"),
            (Unit::Week, "2026-11-16"),
            (Unit::Month, "2026-11-01"),
            (Unit::Quarter, "2026-10-01"),
            (Unit::Year, "2026-01-01"),
        ] {
            assert_eq!(Some(truncate(unit, time)), parse_time(expected), "{unit:?}");
        }
    }
}
