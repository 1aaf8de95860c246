//! Configuration files: TOML, read key by key, with errors that name the line and the key.
//!
//! Stream files and pipeline files are read through this module, so their errors have the same form. It knows
//! nothing of what a key means, and it never sees a row.

mod error;
mod section;

use toml::de::DeTable;

pub use error::DocumentError;
pub(crate) use section::Lines;
pub use section::{Section, Shape};

/// The largest file, in bytes. A file written by hand is far smaller.
const TEXT_LIMIT: usize = 16 << 20;

/// A description, for messages, of the names that [`is_name`] accepts.
pub const NAME: &str = "1 to 64 small letters, digits, `-` or `_`, starting with a letter";

/// Parses a text as TOML and passes its root table to `read`.
pub fn parse<T>(text: &str, read: impl FnOnce(&Section<'_>) -> Result<T, DocumentError>) -> Result<T, DocumentError> {
    if text.len() > TEXT_LIMIT {
        return Err(DocumentError::Syntax { line: 1, reason: "the file is larger than 16 MiB".to_owned() });
    }
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| DocumentError::Syntax {
        line: error.span().map_or(1, |span| lines.line(&span)),
        reason: error.message().to_owned(),
    })?;
    read(&Section::root(table.get_ref(), lines))
}

/// Whether a text is valid as the name of a stream or a pipeline, which is also the name of a folder.
pub fn is_name(text: &str) -> bool {
    let plain = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
    plain && text.len() <= 64 && text.starts_with(|letter: char| letter.is_ascii_lowercase())
}

/// A text as a quoted TOML string.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A list of texts as a TOML array.
pub fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}
