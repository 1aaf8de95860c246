//! The one place where released noise is removed from what is compared.
//!
//! The contents of the log are compared whole, as JSON or as the event's fields. [`NOISY`] lists the only fields that
//! differ by design, each by the kind of its note and its path. A field that is not listed is compared exactly, so a
//! value that depends on a row and leaves in any other way is a difference. A listed field is masked by its kind: a
//! number or its absence (noise decides whether an estimate can be shown at all), the numbers of a sentence, a digest
//! of noisy content, a time of the machine's clock. Masks keep the shape: one more number, one more list entry or one
//! more key remains a difference.

use serde_json::Value;

/// How a field is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    /// A number, or null where the noise hides it.
    Number,
    /// Three numbers under fixed keys, or null where the noise hides the estimate.
    Uncertainty,
    /// A sentence about released numbers.
    Sentence,
    /// A digest in hexadecimal digits, or null.
    Digest,
    /// Bytes in hexadecimal digits; their number is compared.
    Bytes,
    /// A time in milliseconds.
    Time,
}

/// Kind of note, path of the field, mask.
const NOISY: &[(&str, &str, Mask)] = &[
    ("query-answered", "answer.lines.[].cells.[].value", Mask::Number),
    ("query-answered", "answer.lines.[].cells.[].low", Mask::Number),
    ("query-answered", "answer.lines.[].cells.[].high", Mask::Number),
    ("run-stepped", "step.report.estimates.[].value", Mask::Number),
    ("run-stepped", "step.report.estimates.[].low", Mask::Number),
    ("run-stepped", "step.report.estimates.[].high", Mask::Number),
    ("run-stepped", "step.report.sums.[].[]", Mask::Number),
    ("run-stepped", "step.report.best_constant.value", Mask::Number),
    ("run-stepped", "step.report.best_constant.low", Mask::Number),
    ("run-stepped", "step.report.best_constant.high", Mask::Number),
    ("run-stepped", "step.report.uncertainty", Mask::Uncertainty),
    ("run-stepped", "step.report.explanation", Mask::Sentence),
    ("run-stepped", "step.report.release", Mask::Digest),
    ("units-counted", "train", Mask::Number),
    ("units-counted", "test", Mask::Number),
    ("stream-defined", "secret", Mask::Digest),
    ("rows-ingested", "manifest", Mask::Bytes),
    ("rows-ingested", "at", Mask::Time),
];

/// Path of the field of a receipt, mask.
const NOISY_IN_RECEIPTS: &[(&str, Mask)] = &[
    ("estimate.value", Mask::Number),
    ("estimate.low", Mask::Number),
    ("estimate.high", Mask::Number),
    ("best_constant.value", Mask::Number),
    ("best_constant.low", Mask::Number),
    ("best_constant.high", Mask::Number),
];

/// The receipt with its noisy fields masked.
pub(crate) fn masked_receipt(bytes: &[u8]) -> Value {
    let mut masked = serde_json::from_slice(bytes).expect("a receipt is JSON");
    walk(&mut masked, "", &|path, value| {
        if let Some((_, mask)) = NOISY_IN_RECEIPTS.iter().find(|(at, _)| *at == path) {
            *value = apply(*mask, value);
        }
    });
    masked
}

/// The note with its noisy fields masked.
pub(crate) fn masked_note(note: &Value) -> Value {
    let kind = note["note"].as_str().unwrap_or_default().to_owned();
    let mut masked = note.clone();
    // A report omits its uncertainty where the noise hides the estimate.
    if let Some(report) = masked.pointer_mut("/step/report").and_then(Value::as_object_mut) {
        report.entry("uncertainty").or_insert(Value::Null);
    }
    walk(&mut masked, "", &|path, value| {
        let rule = NOISY.iter().find(|(of, at, _)| *of == kind && *at == path);
        if let Some((.., mask)) = rule {
            *value = apply(*mask, value);
        }
    });
    masked
}

fn walk(value: &mut Value, path: &str, visit: &dyn Fn(&str, &mut Value)) {
    visit(path, value);
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Array(list) => list.iter_mut().for_each(|one| walk(one, &below("[]"), visit)),
        Value::Object(map) => map.iter_mut().for_each(|(key, one)| walk(one, &below(key), visit)),
        _ => {}
    }
}

/// The parts of an uncertainty.
const PARTS: [&str; 3] = ["sampling", "noise", "missed_by"];

fn is_uncertainty(map: &serde_json::Map<String, Value>) -> bool {
    PARTS.iter().all(|part| map.get(*part).is_some_and(Value::is_number))
}

/// A value of another type than its mask expects stays as it is, and so remains a difference.
fn apply(mask: Mask, value: &Value) -> Value {
    match (mask, value) {
        (Mask::Number, Value::Number(_) | Value::Null) | (Mask::Time, Value::Number(_)) => "#".into(),
        (Mask::Uncertainty, Value::Null) => "###".into(),
        (Mask::Uncertainty, Value::Object(map)) if map.len() == PARTS.len() && is_uncertainty(map) => "###".into(),
        (Mask::Sentence, Value::String(text)) => sentence(text).into(),
        (Mask::Digest, Value::String(text)) => without_digests(text).into(),
        (Mask::Bytes, Value::String(text)) if text.chars().all(|sign| sign.is_ascii_hexdigit()) => {
            format!("{} digits", text.len()).into()
        }
        _ => value.clone(),
    }
}

