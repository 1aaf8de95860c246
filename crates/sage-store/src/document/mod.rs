//! Files that people write: TOML, read key by key, refused with the line at fault, written back in one form.
//!
//! The file of a stream and that of a pipeline are read by the same means, so that both speak of mistakes in
//! the same way. Nothing here knows what a key means, and nothing here sees a row.

mod error;
mod section;

use toml::de::DeTable;

pub use error::DocumentError;
pub(crate) use section::Lines;
pub use section::{Section, Shape};

/// A file beyond this describes nothing that a person wrote.
const TEXT_LIMIT: usize = 16 << 20;

/// What a name of ours may be, for messages.
pub const NAME: &str = "1 to 64 small letters, digits, `-` or `_`, starting with a letter";

/// Reads the whole of a text by a function of its outermost table.
pub fn parse<T>(text: &str, read: impl FnOnce(&Section<'_>) -> Result<T, DocumentError>) -> Result<T, DocumentError> {
    if text.len() > TEXT_LIMIT {
        return Err(DocumentError::Syntax { line: 1, reason: "it is larger than 16 MiB".to_owned() });
    }
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| DocumentError::Syntax {
        line: error.span().map_or(1, |span| lines.line(&span)),
        reason: error.message().to_owned(),
    })?;
    read(&Section::whole(table.get_ref(), lines))
}

/// Whether a text can name a stream or a pipeline, and with it a folder.
pub fn is_name(text: &str) -> bool {
    let plain = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
    plain && text.len() <= 64 && text.starts_with(|letter: char| letter.is_ascii_lowercase())
}

/// A text as TOML writes it between quotes.
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

/// A list of texts as TOML writes it.
pub fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}
