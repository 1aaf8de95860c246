//! CSV with a header, as RFC 4180 has it, with semicolons and tabs recognised.
//!
//! Only declared columns are kept, all as text. An empty field without quotes is absent.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

use super::lines::Buffered;
use super::{BATCH_BYTES, BATCH_ROWS, Decoder, Found, Typing, places};
use crate::ingest::error::IngestError;

/// A field of the record in hand, as a piece of the buffer.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    end: usize,
    quotes: Quotes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Around,
    /// Around, and doubled ones within.
    Within,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    Closed,
}

/// One column of a batch being put together.
struct Texts {
    offsets: Vec<i32>,
    values: Vec<u8>,
    present: Vec<bool>,
}

impl Texts {
    fn new() -> Self {
        Self { offsets: vec![0], values: Vec::new(), present: Vec::new() }
    }

    fn push(&mut self, record: &[u8], field: Field) {
        let bytes = &record[field.start..field.end];
        match field.quotes {
            Quotes::Within => {
                let mut rest = bytes;
                while let Some(at) = rest.iter().position(|&byte| byte == b'"') {
                    self.values.extend_from_slice(&rest[..=at]);
                    rest = rest.get(at + 2..).unwrap_or_default();
                }
                self.values.extend_from_slice(rest);
            }
            _ => self.values.extend_from_slice(bytes),
        }
        self.present.push(!bytes.is_empty() || field.quotes != Quotes::None);
        // A batch holds a few megabytes and one record more, each far below the limit of the type.
        self.offsets.push(i32::try_from(self.values.len()).unwrap_or(i32::MAX));
    }

    /// The column; nothing if it is not UTF-8.
    fn take(&mut self) -> Option<ArrayRef> {
        let taken = std::mem::replace(self, Self::new());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(taken.offsets));
        let nulls = Some(NullBuffer::from(taken.present)).filter(|nulls| nulls.null_count() > 0);
        let texts = StringArray::try_new(offsets, taken.values.into(), nulls).ok()?;
        Some(Arc::new(texts))
    }
}

pub(super) struct Rows {
    file: String,
    input: Buffered,
    delimiter: u8,
    fields: Vec<Field>,
    width: usize,
    /// For each declared column, its place in a record.
    places: Vec<usize>,
    columns: Vec<Texts>,
    line: u64,
    ended: bool,
}

impl Rows {
    pub(super) fn open(file: &str, bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        let mut rows = Self::at_start(file, bytes);
        rows.columns = names.iter().map(|_| Texts::new()).collect();
        rows.header(names)?;
        Ok(rows)
    }

    fn at_start(file: &str, bytes: Box<dyn Read + Send>) -> Self {
        Self {
            file: file.to_owned(),
            input: Buffered::new(bytes),
            delimiter: b',',
            fields: Vec::new(),
            width: 0,
            places: Vec::new(),
            columns: Vec::new(),
            line: 1,
            ended: false,
        }
    }

    fn wrong(&self, reason: &'static str) -> IngestError {
        IngestError::Malformed { file: self.file.clone(), line: Some(self.line), reason }
    }

    fn header(&mut self, names: &[String]) -> Result<(), IngestError> {
        let there = self.names()?;
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        self.places = places(&self.file, names, &there)?;
        Ok(())
    }

