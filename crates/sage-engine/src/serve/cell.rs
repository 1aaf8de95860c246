//! One value becomes one cell of a column, or is refused with what is allowed there.
//!
//! What a stream's bounds exclude no model has seen, and its graph does not clip. So it is refused here rather than
//! answered with a number that nothing stands behind.

use sage_model::formula::{Cell, Column, Domain, Missing};
use serde_json::Value;

use crate::stream::{format_time, parse_time};
use crate::suggest::nearest;

/// A value as it was given.
#[derive(Clone, Copy)]
enum Given<'value> {
    Nothing,
    Text(&'value str),
    Whole(i64),
    Number(f64),
    Truth(bool),
    /// A list or an object.
    Other,
}

/// The cell of a column that a text says; nothing and the empty text are null.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn cell_of_text(column: &Column, text: Option<&str>) -> Result<Cell, String> {
    cell(column, text.map_or(Given::Nothing, as_text))
}

/// The cell of a column that a JSON value says. Numbers and times may also be given as texts.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn cell_of_json(column: &Column, value: &Value) -> Result<Cell, String> {
    let given = match value {
        Value::Null => Given::Nothing,
        Value::Bool(truth) => Given::Truth(*truth),
        Value::String(text) => as_text(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Given::Whole(whole),
            (None, Some(number)) => Given::Number(number),
            (None, None) => Given::Other,
        },
        Value::Array(_) | Value::Object(_) => Given::Other,
    };
    cell(column, given)
}

fn as_text(text: &str) -> Given<'_> {
    if text.is_empty() { Given::Nothing } else { Given::Text(text) }
}

/// What a column takes, in words.
pub fn allowed(column: &Column) -> String {
    let kind = match &column.domain {
        Domain::Number { low, high } => format!("a number from {low} to {high}"),
        Domain::Whole { low, high } => format!("a whole number from {low} to {high}"),
        Domain::Truth => "true or false".to_owned(),
        Domain::Time { first, last } => format!(
            "a time such as 2026-11-01T08:15:00 (UTC) or in seconds from 1970, from {} to {}",
            instant(*first),
            instant(*last)
        ),
        Domain::Text { categories } => format!("one of {}", listed(categories)),
    };
    let null = if column.missing == Missing::Possible { ", or nothing" } else { "" };
    format!("{kind}{null}")
}

fn instant(seconds: i64) -> String {
    format_time(seconds.saturating_mul(1_000_000))
}

/// As many categories as one reads at a glance.
const LISTED: usize = 12;

fn listed(categories: &[String]) -> String {
    let mut all: Vec<String> = categories.iter().take(LISTED).map(|category| format!("{category:?}")).collect();
    if categories.len() > LISTED {
        all.push("and others".to_owned());
    }
    all.join(", ")
}

fn cell(column: &Column, given: Given<'_>) -> Result<Cell, String> {
    if let Given::Nothing = given {
        return match column.missing {
            Missing::Possible => Ok(Cell::Null),
            Missing::Never => Err(format!("it is empty, and this column always has a value: {}", allowed(column))),
        };
    }
    let found = match &column.domain {
        Domain::Number { low, high } => number(given).filter(|x| (*low..=*high).contains(x)).map(Cell::Number),
        Domain::Whole { low, high } => whole(given).filter(|x| (*low..=*high).contains(x)).map(Cell::Whole),
        Domain::Truth => truth(given).map(Cell::Truth),
        Domain::Time { first, last } => seconds(given).filter(|x| (*first..=*last).contains(x)).map(Cell::Whole),
        Domain::Text { categories } => match given {
            Given::Text(text) if categories.iter().any(|category| category == text) => {
                Some(Cell::Text(text.to_owned()))
            }
            _ => None,
        },
    };
    found.ok_or_else(|| format!("{} is not allowed; give {}{}", shown(given), allowed(column), meant(column, given)))
}

