//! A growing read buffer that always holds the current record of a text format, up to a limit.

use std::io::Read;

use super::unreadable;
use crate::ingest::error::IngestError;

/// The longest record of a text format.
const RECORD_LIMIT: usize = 16 << 20;
const START: usize = 1 << 18;

/// A read buffer that keeps all bytes from the start of the current record.
pub(super) struct RecordBuffer {
    bytes: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
}

impl RecordBuffer {
    pub(super) fn new(bytes: Box<dyn Read + Send>) -> Self {
        Self { bytes, buffer: vec![0; START], start: 0, filled: 0 }
    }

    /// The bytes that were read and not consumed.
    pub(super) fn available(&self) -> &[u8] {
        &self.buffer[self.start..self.filled]
    }

    /// Marks bytes as consumed.
    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.filled);
    }

    /// Reads more bytes into the buffer. Returns false at the end of the input.
    pub(super) fn fill(&mut self, file: &str, line: u64) -> Result<bool, IngestError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled == self.buffer.len() {
            if self.filled >= RECORD_LIMIT {
                let reason = "the record that begins here is longer than 16 MiB; perhaps a quote is not closed";
                return Err(IngestError::Malformed { file: file.to_owned(), line: Some(line), reason });
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        loop {
            match self.bytes.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    self.filled += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(file, &error)),
            }
        }
    }
}
