//! NDJSON: an object on each line. Declared keys are kept as text, other keys are passed over; a key that is
//! not there is absent.

use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::ReaderBuilder;

use super::lines::Buffered;
use super::{BATCH_BYTES, BATCH_ROWS, Decoder, Found, Typing};
use crate::ingest::error::IngestError;

pub(super) struct Rows {
    file: String,
    input: Buffered,
    decoder: arrow::json::reader::Decoder,
    line: u64,
    ended: bool,
}

const WRONG: &str = "near here is no JSON object on a line of its own";

impl Rows {
    pub(super) fn open(file: &str, bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        let fields: Vec<Field> = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let decoder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .with_coerce_primitive(true)
            .with_ignore_type_conflicts(true)
            .with_batch_size(BATCH_ROWS)
            .build_decoder();
        let decoder = decoder.map_err(|_| IngestError::Stream)?;
        let mut input = Buffered::new(bytes);
        input.more(file, 1)?;
        if input.available().starts_with(b"\xEF\xBB\xBF") {
            input.consume(3);
        }
        Ok(Self { file: file.to_owned(), input, decoder, line: 1, ended: false })
    }

    fn wrong(&self) -> IngestError {
        IngestError::Malformed { file: self.file.clone(), line: Some(self.line), reason: WRONG }
    }

    /// How many bytes are whole lines; at the end of the input, all that is left.
    fn whole_lines(&mut self) -> Result<usize, IngestError> {
        loop {
            if let Some(last) = self.input.available().iter().rposition(|&byte| byte == b'\n') {
                return Ok(last + 1);
            }
            if !self.input.more(&self.file, self.line)? {
                self.ended = true;
                return Ok(self.input.available().len());
            }
        }
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, IngestError> {
        if self.decoder.has_partial_record() {
            return Err(self.wrong());
        }
        self.decoder.flush().map_err(|_| self.wrong())
    }
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<Found>, IngestError> {
        while !self.ended {
            let mut bytes = 0;
            while !self.ended && bytes < BATCH_BYTES {
                let whole = self.whole_lines()?;
                let lines = &self.input.available()[..whole];
                let Ok(fed) = self.decoder.decode(lines) else { return Err(self.wrong()) };
                self.line += lines[..fed].iter().filter(|&&byte| byte == b'\n').count() as u64;
                self.input.consume(fed);
                bytes += fed;
                if fed < whole {
                    // The batch is full; what is left of the lines is for the next one.
                    self.ended = false;
                    break;
                }
            }
            // A stretch of empty lines gives no batch.
            if let Some(batch) = self.flush()? {
                let rows = batch.num_rows();
                return Ok(Some(Found { columns: batch.columns().to_vec(), rows, typing: Typing::Text }));
            }
        }
        Ok(None)
    }
}
