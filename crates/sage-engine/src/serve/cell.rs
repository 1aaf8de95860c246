//! Converts one input value to a cell of a column, or refuses it with what is allowed.
//!
//! No model was trained on values outside the stream's bounds, and its graph does not clip. Such values are refused
//! here instead of getting an unfounded prediction.

use sage_model::formula::{Cell, Column, Domain, Missing};
use serde_json::Value;

use crate::stream::{format_time, hash_text, parse_time};
use crate::suggest::nearest;

/// An input value.
#[derive(Clone, Copy)]
enum InputValue<'value> {
    Null,
    Text(&'value str),
    Whole(i64),
    Number(f64),
    Truth(bool),
    /// A list or an object.
    Other,
}

/// Parses a text as a cell of a column. `None` and the empty text are null.
///
/// # Errors
/// With the reason and what is allowed.
pub fn parse_text_cell(column: &Column, text: Option<&str>) -> Result<Cell, String> {
    parse_cell(column, text.map_or(InputValue::Null, text_value))
}

/// Converts a JSON value to a cell of a column. Numbers and times may also be texts.
///
/// # Errors
/// With the reason and what is allowed.
pub fn parse_json_cell(column: &Column, value: &Value) -> Result<Cell, String> {
    let given = match value {
        Value::Null => InputValue::Null,
        Value::Bool(truth) => InputValue::Truth(*truth),
        Value::String(text) => text_value(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => InputValue::Whole(whole),
            (None, Some(number)) => InputValue::Number(number),
            (None, None) => InputValue::Other,
        },
        Value::Array(_) | Value::Object(_) => InputValue::Other,
    };
    parse_cell(column, given)
}

fn text_value(text: &str) -> InputValue<'_> {
    if text.is_empty() { InputValue::Null } else { InputValue::Text(text) }
}

/// Describes the values that a column accepts.
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
        Domain::Text { categories } => format!("one of {}", list_categories(categories)),
        Domain::Hashed => "a text".to_owned(),
    };
    let null = if column.missing == Missing::Possible { ", or nothing" } else { "" };
    format!("{kind}{null}")
}

fn instant(seconds: i64) -> String {
    format_time(seconds.saturating_mul(1_000_000))
}

/// The maximum number of categories in a message.
const MAX_LISTED: usize = 12;

fn list_categories(categories: &[String]) -> String {
    let mut all: Vec<String> = categories.iter().take(MAX_LISTED).map(|category| format!("{category:?}")).collect();
    if categories.len() > MAX_LISTED {
        all.push("and others".to_owned());
    }
    all.join(", ")
}

fn parse_cell(column: &Column, given: InputValue<'_>) -> Result<Cell, String> {
    if let InputValue::Null = given {
        return match column.missing {
            Missing::Possible => Ok(Cell::Null),
            Missing::Never => Err(format!("it is empty, and this column always has a value: {}", allowed(column))),
        };
    }
    let found = match &column.domain {
        Domain::Number { low, high } => as_number(given).filter(|x| (*low..=*high).contains(x)).map(Cell::Number),
        Domain::Whole { low, high } => as_whole(given).filter(|x| (*low..=*high).contains(x)).map(Cell::Whole),
        Domain::Truth => as_truth(given).map(Cell::Truth),
        Domain::Time { first, last } => as_seconds(given).filter(|x| (*first..=*last).contains(x)).map(Cell::Whole),
        Domain::Text { categories } => match given {
            InputValue::Text(text) if categories.iter().any(|category| category == text) => {
                Some(Cell::Text(text.to_owned()))
            }
            _ => None,
        },
        Domain::Hashed => as_text(given).map(|text| Cell::Whole(hash_text(&text))),
    };
    found.ok_or_else(|| {
        format!("{} is not allowed; give {}{}", display_value(given), allowed(column), suggestion(column, given))
    })
}

/// The text of a value, as ingest writes integers and booleans.
fn as_text(given: InputValue<'_>) -> Option<String> {
    match given {
        InputValue::Text(text) => Some(text.to_owned()),
        InputValue::Whole(whole) => Some(whole.to_string()),
        InputValue::Truth(truth) => Some(truth.to_string()),
        InputValue::Null | InputValue::Number(_) | InputValue::Other => None,
    }
}

fn as_number(given: InputValue<'_>) -> Option<f64> {
    match given {
        InputValue::Number(number) => Some(number),
        InputValue::Whole(whole) => Some(whole as f64),
        InputValue::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn as_whole(given: InputValue<'_>) -> Option<i64> {
    // Clients without integers send 3.0 for 3, which is exact up to this limit.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let from_float = |number: f64| (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64);
    match given {
        InputValue::Whole(whole) => Some(whole),
        InputValue::Number(number) => from_float(number),
        InputValue::Text(text) => text.trim().parse().ok().or_else(|| from_float(text.trim().parse().ok()?)),
        _ => None,
    }
}

fn as_truth(given: InputValue<'_>) -> Option<bool> {
    match given {
        InputValue::Truth(truth) => Some(truth),
        InputValue::Whole(whole @ (0 | 1)) => Some(whole == 1),
        InputValue::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Whole seconds since 1970, rounded towards the past as at ingest.
fn as_seconds(given: InputValue<'_>) -> Option<i64> {
    let from_float = |number: f64| (number.abs() < 1e15).then_some(number.floor() as i64);
    match given {
        InputValue::Whole(whole) => Some(whole),
        InputValue::Number(number) => from_float(number),
        InputValue::Text(text) => match text.trim().parse::<f64>() {
            Ok(number) => from_float(number),
            Err(_) => parse_time(text.trim()).map(|instant| instant.div_euclid(1_000_000)),
        },
        _ => None,
    }
}

/// The value for a message, escaped and truncated.
fn display_value(given: InputValue<'_>) -> String {
    const MOST: usize = 40;
    match given {
        InputValue::Null => "nothing".to_owned(),
        InputValue::Whole(whole) => whole.to_string(),
        InputValue::Number(number) => number.to_string(),
        InputValue::Truth(truth) => truth.to_string(),
        InputValue::Other => "a list or an object".to_owned(),
        InputValue::Text(text) => {
            let short: String = text.chars().take(MOST).collect();
            format!("{short:?}{}", if text.chars().nth(MOST).is_some() { "..." } else { "" })
        }
    }
}

/// A suggestion of the nearest category.
fn suggestion(column: &Column, given: InputValue<'_>) -> String {
    let (Domain::Text { categories }, InputValue::Text(text)) = (&column.domain, given) else { return String::new() };
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
    fn every_domain_accepts_its_values_only() {
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
            assert_eq!(parse_text_cell(column, Some(given)).ok(), cell, "{given:?} as {:?}", column.domain);
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
            assert_eq!(parse_json_cell(&whole, &given).ok(), cell, "{given}");
        }
    }

    #[test]
    fn a_refusal_names_the_value_what_is_allowed_and_a_suggestion() {
        let texts = Domain::Text { categories: vec!["card".to_owned(), "cash".to_owned()] };
        let refused = parse_text_cell(&column(texts, Missing::Possible), Some("crad")).expect_err("no category");
        assert_eq!(
            refused,
            "\"crad\" is not allowed; give one of \"card\", \"cash\", or nothing; did you mean \"card\"?"
        );
        let never = column(Domain::Truth, Missing::Never);
        assert!(parse_text_cell(&never, None).expect_err("never null").contains("always has a value: true or false"));
        let long = parse_text_cell(&never, Some(&"\u{1b}".repeat(100))).expect_err("no truth");
        assert!(!long.contains('\u{1b}') && long.len() < 400, "{long}");
    }
}
