//! Values outside their bounds are clamped, dropped or quarantined, as declared, and counted in the report.

use sage_store::ingest::{Reason, Source};

use crate::fixture::{Fixture, RIDES};

/// Each case: a line of CSV, the stored row, and the entry in the report.
#[test]
fn each_row_is_checked_by_itself() {
    let at = "2026-11-01 08:15:00";
    let stored = |rest: &str| Some(format!("hour=2026-11-01T08|2026-11-01T08:15:00Z|{rest}"));
    let dropped = |column: &'static str, reason| Some(("dropped", column, reason));
    let changed = |column: &'static str, reason| Some(("changed", column, reason));
    for (line, expected, reported) in [
        (format!("{at},2.5,3,card,true,x"), stored("2.5|3|card|true|x"), None),
        (format!("{at},-1,3,card,true,x"), stored("0.0|3|card|true|x"), changed("distance", Reason::Outside)),
        (format!("{at},1e9,3,card,true,x"), stored("100.0|3|card|true|x"), changed("distance", Reason::Outside)),
        (format!("{at},inf,3,card,true,x"), stored("100.0|3|card|true|x"), changed("distance", Reason::Outside)),
        (format!("{at},nan,3,card,true,x"), None, dropped("distance", Reason::NotANumber)),
        (format!("{at},,3,card,true,x"), None, dropped("distance", Reason::Absent)),
        (format!("{at},far,3,card,true,x"), None, dropped("distance", Reason::Unreadable)),
        (format!("{at},1,10,card,true,x"), None, dropped("people", Reason::Outside)),
        (format!("{at},1,-1,card,true,x"), None, dropped("people", Reason::Outside)),
        (format!("{at},1,2.5,card,true,x"), stored("1.0|-|card|true|x"), changed("people", Reason::Unreadable)),
        (format!("{at},1,3.0,card,true,x"), stored("1.0|3|card|true|x"), None),
        (format!("{at},1,,card,true,x"), stored("1.0|-|card|true|x"), None),
        (format!("{at},1,3,coin,true,x"), stored("1.0|3|other|true|x"), changed("paid", Reason::OtherCategory)),
        (format!("{at},1,3,,true,x"), None, dropped("paid", Reason::Absent)),
        (format!("{at},1,3,card,maybe,x"), stored("1.0|3|card|-|x"), changed("shared", Reason::Unreadable)),
        (format!("{at},1,3,card,true,{}", "x".repeat(21)), None, dropped("note", Reason::Outside)),
        (format!("{at},1,3,card,true,"), stored("1.0|3|card|true|-"), None),
        (format!("{at},1,3,card,true,\"\""), stored("1.0|3|card|true|"), None),
    ] {
        let fixture = Fixture::new(RIDES);
        let file = fixture.file("rides.csv", format!("pickup,distance,people,paid,shared,note\n{line}\n"));
        let ingested = fixture.ingest(Source::path(file), "one").expect("rows");
        assert_eq!(fixture.texts(&ingested.manifest.parts), expected.into_iter().collect::<Vec<_>>(), "{line}");
        let report = ingested.report;
        for (name, counts) in [("dropped", &report.dropped), ("changed", &report.changed)] {
            let expected: Vec<_> = reported
                .into_iter()
                .filter(|(list, ..)| *list == name)
                .map(|(_, column, reason)| ((column.to_owned(), reason), 1))
                .collect();
            assert_eq!(counts.clone().into_iter().collect::<Vec<_>>(), expected, "{name}: {line}");
        }
    }
}

#[test]
fn a_row_without_a_valid_time_is_quarantined_unchanged() {
    let fixture = Fixture::new(RIDES);
    let times = ["", "soon", "1999-12-31 23:59:59", "2100-01-01", "99999-01-01", "2026-13-01", "2026-11-01 08:15:00"];
    let lines: Vec<String> = times.iter().map(|time| format!("{time},1,3,card,true,{time}")).collect();
    let file = fixture.file("rides.csv", format!("pickup,distance,people,paid,shared,note\n{}\n", lines.join("\n")));
    let ingested = fixture.ingest(Source::path(file), "times").expect("rows");
    assert_eq!((ingested.report.read, ingested.report.stored, ingested.report.quarantined), (7, 1, 6));
    assert_eq!(ingested.report.dropped.len(), 0, "quarantined rows are not dropped");
    let aside = fixture.texts(&ingested.manifest.quarantine);
    assert_eq!(aside.len(), 6);
    for time in &times[..6] {
        let shown = if time.is_empty() { "-" } else { time };
        assert!(aside.contains(&format!("_quarantine|{shown}|1|3|card|true|{shown}")), "{time}: {aside:?}");
    }
}

#[test]
fn unknown_categories_are_dropped_or_replaced_as_declared() {
    for (declared, nullable, expected) in [
        ("other = \"other\"", "false", &["card", "other"][..]),
        ("other = \"drop\"", "false", &["card"]),
        ("other = \"drop\"", "true", &["-", "card"]),
        ("other = \"other\"", "true", &["-", "card", "other"]),
    ] {
        let stream = RIDES.replace("other = \"other\"", &format!("{declared}\nnullable = {nullable}"));
        let fixture = Fixture::new(&stream);
        let lines = ["card", "coin", ""].map(|paid| format!("2026-11-01,1,1,{paid},true,x\n"));
        let file = fixture.file("rides.csv", format!("pickup,distance,people,paid,shared,note\n{}", lines.concat()));
        let ingested = fixture.ingest(Source::path(file), "categories").expect("rows");
        let texts = fixture.texts(&ingested.manifest.parts);
        let paid: Vec<&str> = texts.iter().filter_map(|row| row.split('|').nth(4)).collect();
        assert_eq!(paid, expected, "{declared}, nullable {nullable}");
    }
}
