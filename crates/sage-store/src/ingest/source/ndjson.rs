//! NDJSON: one object per line. Declared keys are read as text, other keys are skipped, and a missing key is null.

use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::ReaderBuilder;

use super::lines::RecordBuffer;
use super::{BATCH_BYTES, BATCH_ROWS, Decoder, RawBatch, Typing};
use crate::ingest::error::IngestError;

pub(super) struct Rows {
    file: String,
    input: RecordBuffer,
    decoder: arrow::json::reader::Decoder,
    line: u64,
    ended: bool,
}

const MALFORMED: &str = "near here a line is not one JSON object";

impl Rows {
    pub(super) fn open(file: &str, bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        let fields: Vec<Field> = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let decoder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .with_coerce_primitive(true)
            .with_ignore_type_conflicts(true)
            .with_batch_size(BATCH_ROWS)
            .build_decoder();
        let decoder = decoder.map_err(|_| IngestError::Stream)?;
        let mut input = RecordBuffer::new(bytes);
        input.fill(file, 1)?;
        if input.available().starts_with(b"\xEF\xBB\xBF") {
            input.consume(3);
        }
        Ok(Self { file: file.to_owned(), input, decoder, line: 1, ended: false })
    }

    fn malformed(&self) -> IngestError {
        IngestError::Malformed { file: self.file.clone(), line: Some(self.line), reason: MALFORMED }
    }

    /// The number of buffered bytes that form complete lines. At the end of the input these are all remaining bytes.
    fn whole_lines(&mut self) -> Result<usize, IngestError> {
        loop {
            if let Some(last) = self.input.available().iter().rposition(|&byte| byte == b'\n') {
                return Ok(last + 1);
            }
            if !self.input.fill(&self.file, self.line)? {
                self.ended = true;
                return Ok(self.input.available().len());
            }
        }
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, IngestError> {
        if self.decoder.has_partial_record() {
            return Err(self.malformed());
        }
        self.decoder.flush().map_err(|_| self.malformed())
    }
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<RawBatch>, IngestError> {
        while !self.ended {
            let mut bytes = 0;
            while !self.ended && bytes < BATCH_BYTES {
                let whole = self.whole_lines()?;
                let lines = &self.input.available()[..whole];
                let Ok(decoded) = self.decoder.decode(lines) else { return Err(self.malformed()) };
                self.line += lines[..decoded].iter().filter(|&&byte| byte == b'\n').count() as u64;
                self.input.consume(decoded);
                bytes += decoded;
                if decoded < whole {
                    // The batch is full. The remaining lines belong to the next one.
                    self.ended = false;
                    break;
                }
            }
            // Empty lines alone give no batch.
            if let Some(batch) = self.flush()? {
                let rows = batch.num_rows();
                return Ok(Some(RawBatch { columns: batch.columns().to_vec(), rows, typing: Typing::Text }));
            }
        }
        Ok(None)
    }
}
