//! Texts. A computed text that is longer than the limit is null.

use arrow::array::RecordBatch;
use arrow::buffer::{BooleanBuffer, NullBuffer};

use super::{Booleans, Evaluate, Texts, Vector, text_array};
use crate::program::{Ends, Extreme, LONGEST_TEXT, Text};
use crate::schema;

impl Evaluate for Text {
    type Values = Texts;

    fn evaluate(&self, batch: &RecordBatch) -> Texts {
        match self {
            Self::Column(index) => schema::texts(batch.column(*index)),
            Self::Constant(value) => Texts::Constant(value.clone()),
            Self::FromBoolean(of) => {
                let booleans = of.evaluate(batch).into_array(batch.num_rows());
                let name = |boolean: bool| if boolean { "true" } else { "false" };
                Texts::Rows(text_array(
                    (0..booleans.len())
                        .map(|row| arrow::array::Array::is_valid(&booleans, row).then(|| name(booleans.value(row)))),
                ))
            }
            Self::FromInteger(of) => format_values(of.evaluate(batch), |value| value.to_string()),
            Self::FromFloat(of) => format_values(of.evaluate(batch), |value| format!("{value:?}")),
            Self::Upper(of) => of.evaluate(batch).map(|text| within_limit(text.to_uppercase())),
            Self::Lower(of) => of.evaluate(batch).map(|text| within_limit(text.to_lowercase())),
            Self::Trimmed(ends, of, characters) => {
                trim(*ends, &of.evaluate(batch), &characters.evaluate(batch), batch.num_rows())
            }
            Self::Concatenated(parts) => concatenate(parts, batch, |part| Some(part.unwrap_or_default())),
            Self::Joined(parts) => concatenate(parts, batch, |part| part),
            Self::Substring(of, start, count) => {
                let (start, count) = (*start, *count);
                of.evaluate(batch).map(|text| Some(substring(text, start, count).to_owned()))
            }
            Self::Left(of, count) => {
                let count = *count;
                of.evaluate(batch).map(|text| Some(substring(text, 1, Some(count)).to_owned()))
            }
            Self::Right(of, count) => {
                let count = usize::try_from(*count).unwrap_or(0);
                of.evaluate(batch).map(|text| {
                    let skipped = text.chars().count().saturating_sub(count);
                    let from = text.char_indices().nth(skipped).map_or(text.len(), |(offset, _)| offset);
                    Some(text[from..].to_owned())
                })
            }
            Self::Extreme(which, all) => extreme_text(*which, all, batch),
            Self::Choice(choice) => choice.evaluate(batch),
        }
    }
}

fn within_limit(text: String) -> Option<String> {
    (text.len() <= LONGEST_TEXT).then_some(text)
}

/// Formats numbers as texts.
fn format_values<T: arrow::datatypes::ArrowNativeType>(of: Vector<T>, write: impl Fn(T) -> String) -> Texts {
    match of {
        Vector::Constant(value) => Texts::Constant(value.map(write)),
        Vector::Rows(values, nulls) => {
            let mut builder = arrow::array::StringViewBuilder::with_capacity(values.len());
            for (row, value) in values.iter().enumerate() {
                let known = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                builder.append_option(known.then(|| write(*value)));
            }
            Texts::Rows(builder.finish())
        }
    }
}

/// The characters from a position counted from 1. A start before the first character reduces the count, as in the SQL
/// standard.
fn substring(text: &str, start: i64, count: Option<i64>) -> &str {
    let end = count.map(|count| start.saturating_add(count));
    let offset = |position: i64| {
        let skipped = usize::try_from(position.saturating_sub(1)).unwrap_or(0);
        text.char_indices().nth(skipped).map_or(text.len(), |(offset, _)| offset)
    };
    let from = offset(start.max(1));
    let to = end.map_or(text.len(), |end| offset(end.max(1)));
    &text[from..to.max(from)]
}

fn trim(ends: Ends, of: &Texts, characters: &Texts, rows: usize) -> Texts {
    if let Texts::Constant(Some(characters)) = characters {
        let listed = sorted_characters(characters);
        return of.map(|text| Some(trim_text(ends, text, &listed)));
    }
    let trim_row = |row| Some(trim_text(ends, of.get(row)?, &sorted_characters(characters.get(row)?)));
    let values: Vec<Option<String>> = (0..rows).map(trim_row).collect();
    Texts::Rows(text_array(values.iter().map(Option::as_deref)))
}

/// The listed characters are sorted, so that a long list does not multiply the time of a long text.
fn trim_text(ends: Ends, text: &str, sorted: &[char]) -> String {
    let listed = |character: char| sorted.binary_search(&character).is_ok();
    let text = if ends == Ends::End { text } else { text.trim_start_matches(listed) };
    if ends == Ends::Start { text.to_owned() } else { text.trim_end_matches(listed).to_owned() }
}

fn sorted_characters(of: &str) -> Vec<char> {
    let mut characters: Vec<char> = of.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    characters
}

/// Concatenates texts; `count` maps a null part to a text, or to `None` to make the result null.
fn concatenate(
    parts: &[Text], batch: &RecordBatch, count: impl for<'a> Fn(Option<&'a str>) -> Option<&'a str>,
) -> Texts {
    let parts: Vec<Texts> = parts.iter().map(|part| part.evaluate(batch)).collect();
    let mut builder = arrow::array::StringViewBuilder::with_capacity(batch.num_rows());
    let mut whole = String::new();
    for row in 0..batch.num_rows() {
        whole.clear();
        let mut known = true;
        for part in &parts {
            match count(part.get(row)) {
                Some(text) if whole.len() + text.len() <= LONGEST_TEXT => whole.push_str(text),
                _ => known = false,
            }
        }
        builder.append_option(known.then_some(whole.as_str()));
    }
    Texts::Rows(builder.finish())
}

/// The position of one text in another, counted in characters from 1; 0 if it is not contained.
pub(super) fn position(of: &Texts, wanted: &Texts, batch: &RecordBatch) -> Vector<i64> {
    let find = |text: &str, wanted: &str| {
        let found = text.find(wanted).map(|offset| text[..offset].chars().count() + 1);
        i64::try_from(found.unwrap_or(0)).unwrap_or(i64::MAX)
    };
    if let Texts::Constant(Some(wanted)) = wanted {
        return of.map_to(|text| find(text, wanted));
    }
    let rows = 0..batch.num_rows();
    let found: Vec<Option<i64>> = rows.map(|row| Some(find(of.get(row)?, wanted.get(row)?))).collect();
    let known = BooleanBuffer::collect_bool(found.len(), |row| found[row].is_some());
    Vector::Rows(found.into_iter().map(Option::unwrap_or_default).collect(), Some(NullBuffer::new(known)))
}

/// The greatest or least text; nulls are skipped.
fn extreme_text(which: Extreme, all: &[Text], batch: &RecordBatch) -> Texts {
    let all: Vec<Texts> = all.iter().map(|one| one.evaluate(batch)).collect();
    let best = |row: usize| {
        let known = all.iter().filter_map(|one| one.get(row));
        match which {
            Extreme::Greatest => known.max(),
            Extreme::Least => known.min(),
        }
    };
    Texts::Rows(text_array((0..batch.num_rows()).map(best)))
}

/// Parses a text as a boolean.
pub(super) fn boolean(of: &Texts) -> Booleans {
    let named = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(1_i64),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(0),
        _ => None,
    };
    of.parsed(named).test(|found| found == 1)
}
