//! Parts of a time given in seconds since 1970, in UTC, by the proleptic Gregorian calendar.
//!
//! Days are counted from the first of March of year 0, so that the leap day is the last day of its year. This module
//! computes with integers; `lower` writes the same computation as a graph, on `f64`.

use super::tree::Part;

pub(super) const DAY: i64 = 86_400;
/// The days, counted from 1970, of the years 1700 to 2199: other times are null, as in the engine's queries.
pub(super) const DAYS: std::ops::Range<i64> = -98_615..84_006;

/// Whether a time is within the supported years.
#[inline]
pub(crate) fn is_time(seconds: f64) -> bool {
    seconds >= (DAYS.start * DAY) as f64 && seconds < (DAYS.end * DAY) as f64
}

/// The part; `None` for a time outside the supported years.
#[inline]
pub(crate) fn part(part: Part, seconds: f64) -> Option<f64> {
    if !is_time(seconds) {
        return None;
    }
    // Within these years the seconds are far below 2⁵³.
    let seconds = seconds.floor() as i64;
    let (days, within) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let found = match part {
        Part::Epoch => seconds,
        Part::Year => year,
        Part::Quarter => (month + 2) / 3,
        Part::Month => month,
        Part::Day => day,
        Part::DayOfWeek => (days + 4).rem_euclid(7),
        Part::Hour => within / 3_600,
        Part::Minute => within / 60 % 60,
        Part::Second => within % 60,
    };
    Some(found as f64)
}

#[inline]
fn date(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let era = from_march.div_euclid(146_097);
    let of_era = from_march.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a calendar that advances day by day.
    #[test]
    fn every_day_of_the_years_is_the_day_after_the_one_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day, mut weekday) = (1700, 1, 1, 5);
        for days in DAYS {
            assert_eq!(date(days), (year, month, day), "day {days}");
            assert_eq!(part(Part::DayOfWeek, (days * DAY) as f64), Some(f64::from(weekday)), "day {days}");
            let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            weekday = (weekday + 1) % 7;
            day += 1;
            if day > lengths[month as usize - 1] {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
        assert_eq!((year, month, day), (2200, 1, 1));
    }

    #[test]
    fn a_time_of_day() {
        let seconds = 1_700_000_000.0;
        let parts = [Part::Year, Part::Quarter, Part::Month, Part::Day, Part::Hour, Part::Minute, Part::Second];
        let found: Vec<f64> = parts.iter().filter_map(|name| part(*name, seconds)).collect();
        assert_eq!(found, [2023.0, 4.0, 11.0, 14.0, 22.0, 13.0, 20.0]);
        assert_eq!(part(Part::Hour, -1.0), Some(23.0));
        assert_eq!(part(Part::Year, f64::NAN), None);
        assert_eq!(part(Part::Year, (DAYS.end * DAY) as f64), None);
        assert_eq!(part(Part::Year, (DAYS.end * DAY - 1) as f64), Some(2199.0));
    }
}
