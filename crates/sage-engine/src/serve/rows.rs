//! Reads rows for a model from CSV with a header, or from newline-delimited JSON.

use std::io::{BufRead, BufReader, Read};

use arrow::array::{Array, ArrayRef, AsArray};
use sage_model::formula::{Cell, Column};
use serde_json::{Map, Value};

use super::RowError;
use super::cell::{parse_json_cell, parse_text_cell};
use crate::ingest::{CsvTexts, IngestError};
use crate::suggest::nearest;

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Values separated by commas, semicolons or tabs, under a header.
    Csv,
    /// A JSON object on each line.
    Ndjson,
}

/// The maximum length of a JSON line.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// A reader of rows for a model.
pub struct RowReader {
    columns: Vec<Column>,
    lines: Lines,
    /// The number of rows read so far.
    row: u64,
}

enum Lines {
    Csv { texts: CsvTexts, batch: Vec<ArrayRef>, at: usize },
    Ndjson { bytes: Box<dyn BufRead + Send>, line: u64 },
}

impl RowReader {
    /// Reads rows with these columns. Without a format, a leading brace selects JSON.
    ///
    /// # Errors
    /// When the input is empty, or the CSV header lacks a column.
    pub fn new(
        columns: &[Column], bytes: impl Read + Send + 'static, format: Option<RowFormat>,
    ) -> Result<Self, RowError> {
        let mut bytes = BufReader::new(bytes);
        let braced = first_byte(&mut bytes)? == b'{';
        let format = format.unwrap_or(if braced { RowFormat::Ndjson } else { RowFormat::Csv });
        let lines = match format {
            RowFormat::Ndjson => Lines::Ndjson { bytes: Box::new(bytes), line: 0 },
            RowFormat::Csv => {
                let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
                let texts = CsvTexts::open(Box::new(bytes), &names).map_err(from_csv_error)?;
                Lines::Csv { texts, batch: Vec::new(), at: 0 }
            }
        };
        Ok(Self { columns: columns.to_vec(), lines, row: 0 })
    }

    /// Reads up to `most` more rows; none at the end.
    ///
    /// # Errors
    /// At the first row that the model cannot take. Rows read before are consumed.
    pub fn take_rows(&mut self, most: usize) -> Result<Vec<Vec<Cell>>, RowError> {
        let mut rows = Vec::new();
        while rows.len() < most {
            match self.next_row()? {
                Some(row) => rows.push(row),
                None => break,
            }
        }
        Ok(rows)
    }

    fn next_row(&mut self) -> Result<Option<Vec<Cell>>, RowError> {
        let number = self.row + 1;
        let row = match &mut self.lines {
            Lines::Csv { texts, batch, at } => {
                if batch.first().is_none_or(|column| *at >= column.len()) {
                    let Some(next) = texts.next_batch().map_err(from_csv_error)? else { return Ok(None) };
                    (*batch, *at) = (next, 0);
                }
                let index = std::mem::replace(at, *at + 1);
                parse_text_row(&self.columns, number, batch, index)?
            }
            Lines::Ndjson { bytes, line } => {
                let Some(object) = next_object(bytes, line)? else { return Ok(None) };
                parse_json_row(&self.columns, number, &object)?
            }
        };
        self.row = number;
        Ok(Some(row))
    }
}

