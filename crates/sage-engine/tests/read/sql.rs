//! The SQL that a pipeline may use: a table of texts, each allowed or refused with the offending part.

use crate::yard::{query, refusal};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use sage_engine::read::{Expression, Query, QueryRefusal, prepare};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("pickup", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("day", DataType::Date32, true),
        Field::new("distance", DataType::Float64, true),
        Field::new("price", DataType::Float32, true),
        Field::new("passengers", DataType::Int64, true),
        Field::new("zone", DataType::Int16, false),
        Field::new("big", DataType::UInt64, true),
        Field::new("vendor", DataType::Utf8, true),
        Field::new("airport", DataType::Boolean, false),
        Field::new("Odd Name", DataType::Float64, true),
        Field::new("bytes", DataType::Binary, true),
    ])
}

const ALLOWED: &[&str] = &[
    "distance",
    "airport",
    "vendor",
    "passengers",
    "big",
    "\"Odd Name\"",
    "NULL",
    "1",
    "'text'",
    "distance + 1",
    "distance - price * 2 / passengers % 3",
    "-passengers",
    "passengers / zone",
    "passengers * passengers * passengers",
    "distance > 2 AND NOT airport OR price IS NULL",
    "CASE WHEN distance > 2 THEN 'far' WHEN distance IS NULL THEN NULL ELSE 'near' END",
    "CASE vendor WHEN 'a' THEN 1 ELSE 2.5 END",
    "distance BETWEEN 1 AND passengers",
    "zone NOT IN (1, 2, 3)",
    "vendor IN ('a', 'b')",
    "vendor LIKE 'a%_b'",
    "vendor NOT ILIKE '%X%'",
    "vendor IS NOT DISTINCT FROM 'a'",
    "airport IS NOT TRUE",
    "vendor || '-' || zone",
    "CAST(vendor AS DOUBLE)",
    "TRY_CAST(vendor AS BIGINT)",
    "distance::INT",
    "CAST(CAST(vendor AS TIMESTAMP) AS DATE) = day",
    "extract(hour from pickup)",
    "date_part('dow', pickup)",
    "extract(epoch from pickup) - extract(epoch from day)",
    "extract(epoch from date_trunc('day', pickup))",
    "extract(year from date_trunc('week', day))",
    "pickup >= TIMESTAMP '2026-01-01T00:00:00'",
    "pickup < '2026-01-01'",
    "day = DATE '2026-02-03'",
    "abs(passengers) + floor(distance) + ceil(price) + sqrt(zone) + ln(distance) + exp(price)",
    "round(distance, 2) + trunc(price) + signum(zone)",
    "power(distance, -2) + power(zone, 0.5)",
    "sin(distance) + atan2(price, zone) + log10(big)",
    "coalesce(distance, price, 0)",
    "nullif(zone, 0)",
    "greatest(distance, price) - least(zone, passengers)",
    "lower(trim(vendor))",
    "substr(vendor, 2, 3)",
    "substring(vendor from 1 for 2)",
    "length(vendor) + strpos(vendor, 'x') + ascii(vendor)",
    "left(vendor, 1) || right(vendor, 2)",
    "starts_with(vendor, 'a') AND contains(vendor, 'b')",
    "concat(vendor, zone, distance)",
    "isnan(distance)",
];

