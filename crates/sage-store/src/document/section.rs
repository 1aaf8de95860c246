//! A TOML table that is read key by key and knows the line of each key.
//!
//! Decimals can be read as text, so that a budget never passes through a float.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{DocumentError, nearest};

/// The text of a file, for turning byte offsets into line numbers.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'text>(&'text str);

impl<'text> Lines<'text> {
    pub(crate) fn new(text: &'text str) -> Self {
        Self(text)
    }

    /// The line in which a byte range starts, counted from one.
    pub(crate) fn line(self, span: &Range<usize>) -> usize {
        1 + self.0.bytes().take(span.start).filter(|&byte| byte == b'\n').count()
    }
}

/// The TOML type of a value, for keys that accept several types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text.
    Text,
    /// An integer or a float.
    Number,
    /// A list.
    List,
    /// A table.
    Table,
    /// A boolean or a date.
    Other,
}

/// A TOML table with its path and its line.
#[derive(Clone)]
pub struct Section<'file> {
    table: &'file DeTable<'file>,
    lines: Lines<'file>,
    /// The names of the enclosing tables and its own, joined by dots; empty for the whole file.
    pub path: String,
    /// The line it starts on.
    pub line: usize,
}

type Read<T> = Result<T, DocumentError>;

impl<'file> Section<'file> {
    /// The root table of a file.
    pub(crate) fn root(table: &'file DeTable<'file>, lines: Lines<'file>) -> Self {
        Self { table, lines, path: String::new(), line: 1 }
    }

    /// The full path of a key, such as `stream.blocks.time`.
    pub fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Checks that the table has no other keys than these; the error names the first other key in the file.
    pub fn only(&self, allowed: &[&'static str]) -> Read<()> {
        // The table is ordered by name, the error is for the first key in the file.
        let unknown = self.table.iter().filter(|(key, _)| !allowed.contains(&key.get_ref().as_ref()));
        let Some((key, _)) = unknown.min_by_key(|(key, _)| key.span().start) else { return Ok(()) };
        Err(DocumentError::Unknown {
            line: self.lines.line(&key.span()),
            field: self.field(key.get_ref()),
            allowed: allowed.to_vec(),
            suggestion: nearest(key.get_ref(), allowed),
        })
    }

    /// Whether the table has this key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn get(&self, key: &str) -> Option<&'file Spanned<DeValue<'file>>> {
        self.table.get(key)
    }

    /// The error for an absent key.
    pub fn missing(&self, key: &str, allowed: impl Into<String>) -> DocumentError {
        DocumentError::Missing { line: self.line, field: self.field(key), allowed: allowed.into() }
    }

    /// The error for a key with an invalid value.
    pub fn wrong(&self, key: &str, allowed: impl Into<String>) -> DocumentError {
        let value = self.get(key);
        let line = value.map_or(self.line, |value| self.lines.line(&value.span()));
        let found = value.map_or_else(|| "absent".to_owned(), |value| describe(value.get_ref()));
        DocumentError::Wrong { line, field: self.field(key), found, allowed: allowed.into() }
    }