/// The first byte that is neither whitespace nor part of a byte-order mark. It is not consumed.
fn first_byte(bytes: &mut impl BufRead) -> Result<u8, RowError> {
    loop {
        let start = bytes.fill_buf().map_err(|error| RowError::Unreadable(error.kind().to_string()))?;
        let marked = if start.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        let blank = start[marked..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if let Some(&sign) = start.get(marked + blank) {
            bytes.consume(marked + blank);
            return Ok(sign);
        }
        if start.is_empty() {
            let why = "the input is empty; send CSV with a header, or one JSON object per line";
            return Err(RowError::Unreadable(why.to_owned()));
        }
        bytes.consume(marked + blank);
    }
}

fn parse_text_row(columns: &[Column], row: u64, batch: &[ArrayRef], index: usize) -> Result<Vec<Cell>, RowError> {
    let cells = columns.iter().zip(batch).map(|(column, texts)| {
        let texts = texts.as_string_opt::<i32>().filter(|texts| texts.is_valid(index));
        let wrong = |why| RowError::Cell { row, column: column.name.clone(), why };
        parse_text_cell(column, texts.map(|texts| texts.value(index))).map_err(wrong)
    });
    cells.collect()
}

/// Converts a JSON object to a row: a key for each column, null where a value may be missing. Other keys are ignored.
///
/// # Errors
/// At the first column whose value is missing or not allowed.
pub fn parse_json_row(columns: &[Column], row: u64, object: &Map<String, Value>) -> Result<Vec<Cell>, RowError> {
    let cells = columns.iter().map(|column| {
        let wrong = |why| RowError::Cell { row, column: column.name.clone(), why };
        // An absent key may be a typing error, for which null would be wrong.
        let value = object.get(&column.name).ok_or_else(|| wrong(missing_key_message(columns, column, object)))?;
        parse_json_cell(column, value).map_err(wrong)
    });
    cells.collect()
}

fn missing_key_message(columns: &[Column], column: &Column, object: &Map<String, Value>) -> String {
    let unknown = object.keys().map(String::as_str).filter(|key| columns.iter().all(|column| column.name != *key));
    let unknown: Vec<&str> = unknown.collect();
    let meant = nearest(&column.name, &unknown).map_or_else(String::new, |key| format!("; is it {key:?}?"));
    format!("the object has no such key; give {}, or null if the value is missing{meant}", super::allowed(column))
}

/// The object on the next non-blank line.
fn next_object(bytes: &mut Box<dyn BufRead + Send>, line: &mut u64) -> Result<Option<Map<String, Value>>, RowError> {
    loop {
        let mut text = Vec::new();
        *line += 1;
        let read = bytes.take(MAX_LINE_BYTES).read_until(b'\n', &mut text);
        if read.map_err(|error| RowError::Unreadable(error.kind().to_string()))? == 0 {
            return Ok(None);
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let wrong = || RowError::Line { line: *line, why: "this is not one JSON object".to_owned() };
        return serde_json::from_slice(text.trim_ascii()).map(Some).map_err(|_| wrong());
    }
}

/// Converts a CSV error for the client of a model.
fn from_csv_error(error: IngestError) -> RowError {
    match error {
        IngestError::Missing { columns, .. } => RowError::Header { missing: columns },
        IngestError::Malformed { line: Some(line), reason, .. } => RowError::Line { line, why: reason.to_owned() },
        IngestError::Malformed { line: None, reason, .. } => RowError::Unreadable(reason.to_owned()),
        IngestError::Unreadable { reason, .. } => RowError::Unreadable(reason),
        other => RowError::Unreadable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use sage_model::formula::{Domain, Missing};

    use super::*;

    fn columns() -> Vec<Column> {
        let number = Domain::Number { low: 0.0, high: 100.0 };
        let text = Domain::Text { categories: vec!["card".to_owned(), "cash".to_owned()] };
        vec![
            Column { name: "distance".to_owned(), domain: number, missing: Missing::Never },
            Column { name: "payment".to_owned(), domain: text, missing: Missing::Possible },
        ]
    }

    fn read(text: &'static str) -> Result<Vec<Vec<Cell>>, String> {
        let reader = RowReader::new(&columns(), text.as_bytes(), None).map_err(|error| error.to_string());
        reader?.take_rows(usize::MAX).map_err(|error| error.to_string())
    }

    #[test]
    fn csv_and_json_give_the_same_rows() {
        let rows = vec![vec![Cell::Number(2.5), Cell::Text("card".to_owned())], vec![Cell::Number(3.0), Cell::Null]];
        for text in [
            "payment,distance\ncard,2.5\n,3\n",
            "\u{feff}extra;distance;payment\r\nx;2.5;\"card\"\r\ny;3;\r\n",
            "{\"distance\": 2.5, \"payment\": \"card\"}\n\n{\"payment\": null, \"distance\": 3, \"more\": 1}",
            " \n{\"distance\": \"2.5\", \"payment\": \"card\"}\n{\"payment\": \"\", \"distance\": 3.0}\n",
        ] {
            assert_eq!(read(text), Ok(rows.clone()), "{text}");
        }
    }

    /// A deterministic sequence of numbers. The seed is the case number, which failures report.
    fn next(state: &mut u64) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    }

    #[test]
    fn every_input_is_read_or_refused() {
        const PIECES: &[&str] = &[
            "distance",
            "payment",
            "card",
            "1",
            "-1e400",
            "NaN",
            ",",
            ";",
            "\t",
            "\"",
            "\"\"",
            "\n",
            "\r\n",
            "{",
            "}",
            ":",
            "[",
            "null",
            "true",
            "\\u001b",
            "\u{feff}",
            "\u{0}",
            "é",
            " ",
            "{\"distance\": 1, \"payment\": null}\n",
        ];
        let (mut read, mut refused) = (0, 0);
        for case in 0..3000_u64 {
            let mut state = case;
            let start = ["", "distance,payment\n", "{\"distance\": 2, \"payment\": \"card\"}\n"][next(&mut state) % 3];
            let rest = (0..next(&mut state) % 12).map(|_| PIECES[next(&mut state) % PIECES.len()]);
            let text = format!("{start}{}", rest.collect::<String>());
            let reader = RowReader::new(&columns(), std::io::Cursor::new(text.clone()), None);
            match reader.and_then(|mut reader| reader.take_rows(usize::MAX)) {
                Ok(rows) => {
                    assert!(rows.iter().all(|row| row.len() == 2), "case {case}: {text:?}");
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().contains('\u{1b}'), "case {case}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
    }

    #[test]
    fn errors_name_the_row_and_the_column() {
        for (text, message) in [
            ("", "the input is empty"),
            ("distance\n1\n", "the header lacks columns that the model needs: payment"),
            ("distance,payment\n1,card\nfar,card\n", "row 2, column `distance`: \"far\" is not allowed; give a number"),
            ("distance,payment\n1\n", "line 2: the number of fields"),
            ("{\"distance\": 1, \"paymnt\": \"card\"}", "row 1, column `payment`: the object has no such key"),
            ("{\"distance\": 1, \"paymnt\": \"card\"}", "is it \"paymnt\"?"),
            ("{\"distance\": 1, \"payment\": null}\n{", "line 2: this is not one JSON object"),
            ("{\"distance\": 1, \"payment\": null}\n[1]", "line 2: this is not one JSON object"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