/// Refused texts, and the part that the refusal must name.
const REFUSED: &[(&str, &str)] = &[
    ("sum(distance)", "sum"),
    ("count(*)", "count"),
    ("avg(distance) > 2", "avg"),
    ("1 + max(price)", "max"),
    ("row_number() OVER (ORDER BY pickup)", "row_number"),
    ("lag(distance) OVER (ORDER BY pickup)", "lag"),
    ("sum(distance) OVER ()", "sum"),
    ("(SELECT 1)", "subquery"),
    ("EXISTS (SELECT 1)", "subquery"),
    ("distance IN (SELECT 1)", "subquery"),
    ("distance > ANY (SELECT 1)", "subquery"),
    ("(SELECT max(distance) FROM rides)", "rides"),
    ("random()", "random"),
    ("distance + random()", "random"),
    ("now()", "now"),
    ("current_date", "current_date"),
    ("current_timestamp", "now"),
    ("uuid()", "uuid"),
    ("version()", "version"),
    ("_lane", "_lane"),
    ("rides._lane", "_lane"),
    ("distanc", "distanc"),
    ("nonsense(distance)", "nonsense"),
    ("*", "*"),
    ("rides.*", "found: ."),
    ("distance; distance", ";"),
    ("SELECT 1", "found: 1"),
    ("", "expression"),
    ("distance +", "expression"),
    ("$1", "$1"),
    ("@@version", "@@version"),
    ("vendor LIKE vendor", "LIKE"),
    ("vendor SIMILAR TO 'a'", "SIMILAR"),
    ("vendor ~ 'a'", "~"),
    ("regexp_like(vendor, 'a')", "regexp_like"),
    ("repeat(vendor, 1000000)", "repeat"),
    ("lpad(vendor, 1000000000)", "lpad"),
    ("chr(zone)", "chr"),
    ("factorial(zone)", "factorial"),
    ("gcd(zone, passengers)", "gcd"),
    ("to_timestamp(vendor)", "to_timestamp"),
    ("arrow_cast(vendor, 'Int64')", "arrow_cast"),
    ("substr(vendor, passengers)", "substr"),
    ("substr(vendor, 1, -1)", "substr"),
    ("left(vendor, zone)", "left"),
    ("round(distance, passengers)", "round"),
    ("date_trunc(vendor, pickup)", "date_trunc"),
    ("date_part(vendor, pickup)", "date_part"),
    ("date_trunc('fortnight', pickup)", "fortnight"),
    ("pickup - pickup", "pickup"),
    ("pickup + INTERVAL '1 day'", "pickup"),
    ("INTERVAL '1 day'", "INTERVAL"),
    ("vendor + 1", "vendor"),
    ("-vendor", "-vendor"),
    ("abs(vendor)", "vendor"),
    ("pickup", "pickup"),
    ("CAST(passengers AS TIMESTAMP)", "passengers"),
    ("CAST(pickup AS VARCHAR)", "pickup"),
    ("CAST(distance AS DECIMAL(10, 2))", "distance"),
    ("CAST(vendor AS INTERVAL)", "vendor"),
    ("CAST('no number' AS INT)", "no number"),
    ("distance > 'far'", "far"),
    ("bytes", "bytes"),
    ("bytes = bytes", "bytes"),
    ("[1, 2]", "array"),
    ("array_transform([1], v -> v)", "array_transform"),
    ("distance & 3", "&"),
    ("zone << 2", "<<"),
];

#[test]
fn row_wise_expressions_are_allowed() {
    for sql in ALLOWED {
        assert_eq!(refusal(&schema(), sql), None, "{sql}");
    }
}

#[test]
fn everything_else_is_refused_by_name() {
    let mut wrong = Vec::new();
    for (sql, named) in REFUSED {
        let message = refusal(&schema(), sql).map_or_else(|| "allowed".to_owned(), |refusal| refusal.to_string());
        println!("{sql}\n    {message}");
        let one_line = !message.contains('\n') && message.len() < 800;
        if !(message.starts_with("c0: ") && message.contains(named) && one_line) {
            wrong.push(format!("{sql}: {message}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_filter_is_true_or_false() {
    for (filter, allowed) in [
        ("airport", true),
        ("NULL", true),
        ("distance > 1", true),
        ("distance", false),
        ("'true'", false),
        ("1", false),
    ] {
        let prepared = prepare(&schema(), &query(Some(filter), &["distance"]));
        assert_eq!(prepared.is_ok(), allowed, "{filter}");
    }
}

#[test]
fn every_column_has_a_name_of_its_own() {
    let named = |names: &[&str]| Query {
        filter: None,
        columns: names.iter().map(|&name| Expression { name: name.to_owned(), sql: "distance".to_owned() }).collect(),
    };
    for (names, refused) in [(vec!["a", "b"], None), (vec!["a", "a"], Some("a")), (vec![" "], Some(" "))] {
        let expected = refused.map(|name: &str| QueryRefusal::Name { name: name.to_owned() });
        assert_eq!(prepare(&schema(), &named(&names)).err(), expected);
    }
    let prepared = prepare(&schema(), &named(&["a", "b"])).expect("two names");
    assert_eq!(prepared.names(), ["a", "b"]);
    let own = Schema::new(vec![Field::new("_lane", DataType::Boolean, false)]);
    assert_eq!(
        refusal(&own, "1"),
        Some(QueryRefusal::Name { name: "_lane".to_owned() }),
        "the lane column is reserved"
    );
}

/// Expressions whose evaluation would take very long are refused before they are planned.
#[test]
fn oversized_expressions_are_refused() {
    let nest = |open: &str, close: &str, depth: usize| format!("{}distance{}", open.repeat(depth), close.repeat(depth));
    for sql in [
        nest("coalesce(", ", 1)", 12),
        vec!["distance"; 3_000].join(" + "),
        format!("'{}'", "x".repeat(30_000)),
        nest("(", ")", 10_000),
        vec!["1"; 990].join("+"),
        vec!["airport"; 2_200].join(" AND "),
        nest("CASE WHEN airport THEN ", " ELSE 1 END", 600),
    ] {
        assert!(refusal(&schema(), &sql).is_some(), "{}...", &sql[..40]);
    }
}
