//! Masks for the parts of the program's output that are random by design, and for nothing else.
//!
//! JSON is masked by command and path ([`JSON`]), text by command and line ([`TEXT`]). Everywhere else only two kinds
//! of tokens are replaced: long runs of hexadecimal digits (digests of noisy content, random names) and times of the
//! machine's clock, which are of another year than any time in the data. A mask keeps the shape: one more number, key,
//! entry, line or word remains a difference. Each rule must be used, so that none stays behind that hides something.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Reply;

/// The year of all times in the data.
const DATA_YEAR: &str = "2020-";

/// How a JSON value is masked. A value of another type stays, and so remains a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    /// A released number, or null where the noise hides it.
    Number,
    /// The parts of an uncertainty, three released numbers, or null where the noise hides the estimate.
    Uncertainty,
    /// A sentence about released numbers: each of its numbers is masked, its words are not.
    Sentence,
}

/// First words of the command, path, mask. `*` is any key, `[]` any entry of a list.
const JSON: &[(&str, &str, Mask)] = &[
    ("query", "lines.[].values.*.value", Mask::Number),
    ("query", "lines.[].values.*.half_width", Mask::Number),
    ("query", "lines.[].values.*.low", Mask::Number),
    ("query", "lines.[].values.*.high", Mask::Number),
    ("run", "attempts.[].estimates.[].value", Mask::Number),
    ("run", "attempts.[].estimates.[].low", Mask::Number),
    ("run", "attempts.[].estimates.[].high", Mask::Number),
    ("run", "attempts.[].best_constant.value", Mask::Number),
    ("run", "attempts.[].best_constant.low", Mask::Number),
    ("run", "attempts.[].best_constant.high", Mask::Number),
    ("run", "attempts.[].uncertainty", Mask::Uncertainty),
    ("run", "attempts.[].reason", Mask::Sentence),
    ("run", "options.[].met_by_the_last_test", Mask::Number),
    ("watch", "estimates.[].value", Mask::Number),
    ("watch", "estimates.[].low", Mask::Number),
    ("watch", "estimates.[].high", Mask::Number),
    ("watch", "reason", Mask::Sentence),
    ("logs", "steps.[].detail", Mask::Sentence),
    ("release", "card", Mask::Sentence),
    ("release", "receipt.estimate.value", Mask::Number),
    ("release", "receipt.estimate.low", Mask::Number),
    ("release", "receipt.estimate.high", Mask::Number),
    ("release", "receipt.best_constant.value", Mask::Number),
    ("release", "receipt.best_constant.low", Mask::Number),
    ("release", "receipt.best_constant.high", Mask::Number),
    ("release", "statistic.lines.[].value", Mask::Number),
    ("release", "statistic.lines.[].low", Mask::Number),
    ("release", "statistic.lines.[].high", Mask::Number),
    ("features get", "lines.[].value", Mask::Number),
    ("features get", "lines.[].low", Mask::Number),
    ("features get", "lines.[].high", Mask::Number),
    ("predict", "predictions.[]", Mask::Number),
];