    /// A required text.
    pub fn text(&self, key: &str, allowed: &str) -> Read<&'file str> {
        self.optional_text(key, allowed)?.ok_or_else(|| self.missing(key, allowed))
    }

    /// An optional text.
    pub fn optional_text(&self, key: &str, allowed: &str) -> Read<Option<&'file str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.get_ref().as_str().map(Some).ok_or_else(|| self.wrong(key, allowed))
    }

    /// The value that one of these words stands for, or the default if the key is absent. Without a default the key is
    /// required.
    pub fn choice<T: Copy>(&self, key: &str, words: &[(&'static str, T)], default: Option<T>) -> Read<T> {
        let names: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let allowed = names.join(" or ");
        let Some(text) = self.optional_text(key, &allowed)? else {
            return default.ok_or_else(|| self.missing(key, allowed));
        };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
            let hint = nearest(text, &known).map_or_else(String::new, |word| format!(" (did you mean \"{word}\"?)"));
            self.wrong(key, format!("{allowed}{hint}"))
        })
    }

    /// A boolean, or the default if the key is absent.
    pub fn flag(&self, key: &str, default: bool) -> Read<bool> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.get_ref().as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// An optional decimal as it is written in the file: a text, a float or an integer.
    pub fn decimal(&self, key: &str, allowed: &str) -> Read<Option<String>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(text.trim().to_owned())),
            DeValue::Float(float) => Ok(Some(float.as_str().to_owned())),
            DeValue::Integer(integer) if integer.radix() == 10 => Ok(Some(integer.as_str().to_owned())),
            _ => Err(self.wrong(key, allowed)),
        }
    }

    /// A required finite number.
    pub fn number(&self, key: &str, allowed: &str) -> Read<f64> {
        let value = self.get(key).ok_or_else(|| self.missing(key, allowed))?;
        finite(value.get_ref()).ok_or_else(|| self.wrong(key, allowed))
    }

    /// A required list of finite numbers.
    pub fn numbers(&self, key: &str, allowed: &str) -> Read<Vec<f64>> {
        let value = self.get(key).ok_or_else(|| self.missing(key, allowed))?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(key, allowed))?;
        let numbers = list.iter().map(|item| finite(item.get_ref()));
        numbers.collect::<Option<Vec<f64>>>().ok_or_else(|| self.wrong(key, allowed))
    }

    /// The type of a key's value, or `None` if the key is absent.
    pub fn shape(&self, key: &str) -> Option<Shape> {
        Some(match self.get(key)?.get_ref() {
            DeValue::String(_) => Shape::Text,
            DeValue::Integer(_) | DeValue::Float(_) => Shape::Number,
            DeValue::Array(_) => Shape::List,
            DeValue::Table(_) => Shape::Table,
            DeValue::Boolean(_) | DeValue::Datetime(_) => Shape::Other,
        })
    }

    /// A required integer.
    pub fn whole_number(&self, key: &str, allowed: &str) -> Read<i64> {
        let value = self.get(key).ok_or_else(|| self.missing(key, allowed))?;
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong(key, allowed))?;
        i64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| self.wrong(key, allowed))
    }

    /// An optional list of texts.
    pub fn texts(&self, key: &str, allowed: &str) -> Read<Option<Vec<String>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(key, allowed))?;
        let texts = list.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
        texts.collect::<Option<Vec<String>>>().map(Some).ok_or_else(|| self.wrong(key, allowed))
    }

    /// The table under a key, or `None` if the key is absent.
    pub fn section(&self, key: &str) -> Read<Option<Section<'file>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let table = value.get_ref().as_table().ok_or_else(|| self.wrong(key, "a table"))?;
        let line = self.lines.line(&value.span());
        Ok(Some(Section { table, lines: self.lines, path: self.field(key), line }))
    }

    /// The tables of an array of tables, or none if the key is absent.
    pub fn sections(&self, key: &str) -> Read<Vec<Section<'file>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let allowed = format!("a list of tables, in braces or each under [[{}]]", self.field(key));
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(key, allowed.as_str()))?;
        let mut sections = Vec::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            let table = item.get_ref().as_table().ok_or_else(|| self.wrong(key, allowed.as_str()))?;
            let path = format!("{}[{index}]", self.field(key));
            sections.push(Section { table, lines: self.lines, path, line: self.lines.line(&item.span()) });
        }
        Ok(sections)
    }
}

/// The value as a number, if it is a decimal and finite.
fn finite(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A value for an error message: short ones in full, others by their type.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.chars().count() <= 60 => format!("\"{text}\""),
        DeValue::String(_) => "a long text".to_owned(),
        DeValue::Integer(integer) => integer.as_str().to_owned(),
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