fn number(given: Given<'_>) -> Option<f64> {
    match given {
        Given::Number(number) => Some(number),
        Given::Whole(whole) => Some(whole as f64),
        Given::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn whole(given: Given<'_>) -> Option<i64> {
    // Programs that know only real numbers write 3.0 for 3; up to here they say it exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let of_number = |number: f64| (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64);
    match given {
        Given::Whole(whole) => Some(whole),
        Given::Number(number) => of_number(number),
        Given::Text(text) => text.trim().parse().ok().or_else(|| of_number(text.trim().parse().ok()?)),
        _ => None,
    }
}

fn truth(given: Given<'_>) -> Option<bool> {
    match given {
        Given::Truth(truth) => Some(truth),
        Given::Whole(whole @ (0 | 1)) => Some(whole == 1),
        Given::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Whole seconds from 1970; parts of one are cut off towards the past, as where rows are read.
fn seconds(given: Given<'_>) -> Option<i64> {
    let of_number = |number: f64| (number.abs() < 1e15).then_some(number.floor() as i64);
    match given {
        Given::Whole(whole) => Some(whole),
        Given::Number(number) => of_number(number),
        Given::Text(text) => match text.trim().parse::<f64>() {
            Ok(number) => of_number(number),
            Err(_) => parse_time(text.trim()).map(|instant| instant.div_euclid(1_000_000)),
        },
        _ => None,
    }
}

/// The value, escaped and not too long.
fn shown(given: Given<'_>) -> String {
    const MOST: usize = 40;
    match given {
        Given::Nothing => "nothing".to_owned(),
        Given::Whole(whole) => whole.to_string(),
        Given::Number(number) => number.to_string(),
        Given::Truth(truth) => truth.to_string(),
        Given::Other => "a list or an object".to_owned(),
        Given::Text(text) => {
            let short: String = text.chars().take(MOST).collect();
            format!("{short:?}{}", if text.chars().nth(MOST).is_some() { "..." } else { "" })
        }
    }
}

/// The category that was probably meant.
fn meant(column: &Column, given: Given<'_>) -> String {
    let (Domain::Text { categories }, Given::Text(text)) = (&column.domain, given) else { return String::new() };
    let names: Vec<&str> = categories.iter().map(String::as_str).collect();
    nearest(text.trim(), &names).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(domain: Domain, missing: Missing) -> Column {
        Column { name: "x".to_owned(), domain, missing }
    }

    #[test]
    fn every_kind_takes_what_it_says_and_nothing_else() {
        let number = column(Domain::Number { low: 0.0, high: 100.0 }, Missing::Never);
        let whole = column(Domain::Whole { low: 1, high: 6 }, Missing::Possible);
        let time = column(Domain::Time { first: 0, last: 4_000_000_000 }, Missing::Never);
        let texts = Domain::Text { categories: vec!["card".to_owned(), "cash".to_owned()] };
        let text = column(texts, Missing::Possible);
        let truth = column(Domain::Truth, Missing::Never);
        for (column, given, cell) in [
            (&number, "2.5", Some(Cell::Number(2.5))),
            (&number, " 100 ", Some(Cell::Number(100.0))),
            (&number, "100.5", None),
            (&number, "NaN", None),
            (&number, "", None),
            (&number, "far", None),
            (&whole, "3", Some(Cell::Whole(3))),
            (&whole, "3.0", Some(Cell::Whole(3))),
            (&whole, "3.5", None),
            (&whole, "7", None),
            (&whole, "", Some(Cell::Null)),
            (&time, "2026-01-01T08:00:00Z", Some(Cell::Whole(1_767_254_400))),
            (&time, "1767254400.9", Some(Cell::Whole(1_767_254_400))),
            (&time, "yesterday", None),
            (&time, "-1", None),
            (&text, "card", Some(Cell::Text("card".to_owned()))),
            (&text, "crad", None),
            (&text, "", Some(Cell::Null)),
            (&truth, "True", Some(Cell::Truth(true))),
            (&truth, "0", Some(Cell::Truth(false))),
            (&truth, "yes", None),
        ] {
            assert_eq!(cell_of_text(column, Some(given)).ok(), cell, "{given:?} as {:?}", column.domain);
        }
    }

    #[test]
    fn json_has_types_of_its_own() {
        let whole = column(Domain::Whole { low: 1, high: 6 }, Missing::Possible);
        for (given, cell) in [
            (serde_json::json!(3), Some(Cell::Whole(3))),
            (serde_json::json!(3.0), Some(Cell::Whole(3))),
            (serde_json::json!("3"), Some(Cell::Whole(3))),
            (serde_json::json!(null), Some(Cell::Null)),
            (serde_json::json!(true), None),
            (serde_json::json!([3]), None),
            (serde_json::json!(u64::MAX), None),
        ] {
            assert_eq!(cell_of_json(&whole, &given).ok(), cell, "{given}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_given_what_is_allowed_and_what_was_meant() {
        let texts = Domain::Text { categories: vec!["card".to_owned(), "cash".to_owned()] };
        let refused = cell_of_text(&column(texts, Missing::Possible), Some("crad")).expect_err("no category");
        assert_eq!(
            refused,
            "\"crad\" is not allowed; give one of \"card\", \"cash\", or nothing; did you mean \"card\"?"
        );
        let never = column(Domain::Truth, Missing::Never);
        assert!(cell_of_text(&never, None).expect_err("never null").contains("always has a value: true or false"));
        let long = cell_of_text(&never, Some(&"\u{1b}".repeat(100))).expect_err("no truth");
        assert!(!long.contains('\u{1b}') && long.len() < 400, "{long}");
    }
}