/// What a statistic's report says of its precision: which of the two is a function of released numbers.
const HIDDEN: &str = "at least one number cannot be distinguished from the noise";

/// What a statistic's report says would help: which of them is a function of released numbers too.
const REMEDIES: [&str; 3] = [
    "# of it is sampling and # is noise, so a larger ε or more rows help",
    "# of it is sampling and # is noise, so more rows help, a larger ε alone does not",
    "more rows or more budget help",
];

/// What a report says of the best constant prediction: whether there is an estimate beside its limits.
const CONSTANTS: [&str; 2] =
    ["best constant prediction is estimated at # (from # to #).", "best constant prediction is from # to #."];

/// The warning of an accepted model whose limits are not better than those of the best constant.
const NOT_SHOWN: &str = " Warning: this does not show that the model is better than the best constant prediction: \
                         require better_than = \"constant\", or use more rows, a larger ε or other features.";

/// A sentence of a report, with `#` for each number.
pub(crate) fn sentence(text: &str) -> String {
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
    let masked = match out.strip_prefix("every number is known to within # with a confidence of # %") {
        Some(rest) => format!("PRECISION{rest}"),
        None => out.replace(HIDDEN, "PRECISION"),
    };
    let masked = REMEDIES.iter().fold(masked, |text, remedy| text.replace(remedy, "REMEDY"));
    CONSTANTS.iter().fold(masked, |text, constant| text.replace(constant, "CONSTANT")).replace(NOT_SHOWN, "")
}

/// The text with every long run of hexadecimal digits replaced: digests and random names.
pub(crate) fn without_digests(text: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    for sign in text.chars().chain(['\n']) {
        if sign.is_ascii_hexdigit() {
            run.push(sign);
            continue;
        }
        // A decimal number is no digest, however many digits it has.
        let digest = run.len() >= 32 || (run.len() >= 16 && run.contains(|sign: char| sign.is_ascii_alphabetic()));
        out.push_str(if digest { "DIGEST" } else { &run });
        run.clear();
        out.push(sign);
    }
    out.trim_end().to_owned()
}

/// Every single change of a note outside the listed fields, and every change of shape inside them, is a difference.
pub(crate) fn noise_hides_no_other_field() {
    let report = serde_json::json!({
        "run": 1, "serial": 2, "verdict": "accept", "confidence": 0.95, "release": "a".repeat(64),
        "estimates": [{"value": 1.5, "low": null, "high": 2.0}],
        "best_constant": {"value": 0.25, "low": 0.2, "high": 0.3},
        "sums": [[120.5, 3000.25]], "uncertainty": {"sampling": 0.1, "noise": 0.2, "missed_by": -0.3},
        "explanation": "the mean loss is 0.0123, at most 0.05 with a confidence of 95 %",
    });
    let note = serde_json::json!({"note": "run-stepped", "run": 1, "step": {"step": "judged", "report": report}});
    let changed = |pointer: &str, to: Value| {
        let mut other = note.clone();
        *other.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = to;
        masked_note(&other) != masked_note(&note)
    };
    for (pointer, to) in [
        ("/run", 2.into()),
        ("/step/step", "lost".into()),
        ("/step/report/verdict", "retry".into()),
        ("/step/report/confidence", 0.9.into()),
        ("/step/report/serial", 3.into()),
        ("/step/report/release", Value::Null),
        ("/step/report/release", "a word".into()),
        ("/step/report/estimates", serde_json::json!([])),
        ("/step/report/estimates/0/value", "1.5".into()),
        ("/step/report/best_constant", Value::Null),
        ("/step/report/best_constant/low", "0.2".into()),
        ("/step/report/sums", serde_json::json!([])),
        ("/step/report/sums/0", serde_json::json!([120.5])),
        ("/step/report/uncertainty", serde_json::json!({"sampling": 0.1, "noise": 0.2})),
        ("/step/report/uncertainty/noise", "0.2".into()),
        ("/step/report/estimates/0", serde_json::json!({"value": 1.5, "low": null, "high": 2.0, "rows": 7})),
        ("/step/report/explanation", "the mean loss is 0.0123 of 7, at most 0.05 with a confidence of 95 %".into()),
        ("/step/report/explanation", "the mean loss is 0.0123, at most 0.05 with a confidence of 95 %!".into()),
        ("/step/report/explanation", "the mean loss is unknown, at most 0.05 with a confidence of 95 %".into()),
    ] {
        assert!(changed(pointer, to.clone()), "{pointer} = {to} is hidden");
    }
    for (pointer, to) in [
        ("/step/report/estimates/0/value", (-7.25e-9).into()),
        ("/step/report/estimates/0/high", Value::Null),
        ("/step/report/best_constant/value", Value::Null),
        ("/step/report/sums/0/1", 17.into()),
        ("/step/report/uncertainty", Value::Null),
        ("/step/report/uncertainty/missed_by", 0.5.into()),
        ("/step/report/release", "b".repeat(64).into()),
        ("/step/report/explanation", "the mean loss is -1.5e-7, at most 0.05 with a confidence of 95 %".into()),
    ] {
        assert!(!changed(pointer, to.clone()), "{pointer} = {to} is noise");
    }
}
