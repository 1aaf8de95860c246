//! CSV with a header, as in RFC 4180, also with semicolons or tabs as delimiters.
//!
//! Only declared columns are read, all as text. An empty field without quotes is null.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

use super::lines::RecordBuffer;
use super::{BATCH_BYTES, BATCH_ROWS, Decoder, RawBatch, Typing, column_indices};
use crate::ingest::error::IngestError;

/// A field of the current record, as a range of the buffer.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    end: usize,
    quoting: Quoting,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Quoted,
    /// Quoted, with doubled quotes inside.
    Escaped,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    Closed,
}

/// A builder for a text column of a batch.
struct TextBuilder {
    offsets: Vec<i32>,
    values: Vec<u8>,
    present: Vec<bool>,
}

impl TextBuilder {
    fn new() -> Self {
        Self { offsets: vec![0], values: Vec::new(), present: Vec::new() }
    }

    fn push(&mut self, record: &[u8], field: Field) {
        let bytes = &record[field.start..field.end];
        match field.quoting {
            Quoting::Escaped => {
                let mut rest = bytes;
                while let Some(quote) = rest.iter().position(|&byte| byte == b'"') {
                    self.values.extend_from_slice(&rest[..=quote]);
                    rest = rest.get(quote + 2..).unwrap_or_default();
                }
                self.values.extend_from_slice(rest);
            }
            _ => self.values.extend_from_slice(bytes),
        }
        self.present.push(!bytes.is_empty() || field.quoting != Quoting::None);
        // A batch has a few megabytes plus one record, far below the limit of the type.
        self.offsets.push(i32::try_from(self.values.len()).unwrap_or(i32::MAX));
    }

    /// Returns the column and starts a new one. Returns `None` if a text is not UTF-8.
    fn finish(&mut self) -> Option<ArrayRef> {
        let column = std::mem::replace(self, Self::new());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(column.offsets));
        let nulls = Some(NullBuffer::from(column.present)).filter(|nulls| nulls.null_count() > 0);
        let texts = StringArray::try_new(offsets, column.values.into(), nulls).ok()?;
        Some(Arc::new(texts))
    }
}

pub(super) struct Rows {
    file: String,
    input: RecordBuffer,
    delimiter: u8,
    fields: Vec<Field>,
    width: usize,
    /// For each declared column, its index in a record.
    indices: Vec<usize>,
    columns: Vec<TextBuilder>,
    line: u64,
    ended: bool,
}

impl Rows {
    pub(super) fn open(file: &str, bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        let mut rows = Self::at_start(file, bytes);
        rows.columns = names.iter().map(|_| TextBuilder::new()).collect();
        let present = rows.read_header()?;
        let present: Vec<&str> = present.iter().map(String::as_str).collect();
        rows.indices = column_indices(file, names, &present)?;
        Ok(rows)
    }

    fn at_start(file: &str, bytes: Box<dyn Read + Send>) -> Self {
        Self {
            file: file.to_owned(),
            input: RecordBuffer::new(bytes),
            delimiter: b',',
            fields: Vec::new(),
            width: 0,
            indices: Vec::new(),
            columns: Vec::new(),
            line: 1,
            ended: false,
        }
    }

    fn malformed(&self, reason: &'static str) -> IngestError {
        IngestError::Malformed { file: self.file.clone(), line: Some(self.line), reason }
    }

