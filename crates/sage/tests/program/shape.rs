//! Validation of responses against the OpenAPI document of the server.
//!
//! A small validator for the part of JSON Schema that the document uses. It panics on any other keyword, so that an
//! unknown keyword cannot pass unnoticed.

use serde_json::Value;

/// Keywords that do not constrain a value.
const SILENT: &[&str] = &["default", "description", "format"];

/// Whether a path is of a template such as `/v1/runs/{run}`; the last name takes the rest if the template ends there
/// with `{path}`.
fn fits(template: &str, path: &str) -> bool {
    let (wanted, found): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let rest = wanted.last() == Some(&"{path}") && found.len() >= wanted.len();
    let same = |(wanted, found): (&&str, &&str)| wanted == found || (wanted.starts_with('{') && !found.is_empty());
    (rest || wanted.len() == found.len()) && wanted.iter().zip(&found).all(same)
}

/// The operation of a request: of several matching templates the one with the fewest parameters.
pub(crate) fn operation<'doc>(document: &'doc Value, verb: &str, path: &str) -> Option<&'doc Value> {
    let path = path.split('?').next().unwrap_or(path);
    let paths = document["paths"].as_object()?.iter().filter(|(template, _)| fits(template, path));
    let names = |template: &String| template.matches('{').count();
    let (_, verbs) = paths.min_by_key(|(template, _)| names(template))?;
    verbs.get(verb.to_lowercase())
}

/// Why a response violates the document; `None` if it does not.
pub(crate) fn fault(document: &Value, verb: &str, path: &str, status: u16, kind: &str, body: &str) -> Option<String> {
    let operation = operation(document, verb, path)?;
    let responses = &operation["responses"];
    let response = responses.get(status.to_string());
    if response.is_none() && status < 300 {
        return Some(format!("{status} is not among {responses}"));
    }
    let response = response.unwrap_or(&responses["default"]);
    let kind = kind.split(';').next().unwrap_or(kind).trim();
    let Some(content) = response["content"].get(kind) else {
        // An invalid address is refused before routing.
        return (status < 400).then(|| format!("{kind} is not among {}", response["content"]));
    };
    // One object; the output of several lines has tests of its own.
    if !(kind == "application/json" || kind.ends_with("+json")) {
        return None;
    }
    match serde_json::from_str(body) {
        Ok(value) => breach(document, &content["schema"], &value, "answer"),
        Err(error) => Some(format!("no JSON: {error}")),
    }
}

/// Where a value violates a schema.
fn breach(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if *schema == Value::Bool(true) {
        return None;
    }
    let rules = schema.as_object().unwrap_or_else(|| panic!("{at}: no schema: {schema}"));
    rules.iter().find_map(|(word, rule)| match word.as_str() {
        "$ref" => {
            let pointer = rule.as_str().unwrap_or_default().trim_start_matches('#');
            breach(document, document.pointer(pointer).unwrap_or_else(|| panic!("{rule} is nowhere")), value, at)
        }
        "type" => {
            let kinds: Vec<&str> = match rule {
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                one => one.as_str().into_iter().collect(),
            };
            (!kinds.iter().any(|kind| is(kind, value))).then(|| format!("{at} is {value}, not {kinds:?}"))
        }
        "required" => {
            let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing: Vec<&str> = names.filter(|name| value.is_object() && value.get(name).is_none()).collect();
            (!missing.is_empty()).then(|| format!("{at} lacks {missing:?} in {value}"))
        }
        "properties" => rule.as_object().into_iter().flatten().find_map(|(name, schema)| {
            value.get(name).and_then(|found| breach(document, schema, found, &format!("{at}.{name}")))
        }),
        "additionalProperties" => value.as_object().into_iter().flatten().find_map(|(name, found)| {
            let known = schema["properties"].get(name).is_some();
            match rule {
                _ if known => None,
                Value::Bool(true) => None,
                Value::Bool(false) => Some(format!("{at} has {name}, which its schema does not")),
                rule => breach(document, rule, found, &format!("{at}.{name}")),
            }
        }),
        "items" => value
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .find_map(|(index, found)| breach(document, rule, found, &format!("{at}[{index}]"))),
        "enum" => {
            let known = rule.as_array().is_some_and(|words| words.contains(value));
            (!known).then(|| format!("{at} is {value}, none of {rule}"))
        }
        "anyOf" | "oneOf" => {
            let any = rule.as_array().into_iter().flatten();
            let faults: Vec<Option<String>> = any.map(|schema| breach(document, schema, value, at)).collect();
            let fits = faults.iter().filter(|fault| fault.is_none()).count();
            let fine = if word == "anyOf" { fits >= 1 } else { fits == 1 };
            (!fine).then(|| format!("{at} is {value}, which fits {fits} of {rule}"))
        }
        "const" => (rule != value).then(|| format!("{at} is {value}, not {rule}")),
        "minItems" | "maxItems" | "minimum" | "maximum" => beyond_limit(word, rule, value, at),
        "pattern" => unlike_decimal(rule, value, at),
        word if SILENT.contains(&word) => None,
        word => panic!("{at}: a word that this reader does not know: {word}"),
    })
}

/// Whether a value or the number of its items is beyond a limit.
fn beyond_limit(word: &str, rule: &Value, value: &Value, at: &str) -> Option<String> {
    let measured = match word {
        "minItems" | "maxItems" => value.as_array().map(|items| items.len() as f64),
        _ => value.as_f64(),
    };
    let (measured, limit) = measured.zip(rule.as_f64())?;
    let beyond = if word.starts_with("min") { measured < limit } else { measured > limit };
    beyond.then(|| format!("{at} is {value}, beyond {word} {rule}"))
}

/// Whether a text is not a decimal number, the one pattern in use.
fn unlike_decimal(rule: &Value, value: &Value, at: &str) -> Option<String> {
    assert_eq!(rule, "^[0-9]+(\\.[0-9]+)?$", "{at}: a pattern that this reader does not know");
    let text = value.as_str().unwrap_or("0");
    let parts: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (parts.len() > 2 || !parts.iter().all(digits)).then(|| format!("{at} is {text:?}, no decimal number"))
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no such type: {other}"),
    }
}

#[test]
fn violations_of_a_schema_are_found() {
    let document = serde_json::json!({
        "paths": {"/v1/runs/{run}": {"get": {"responses": {
            "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Run"}}}},
            "default": {"content": {"application/problem+json": {"schema": {"type": "object"}}}},
        }}}},
        "components": {"schemas": {"Run": {
            "type": "object",
            "required": ["run"],
            "properties": {"run": {"type": "integer", "minimum": 1}, "words": {"type": "array", "items": {"enum": ["a"]}}},
        }}},
    });
    let found = |status, kind: &str, body: &str| fault(&document, "GET", "/v1/runs/7?x=y", status, kind, body);
    assert_eq!(found(200, "application/json", "{\"run\": 1, \"words\": [\"a\"], \"more\": null}"), None);
    assert_eq!(found(404, "application/problem+json", "{}"), None);
    for (status, kind, body) in [
        (200, "application/json", "{}"),
        (200, "application/json", "{\"run\": 0}"),
        (200, "application/json", "{\"run\": \"1\"}"),
        (200, "application/json", "{\"run\": 1, \"words\": [\"b\"]}"),
        (200, "application/json", "run"),
        (200, "text/html", "{\"run\": 1}"),
        (201, "application/json", "{\"run\": 1}"),
        (404, "application/problem+json", "[]"),
    ] {
        assert!(found(status, kind, body).is_some(), "{status} {kind} {body}");
    }
}