/// How a line of text is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The numbers on both sides of `+-`.
    Cells,
    /// The numbers after this phrase.
    After(&'static str),
    /// The numbers before this phrase.
    Before(&'static str),
    /// The last three words of each line below a header of `key value low high`.
    Table,
    /// The whole line, if it is one number.
    Line,
}

/// First words of the command, and what of its lines is masked.
const TEXT: &[(&str, Part)] = &[
    ("query", Part::Cells),
    ("run", Part::After("accept: ")),
    ("run", Part::After("retry: ")),
    ("run", Part::After("would have met ")),
    ("run", Part::Before(" against a target of ")),
    ("watch", Part::After("accept: ")),
    ("watch", Part::After("retry: ")),
    ("logs", Part::After("accept: ")),
    ("logs", Part::After("retry: ")),
    ("release", Part::After("estimate: ")),
    ("release", Part::After("best_constant: ")),
    ("release", Part::After(" The model: ")),
    ("release", Part::After("\"value\": ")),
    ("release", Part::After("\"low\": ")),
    ("release", Part::After("\"high\": ")),
    ("release", Part::Table),
    ("features get", Part::Table),
    ("predict", Part::Line),
];

/// The command, as the rules name it.
fn topic(what: &str) -> &str {
    let topics = [
        ("submit", "run"),
        ("work", "run"),
        ("explain", "run"),
        ("GET /v1/runs/", "run"),
        ("POST /v1/streams/people/query", "query"),
        ("models show", "release"),
        ("GET /v1/releases/", "release"),
    ];
    topics.into_iter().find(|(prefix, _)| what.starts_with(prefix)).map_or(what, |(_, topic)| topic)
}

/// A reply with its random parts masked. The rules that were applied are added to `used`.
pub(super) fn reply(reply: &Reply, used: &mut BTreeSet<String>) -> Reply {
    let topic = topic(&reply.what);
    let mut masked = |text: &str| match as_json(text) {
        Some(values) => {
            let masked = values.into_iter().map(|mut value| {
                walk(topic, &mut value, "", used);
                tokens(&value.to_string())
            });
            masked.collect::<Vec<String>>().join("\n")
        }
        None if text.starts_with("<!doctype html>") => page(&reply.what, text),
        None => lines(topic, text, used),
    };
    Reply { what: reply.what.clone(), code: reply.code, out: masked(&reply.out), err: masked(&reply.err) }
}

/// A page without times of the machine's clock and without plots, whose numbers stand in a table below them. On the
/// pages of runs and releases every number is masked: the requests for the same runs and releases as JSON compare them.
fn page(what: &str, html: &str) -> String {
    let text = without(&without(html, "<time", "</time>", "TIME"), "<figure class=\"plot\">", "</figure>", "PLOT");
    let noisy = ["GET /runs/", "GET /releases/"].iter().any(|path| what.starts_with(path));
    let text = tokens(&text);
    if noisy { numbers(&text) } else { text }
}

/// The text with each part from `start` to `end` replaced.
fn without(text: &str, start: &str, end: &str, by: &str) -> String {
    let mut pieces = text.split(start);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (_, after) = piece.split_once(end).unwrap_or_else(|| panic!("{start} without {end}"));
        out += by;
        out += after;
    }
    out
}

/// The text as one JSON value, or one on each line.
fn as_json(text: &str) -> Option<Vec<Value>> {
    let starts = text.starts_with(['{', '[']);
    let whole = || serde_json::from_str(text).ok().map(|value| vec![value]);
    let each = || text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    starts.then(|| whole().or_else(each)).flatten()
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('.'), path.split('\n'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(one), Some(two)) if one == two || (one == "*" && two != "[]") => {}
            _ => return false,
        }
    }
}

fn is_uncertainty(map: &serde_json::Map<String, Value>) -> bool {
    let parts = ["sampling", "noise", "missed_by"];
    map.len() == parts.len() && parts.iter().all(|part| map.get(*part).is_some_and(Value::is_number))
}

/// Masks a value and everything in it. Keys of a path are divided by line breaks, since names of columns have dots.
fn walk(topic: &str, value: &mut Value, path: &str, used: &mut BTreeSet<String>) {
    let rule = JSON.iter().find(|(of, pattern, _)| topic.starts_with(of) && matches(pattern, path));
    if let Some((of, pattern, mask)) = rule {
        let masked = match (mask, &*value) {
            (Mask::Number, Value::Number(_) | Value::Null) => Some("#".to_owned()),
            (Mask::Uncertainty, Value::Null) => Some("###".to_owned()),
            (Mask::Uncertainty, Value::Object(map)) if is_uncertainty(map) => Some("###".to_owned()),
            (Mask::Sentence, Value::String(text)) => Some(numbers(text)),
            _ => None,
        };
        if let Some(masked) = masked {
            used.insert(format!("{of} {pattern}"));
            *value = masked.into();
        }
        return;
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}\n{key}") };
    match value {
        Value::Array(list) => list.iter_mut().for_each(|one| walk(topic, one, &below("[]"), used)),
        Value::Object(map) => map.iter_mut().for_each(|(key, one)| walk(topic, one, &below(key), used)),
        _ => {}
    }
}

