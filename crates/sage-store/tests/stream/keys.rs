//! Block keys follow from a row's own public attributes and can be parsed.

use sage_store::stream::{BlockRule, Levels, Span, Width, late_key, parse_time};

fn rule(user_range: Option<u32>, time: Option<&str>, attribute: Option<&str>) -> BlockRule {
    let time = time.map(|text| Width::parse(text).expect("a width"));
    BlockRule { user_range, time, attribute: attribute.map(str::to_owned) }
}

#[test]
fn keys_follow_from_the_attributes_of_a_row() {
    let categories = ["FR".to_owned(), "a/b c%".to_owned(), "日本".to_owned(), "..".to_owned()];
    for (users, time, attribute, user, instant, category, key) in [
        (None, Some("1h"), None, 0, "2026-11-01T08:59:59.999999", 0, "hour=2026-11-01T08"),
        (None, Some("1h"), None, 0, "2026-11-01T09:00", 0, "hour=2026-11-01T09"),
        (None, Some("60m"), None, 0, "1969-12-31T23:59:59", 0, "hour=1969-12-31T23"),
        (None, Some("1d"), None, 0, "2026-11-01T23:59", 0, "day=2026-11-01"),
        (None, Some("6h"), None, 0, "2026-11-01T08:00", 0, "time=2026-11-01T06"),
        (None, Some("15m"), None, 0, "2026-11-01T08:59", 0, "time=2026-11-01T0845"),
        (None, Some("7d"), None, 0, "1970-01-08T00:00", 0, "time=1970-01-08"),
        (None, Some("7d"), None, 0, "1970-01-07T23:59", 0, "time=1970-01-01"),
        (None, Some("1d"), None, 0, "0001-01-01", 0, "day=0001-01-01"),
        (None, Some("1d"), None, 0, "9999-12-31T23:59", 0, "day=9999-12-31"),
        (Some(1000), None, None, 1999, "1970-01-01", 0, "users=0000001000"),
        (Some(1000), None, None, 999, "1970-01-01", 0, "users=0000000000"),
        (Some(1000), None, None, i64::MAX, "1970-01-01", 0, "users=9223372036854775000"),
        (None, None, Some("country"), 0, "1970-01-01", 0, "country=FR"),
        (None, None, Some("country"), 0, "1970-01-01", 1, "country=a%2Fb%20c%25"),
        (None, None, Some("country"), 0, "1970-01-01", 2, "country=%E6%97%A5%E6%9C%AC"),
        (None, None, Some("country"), 0, "1970-01-01", 3, "country=.."),
        (Some(10), Some("1d"), Some("country"), 25, "2026-11-01", 0, "users=0000000020/day=2026-11-01/country=FR"),
    ] {
        let rule = rule(users, time, attribute);
        let instant = parse_time(instant).expect("an instant");
        let cell = rule.cell(user, instant, category);
        assert_eq!(rule.key(cell, &categories).as_deref(), Some(key));
        let levels = rule.parse(key).expect(key);
        assert_eq!(levels.users, users.map(|_| cell.users), "{key}");
        assert_eq!(levels.attribute, attribute.map(|_| categories[category as usize].clone()), "{key}");
        let contains = levels.span.is_none_or(|span| span.start <= instant && instant < span.end);
        assert!(contains && levels.span.is_some() == time.is_some(), "{key}");
    }
    let users = rule(Some(10), None, None);
    assert_eq!(users.key(users.cell(-1, 0, 0), &categories), None, "no user has a number below zero");
}

#[test]
fn texts_that_are_not_canonical_keys_are_refused() {
    let hours = rule(None, Some("1h"), None);
    let start = parse_time("2026-11-01T08").expect("an instant");
    let span = Some(Span { start, end: start + 3_600_000_000 });
    assert_eq!(
        hours.parse("hour=2026-11-01T08/late=2026-11-05"),
        Some(Levels { users: None, span, attribute: None, late: Some("2026-11-05".to_owned()) })
    );
    for key in [
        "",
        "hour=",
        "hour=2026-11-01",
        "hour=2026-11-01T8",
        "hour=2026-11-01T25",
        "hour=2026-02-30T08",
        "day=2026-11-01",
        "hour=2026-11-01T08/",
        "hour=2026-11-01T08/late=",
        "hour=2026-11-01T08/late=soon",
        "hour=2026-11-01T08/x=1",
        "hour=2026-11-01T08/late=2026-11-05/late=2026-11-05",
        "/hour=2026-11-01T08",
        "../hour=2026-11-01T08",
    ] {
        assert_eq!(hours.parse(key), None, "{key}");
    }
    let weeks = rule(None, Some("7d"), None);
    assert_eq!(weeks.parse("time=1970-01-02"), None, "not the start of a slot");
    let users = rule(Some(1000), None, None);
    for key in ["users=1000", "users=0000001001", "users=-000001000", "users=+000001000", "users=00000001000"] {
        assert_eq!(users.parse(key), None, "{key}");
    }
    let countries = rule(None, None, Some("country"));
    for key in ["country=a b", "country=%4", "country=%zz", "country=%41", "country=%FF"] {
        assert_eq!(countries.parse(key), None, "{key}");
    }
}

#[test]
fn late_keys_contain_the_day_of_the_batch() {
    let received = parse_time("2026-11-05T23:59:59").expect("an instant");
    assert_eq!(late_key("hour=2026-11-01T08", received).as_deref(), Some("hour=2026-11-01T08/late=2026-11-05"));
    assert_eq!(late_key("hour=2026-11-01T08", i64::MAX), None);
}