    /// Reads the header, which is the first record, and detects the delimiter.
    fn read_header(&mut self) -> Result<Vec<String>, IngestError> {
        // A first line that does not fit into one read is taken to use commas.
        self.input.fill(&self.file, 1)?;
        if self.input.available().starts_with(b"\xEF\xBB\xBF") {
            self.input.consume(3);
        }
        let first = self.input.available().split(|&byte| byte == b'\n').next().unwrap_or_default();
        let count = |delimiter: u8| first.iter().filter(|&&byte| byte == delimiter).count();
        self.delimiter =
            if count(b',') > 0 { b',' } else { *b";\t,".iter().max_by_key(|&&byte| count(byte)).unwrap_or(&b',') };
        let Some(length) = self.scan_record()? else { return Err(IngestError::Empty { file: self.file.clone() }) };
        let record = &self.input.available()[..length];
        let mut names = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let name = std::str::from_utf8(&record[field.start..field.end]).map_err(|_| self.malformed(NOT_UTF8))?;
            names.push(name.trim().to_owned());
        }
        self.width = self.fields.len();
        self.input.consume(length);
        Ok(names)
    }

    /// Finds the fields of the next record. Returns its length, or `None` at the end of the file.
    fn scan_record(&mut self) -> Result<Option<usize>, IngestError> {
        self.fields.clear();
        let (mut end, mut start, mut state, mut quoting) = (0, 0, State::Start, Quoting::None);
        loop {
            let bytes = self.input.available();
            while let Some(&byte) = bytes.get(end) {
                end += 1;
                match state {
                    State::Quoted if byte == b'"' => state = State::Closed,
                    State::Quoted => {}
                    State::Start if byte == b'"' => (state, quoting, start) = (State::Quoted, Quoting::Quoted, end),
                    State::Closed if byte == b'"' => (state, quoting) = (State::Quoted, Quoting::Escaped),
                    State::Closed if byte == b'\r' => {}
                    _ if byte == self.delimiter || byte == b'\n' => {
                        self.fields.push(field(bytes, start, end - 1, state, quoting));
                        (start, state, quoting) = (end, State::Start, Quoting::None);
                        if byte == b'\n' {
                            return Ok(Some(end));
                        }
                    }
                    State::Closed => return Err(self.malformed("a closing quote is followed by more text")),
                    _ => state = State::Plain,
                }
            }
            if !self.input.fill(&self.file, self.line)? {
                break;
            }
        }
        if end == 0 {
            return Ok(None);
        }
        if state == State::Quoted {
            return Err(self.malformed("the file ends within quotes"));
        }
        let last = field(self.input.available(), start, end, state, quoting);
        self.fields.push(last);
        Ok(Some(end))
    }

    /// Adds the next record to the batch. Returns its length, or `None` at the end of the file.
    fn read_record(&mut self) -> Result<Option<usize>, IngestError> {
        self.line += 1;
        let Some(length) = self.scan_record()? else { return Ok(None) };
        let record = &self.input.available()[..length];
        let blank = self.width > 1 && record.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        if !blank {
            if self.fields.len() != self.width {
                return Err(self.malformed("the number of fields differs from the header's"));
            }
            for (column, &index) in self.columns.iter_mut().zip(&self.indices) {
                column.push(record, self.fields[index]);
            }
        }
        self.input.consume(length);
        Ok(Some(length))
    }
}

/// Reads the names in the header, and no rows.
pub(super) fn read_header(file: &str, bytes: Box<dyn Read + Send>) -> Result<Vec<String>, IngestError> {
    Rows::at_start(file, bytes).read_header()
}

const NOT_UTF8: &str = "the text is not UTF-8";

fn field(bytes: &[u8], start: usize, end: usize, state: State, quoting: Quoting) -> Field {
    let carriage = end > start && bytes[end - 1] == b'\r';
    let mut end = if carriage { end - 1 } else { end };
    if state == State::Closed {
        // The field ends before its closing quote.
        end = bytes[start..end].iter().rposition(|&byte| byte == b'"').map_or(end, |quote| start + quote);
    }
    Field { start, end, quoting }
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<RawBatch>, IngestError> {
        let (mut rows, mut bytes) = (0, 0);
        while !self.ended && rows < BATCH_ROWS && bytes < BATCH_BYTES {
            match self.read_record()? {
                Some(length) => bytes += length,
                None => self.ended = true,
            }
            rows = self.columns.first().map_or(0, |column| column.present.len());
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns: Option<Vec<ArrayRef>> = self.columns.iter_mut().map(TextBuilder::finish).collect();
        let Some(columns) = columns else {
            return Err(IngestError::Malformed { file: self.file.clone(), line: None, reason: NOT_UTF8 });
        };
        Ok(Some(RawBatch { columns, rows, typing: Typing::Text }))
    }
}
