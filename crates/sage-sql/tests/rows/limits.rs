//! Hostile inputs are handled quickly and with a small stack.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use sage_sql::{Refusal, Schema, parse, parse_select, plan};

/// The processor time of some work, which other programs on the machine do not change; elsewhere than on Linux, where
/// it is not known, zero.
fn timed(work: impl FnOnce()) -> Duration {
    let used = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Duration::from_nanos(stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0))
    };
    let before = used();
    work();
    used() - before
}

/// Runs on a thread with a small stack and returns its processor time.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) -> Duration {
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(|| timed(work)).expect("a thread");
    thread.join().expect("the stack is large enough")
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}x{}", open.repeat(depth), close.repeat(depth))
}

fn hostile() -> Vec<String> {
    vec![
        vec!["1"; 990].join("+"),
        vec!["x > 1"; 2_200].join(" AND "),
        vec!["b"; 1_900].join(" AND "),
        vec!["b"; 1_900].join(" OR "),
        nested("CASE WHEN b THEN ", " ELSE 1 END", 600),
        nested("CASE ", " WHEN 1 THEN 2 END", 600),
        nested("CASE ", " WHEN 1 THEN 2 WHEN 3 THEN 4 END", 59),
        nested("(", ")", 9_000),
        nested("NOT ", "", 3_000),
        nested("- ", "", 3_000),
        nested("coalesce(", ", 1)", 59),
        nested("nullif(", ", 1)", 59),
        nested("", " BETWEEN 1 AND 2", 1_000),
        nested("x IN (", ")", 59),
        nested("abs(", ")", 5_000),
        nested("extract(hour from ", ")", 1_000),
        "(".repeat(19_000),
        "'".repeat(19_999),
        "[".repeat(19_999),
        format!("name LIKE '{}'", "%a".repeat(9_000)),
        format!("name LIKE '{}'", "a".repeat(19_000)),
        format!("x IN ({})", vec!["1"; 3_000].join(",")),
        "x".repeat(30_000),
        "/*".repeat(9_000),
        "--".repeat(9_000),
        "1.".repeat(9_000),
        "\u{1f695}".repeat(4_000),
    ]
}

#[test]
fn hostile_texts_take_little_time_and_little_stack() {
    let schema = sage_sql::synthetic::schema();
    for sql in hostile() {
        let prefix: String = sql.chars().take(40).collect();
        let schema = Schema::new(&schema);
        let time = on_a_small_stack(move || {
            if let Ok(expression) = parse(&sql) {
                drop(plan(&expression, &schema));
                drop(expression.to_string());
            }
            drop(parse_select(&format!("SELECT count(*) WHERE {sql}")));
        });
        // The limit allows for a debug build.
        assert!(time < Duration::from_secs(2), "{prefix}: {time:?}");
    }
}

#[test]
fn expressions_that_grow_exponentially_are_refused() {
    let schema = Schema::new(&sage_sql::synthetic::schema());
    for sql in [
        nested("coalesce(", ", 1)", 30),
        nested("CASE ", " WHEN 1 THEN 2 WHEN 3 THEN 4 END", 30),
        nested("nullif(", ", 1)", 30),
    ] {
        let expression = parse(&sql).expect("within the depth limit");
        assert_eq!(plan(&expression, &schema).err(), Some(Refusal::TooLarge), "{sql}");
    }
    // A tree whose parts are evaluated once is accepted.
    for sql in [nested("abs(", ")", 50), vec!["x"; 190].join(" + "), vec!["b"; 1_500].join(" AND ")] {
        assert!(plan(&parse(&sql).expect("short"), &schema).is_ok(), "{sql}");
    }
}

/// Two long texts in one row take time in proportion to their lengths, not to the product. Trimming one by the
/// characters of the other once took minutes, so that the time of an answer revealed the row.
#[test]
fn long_texts_of_one_row_take_little_time() {
    const LENGTH: usize = 1 << 20;
    let columns = sage_sql::synthetic::schema().project(&[5, 6]).expect("two texts");
    let texts = |name: String, note: String| -> RecordBatch {
        let arrays: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from(vec![name])), Arc::new(StringArray::from(vec![note]))];
        RecordBatch::try_new(Arc::new(columns.clone()), arrays).expect("a row")
    };
    let rows = [
        texts("a".repeat(LENGTH), format!("{}a", "b".repeat(LENGTH - 1))),
        texts("a".repeat(LENGTH), format!("{}b", "a".repeat(LENGTH / 2))),
        texts("9".repeat(LENGTH), "ab".repeat(LENGTH / 2)),
    ];
    let schema = Schema::new(&columns);
    for sql in [
        "trim(both note from name)",
        "ltrim(name, note)",
        "rtrim(note, name)",
        "strpos(name, note)",
        "contains(name, note) OR starts_with(name, note) OR ends_with(note, name)",
        "name LIKE '%a%a%a%a%a%a%b' OR note ILIKE '%a_%a_%a_%B'",
        "name = note OR name < note OR name IN ('a', 'b')",
        "greatest(upper(name), lower(note))",
        "concat(name, note) || left(name, 10) || right(note, 10) || substr(name, 500000, 10)",
        "CAST(name AS DOUBLE) + CAST(name AS BIGINT) + length(note) + ascii(name)",
        "CAST(name AS DATE) = CAST(note AS DATE) OR CAST(name AS BOOLEAN)",
    ] {
        let program = plan(&parse(sql).expect("short"), &schema).expect("a program");
        for (row, batch) in rows.iter().enumerate() {
            let took = timed(|| assert_eq!(program.evaluate(batch).len(), 1));
            // A few milliseconds each; the limit allows for a debug build.
            assert!(took < Duration::from_secs(2), "{sql}, row {row}: {took:?}");
        }
    }
}
