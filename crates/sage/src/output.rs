//! Standard output: text, or one JSON value.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON value on a line to standard output, with sorted keys.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(|error| Failure::Output(error.into()))?;
    print(&format!("{value}\n"))
}

/// Writes one JSON value to standard output, with sorted keys.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(|error| Failure::Output(error.into()))?;
    print(&format!("{value:#}\n"))
}