    /// Reads the first record, which is the header.
    fn names(&mut self) -> Result<Vec<String>, IngestError> {
        // The first line is short enough to be there at once, or the delimiter is a comma.
        self.input.more(&self.file, 1)?;
        if self.input.available().starts_with(b"\xEF\xBB\xBF") {
            self.input.consume(3);
        }
        let first = self.input.available().split(|&byte| byte == b'\n').next().unwrap_or_default();
        let count = |delimiter: u8| first.iter().filter(|&&byte| byte == delimiter).count();
        self.delimiter =
            if count(b',') > 0 { b',' } else { *b";\t,".iter().max_by_key(|&&byte| count(byte)).unwrap_or(&b',') };
        let Some(length) = self.record()? else { return Err(IngestError::Empty { file: self.file.clone() }) };
        let record = &self.input.available()[..length];
        let mut there = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let name = std::str::from_utf8(&record[field.start..field.end]).map_err(|_| self.wrong(NOT_UTF8))?;
            there.push(name.trim().to_owned());
        }
        self.width = self.fields.len();
        self.input.consume(length);
        Ok(there)
    }

    /// Finds the fields of the next record and how long it is; nothing at the end.
    fn record(&mut self) -> Result<Option<usize>, IngestError> {
        self.fields.clear();
        let (mut at, mut begin, mut state, mut quotes) = (0, 0, State::Start, Quotes::None);
        loop {
            let bytes = self.input.available();
            while let Some(&byte) = bytes.get(at) {
                at += 1;
                match state {
                    State::Quoted if byte == b'"' => state = State::Closed,
                    State::Quoted => {}
                    State::Start if byte == b'"' => (state, quotes, begin) = (State::Quoted, Quotes::Around, at),
                    State::Closed if byte == b'"' => (state, quotes) = (State::Quoted, Quotes::Within),
                    State::Closed if byte == b'\r' => {}
                    _ if byte == self.delimiter || byte == b'\n' => {
                        self.fields.push(field(bytes, begin, at - 1, state, quotes));
                        (begin, state, quotes) = (at, State::Start, Quotes::None);
                        if byte == b'\n' {
                            return Ok(Some(at));
                        }
                    }
                    State::Closed => return Err(self.wrong("a closing quote is followed by more text")),
                    _ => state = State::Plain,
                }
            }
            if !self.input.more(&self.file, self.line)? {
                break;
            }
        }
        if at == 0 {
            return Ok(None);
        }
        if state == State::Quoted {
            return Err(self.wrong("the file ends within quotes"));
        }
        let last = field(self.input.available(), begin, at, state, quotes);
        self.fields.push(last);
        Ok(Some(at))
    }

    /// Adds the next record to the batch; its length, or nothing at the end.
    fn take_record(&mut self) -> Result<Option<usize>, IngestError> {
        self.line += 1;
        let Some(length) = self.record()? else { return Ok(None) };
        let record = &self.input.available()[..length];
        let blank = self.width > 1 && record.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        if !blank {
            if self.fields.len() != self.width {
                return Err(self.wrong("the number of fields is not that of the header"));
            }
            for (column, &place) in self.columns.iter_mut().zip(&self.places) {
                column.push(record, self.fields[place]);
            }
        }
        self.input.consume(length);
        Ok(Some(length))
    }
}

/// The names of the header, and nothing of the rows below it.
pub(super) fn names(file: &str, bytes: Box<dyn Read + Send>) -> Result<Vec<String>, IngestError> {
    Rows::at_start(file, bytes).names()
}

const NOT_UTF8: &str = "the text is not UTF-8";

fn field(bytes: &[u8], start: usize, end: usize, state: State, quotes: Quotes) -> Field {
    let carriage = end > start && bytes[end - 1] == b'\r';
    let mut end = if carriage { end - 1 } else { end };
    if state == State::Closed {
        // From the closing quote on nothing belongs to the field.
        end = bytes[start..end].iter().rposition(|&byte| byte == b'"').map_or(end, |quote| start + quote);
    }
    Field { start, end, quotes }
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<Found>, IngestError> {
        let (mut rows, mut bytes) = (0, 0);
        while !self.ended && rows < BATCH_ROWS && bytes < BATCH_BYTES {
            match self.take_record()? {
                Some(length) => bytes += length,
                None => self.ended = true,
            }
            rows = self.columns.first().map_or(0, |column| column.present.len());
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns: Option<Vec<ArrayRef>> = self.columns.iter_mut().map(Texts::take).collect();
        let Some(columns) = columns else {
            return Err(IngestError::Malformed { file: self.file.clone(), line: None, reason: NOT_UTF8 });
        };
        Ok(Some(Found { columns, rows, typing: Typing::Text }))
    }
}