fn lines(topic: &str, text: &str, used: &mut BTreeSet<String>) -> String {
    let rules: Vec<&(&str, Part)> = TEXT.iter().filter(|(of, _)| topic.starts_with(of)).collect();
    let mut table = false;
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for (of, part) in rules.iter().copied() {
            let masked = match part {
                Part::Cells => cells(&line),
                Part::After(phrase) => {
                    line.split_once(phrase).map(|(before, after)| format!("{before}{phrase}{}", numbers(after)))
                }
                Part::Before(phrase) => {
                    line.split_once(phrase).map(|(before, after)| format!("{}{phrase}{after}", numbers(before)))
                }
                Part::Table if table => below_header(&line),
                Part::Table => None,
                Part::Line => line.parse::<f64>().ok().map(|_| "#".to_owned()),
            };
            if let Some(masked) = masked {
                used.insert(format!("{of} {part:?}"));
                line = masked;
            }
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        table = words == ["key", "value", "low", "high"] || (table && !words.is_empty());
        // Columns are as wide as their noisy numbers.
        let padded = matches!(topic.split(' ').next(), Some("query" | "release" | "features"));
        out += &tokens(&if padded { words.join(" ") } else { line });
        out.push('\n');
    }
    out
}

/// The line with the numbers on both sides of each `+-` masked.
fn cells(line: &str) -> Option<String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let middles: Vec<usize> = (1..words.len().saturating_sub(1)).filter(|index| words[*index] == "+-").collect();
    for middle in &middles {
        for at in [middle - 1, middle + 1] {
            if words[at] == "?" || words[at].parse::<f64>().is_ok() {
                words[at] = "#";
            }
        }
    }
    (!middles.is_empty()).then(|| words.join(" "))
}

/// A line of a released table: its key, and `#` for each of value, low and high.
fn below_header(line: &str) -> Option<String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let first = words.len().checked_sub(3)?;
    for word in &mut words[first..] {
        if *word == "-" || word.parse::<f64>().is_ok() {
            *word = "#";
        }
    }
    Some(words.join(" "))
}

/// The sentence with `#` for each number.
pub(super) fn numbers(text: &str) -> String {
    let (mut out, mut inside) = (String::new(), false);
    let signs: Vec<char> = text.chars().collect();
    for (index, sign) in signs.iter().enumerate() {
        let next_is_digit = signs.get(index + 1).is_some_and(char::is_ascii_digit);
        let part = sign.is_ascii_digit() || (matches!(sign, '.' | '-') && next_is_digit) || (inside && *sign == 'e');
        if !part {
            out.push(*sign);
        } else if !inside {
            out.push('#');
        }
        inside = part;
    }
    out
}

/// The text without digests and without times of the machine's clock.
pub(super) fn tokens(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for sign in text.chars().chain(['\0']) {
        if sign.is_ascii_alphanumeric() || matches!(sign, '-' | ':' | '.') {
            word.push(sign);
            continue;
        }
        out += &token(&word);
        word.clear();
        out.push(sign);
    }
    out.trim_end_matches('\0').to_owned()
}

fn token(word: &str) -> String {
    let digits =
        |from: usize, to: usize| word.get(from..to).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_time = digits(0, 4) && digits(5, 7) && digits(8, 10) && word.as_bytes().get(10) == Some(&b'T');
    if is_time && !word.starts_with(DATA_YEAR) {
        return "TIME".to_owned();
    }
    let mut out = String::new();
    for run in word.split_inclusive(|sign: char| !sign.is_ascii_hexdigit()) {
        let hex = run.trim_end_matches(|sign: char| !sign.is_ascii_hexdigit());
        // A decimal number is not a digest, whatever its length.
        let digest = hex.len() >= 32 || (hex.len() >= 16 && hex.contains(|sign: char| sign.is_ascii_alphabetic()));
        out += &if digest { format!("DIGEST{}", &run[hex.len()..]) } else { run.to_owned() };
    }
    out
}

/// Every rule, by the name under which its use is recorded.
pub(super) fn rules() -> BTreeSet<String> {
    let json = JSON.iter().map(|(of, pattern, _)| format!("{of} {pattern}"));
    json.chain(TEXT.iter().map(|(of, part)| format!("{of} {part:?}"))).collect()
}
