//! Rows for the streams of the harness, as CSV.

use sage_sql::synthetic::Dice;

/// The rows that are in one stream and not in its neighbour, for [`crate::pair::STREAM`]: extremes, nulls, the other
/// extremes with a hostile text.
pub(crate) const CONSPICUOUS: [&str; 3] = [
    "1e300,1,9000000000000000000,9,true,Bob,not a date,2026-11-01T12:00:00Z,1699-12-31T23:59:59Z,Bob\n",
    ",,,,,,,2026-11-01T12:00:00Z,,\n",
    "-1e300,0,-9000000000000000000,0,false,Bob,\u{1f695}%_\\,2026-11-01T00:00:00Z,2199-12-31T23:59:59.999999Z,Bob\n",
];

pub(crate) const HEADER: &str = "x,y,n,m,b,name,note,t,u,c\n";

/// Rows in which `y` is a linear function of `m`, `b` is not, and every value occurs often.
pub(crate) fn regular(count: usize) -> String {
    let row = |number: usize| {
        let (minute, hour) = (number % 60, number / 60 % 24);
        let note = ["2026-01-02", "2023-02-29", "12", "x%_"][number % 4];
        let name = ["Ann", "Cid", "Eve", ""][number % 4];
        let y = (number % 10) as f64 / 10.0;
        let truth = number.is_multiple_of(2);
        format!(
            "{}.5,{y},{number},{},{truth},{name},{note},2026-11-01T{hour:02}:{minute:02}:00Z,2026-10-31T00:00:00Z,{}\n",
            number % 7,
            number % 10,
            ["Ann", "Bob", "Cid"][number % 3]
        )
    };
    (0..count).map(row).collect()
}

/// Random rows with many extremes and nulls.
pub(crate) fn random(dice: &mut Dice, count: usize) -> String {
    const X: &[&str] = &["", "0", "-0.0", "1", "-2.75", "1e300", "-1e300", "5e-324", "9007199254740993"];
    const Y: &[&str] = &["", "0", "1", "0.25", "0.5", "1e-310"];
    const N: &[&str] = &["", "0", "1", "-1", "7", "9000000000000000000", "-9000000000000000000", "9007199254740993"];
    const M: &[&str] = &["", "0", "1", "2", "5", "9"];
    const B: &[&str] = &["", "true", "false"];
    const NAME: &[&str] = &["", "Bob", "Zed", "Ann", "bob ", "%", "_b", "12", "-7.5", "1e999", "true", "nan"];
    const NOTE: &[&str] = &[
        "",
        "2026-01-02",
        "2023-02-29",
        "1699-12-31T23:59:59",
        "2026-11-17T18:00:00+02:00",
        "not a date",
        "\u{1f695}\u{301}%_\\",
        "a long text that does not fit into a view of its own",
        "0",
    ];
    const T: &[&str] = &["2026-11-01T00:00:00Z", "2026-11-01T12:30:00.5Z", "2026-11-01T23:59:59.999999Z"];
    const U: &[&str] =
        &["", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1700-01-01T00:00:00Z", "2199-12-31T00:00:00Z"];
    const C: &[&str] = &["", "Ann", "Bob", "Cid"];
    let mut row = |_| {
        let cells = [X, Y, N, M, B, NAME, NOTE, T, U, C].map(|list| *dice.pick(list));
        format!("{}\n", cells.join(","))
    };
    (0..count).map(&mut row).collect()
}

/// Rows of users, in whom the value follows from the user.
pub(crate) fn of_users(users: usize) -> String {
    let rows = (0..users * 2).map(|number| {
        let user = number / 2;
        format!("{user},2026-11-01T{:02}:00:00Z,{},{}\n", number % 24, (user % 10) as f64 / 10.0, user % 10)
    });
    rows.collect()
}

/// Rows in which `y` equals `x`.
pub(crate) fn of_points(count: usize) -> String {
    let rows = (0..count).map(|number| {
        let share = (number % 100) as f64 / 100.0;
        format!("2026-11-01T{:02}:00:00Z,{share},{share}\n", number % 24)
    });
    rows.collect()
}
