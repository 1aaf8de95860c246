//! Arrow IPC, as a stream or as a file. A file contains the messages of a stream and is read as one.
//!
//! A message states how much memory it needs. It is refused before it is read if that is too much.

use std::collections::VecDeque;
use std::io::{self, Read};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::take;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::{Message, RecordBatch as Header, root_as_message};

use super::{BATCH_BYTES, BATCH_ROWS, Decoder, RawBatch, Typing, column_indices, unreadable};
use crate::ingest::error::IngestError;

/// The most bytes of a message's header, and of its body, compressed or not.
const HEADER_LIMIT: usize = 64 << 20;
const BODY_LIMIT: usize = 256 << 20;

const MAGIC: &[u8; 8] = b"ARROW1\0\0";
const DAMAGED: &str = "this is not Arrow IPC, or it is damaged or truncated";
const LARGE: &str = "an Arrow record batch is larger than 256 MiB; write the file in smaller batches";

pub(super) struct Rows {
    file: String,
    bytes: Box<dyn Read + Send>,
    decoder: StreamDecoder,
    names: Vec<String>,
    /// For each declared column, its index in a batch.
    indices: Vec<usize>,
    /// Decoded batches, and the number of rows of the first that were already returned.
    batches: VecDeque<RecordBatch>,
    returned: usize,
    ended: bool,
    container: Container,
}

/// The container of the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Stream,
    /// The messages are followed by a footer, which is not needed, and the magic bytes.
    File,
}

impl Rows {
    pub(super) fn open(file: &str, mut bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        let mut start = read_word(file, &mut bytes)?;
        let container = if start == MAGIC { Container::File } else { Container::Stream };
        if container == Container::File {
            // Writers pad with zeros to 8 bytes, some to 64.
            start = read_word(file, &mut bytes)?;
            for _ in 0..8 {
                if start != [0; 8] {
                    break;
                }
                start = read_word(file, &mut bytes)?;
            }
        }
        let bytes: Box<dyn Read + Send> = Box::new(io::Cursor::new(start).chain(bytes));
        let (file, names) = (file.to_owned(), names.to_vec());
        let mut rows = Self {
            file,
            bytes,
            decoder: StreamDecoder::new(),
            names,
            indices: Vec::new(),
            batches: VecDeque::new(),
            returned: 0,
            ended: false,
            container,
        };
        // The schema is the first message. It has no body, and the decoder processes a message without a body only
        // when it reads the next one.
        while rows.decoder.schema().is_none() && !rows.ended {
            rows.read_message()?;
        }
        let Some(schema) = rows.decoder.schema() else { return Err(rows.malformed(DAMAGED)) };
        let present: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        rows.indices = column_indices(&rows.file, &rows.names, &present)?;
        Ok(rows)
    }

    fn malformed(&self, reason: &'static str) -> IngestError {
        IngestError::Malformed { file: self.file.clone(), line: None, reason }
    }

    /// Appends exactly `count` bytes to the message.
    fn read_bytes(&mut self, message: &mut Vec<u8>, count: usize) -> Result<(), IngestError> {
        let whole = message.len() + count;
        let read = (&mut self.bytes).take(count as u64).read_to_end(message);
        read.map_err(|error| unreadable(&self.file, &error))?;
        if message.len() == whole { Ok(()) } else { Err(self.malformed(DAMAGED)) }
    }

    /// Reads a message and decodes it.
    fn read_message(&mut self) -> Result<(), IngestError> {
        let mut message = Vec::new();
        self.read_bytes(&mut message, 4)?;
        if message == [0xFF; 4] {
            self.read_bytes(&mut message, 4)?;
        }
        let length =
            message[message.len() - 4..].iter().rev().fold(0_usize, |length, &byte| length << 8 | usize::from(byte));
        if length == 0 {
            self.ended = true;
            if self.container == Container::File {
                self.check_footer()?;
            }
            return self.decode(message);
        }
        if length > HEADER_LIMIT {
            return Err(self.malformed(DAMAGED));
        }
        let header = message.len();
        self.read_bytes(&mut message, length)?;
        let body = body_length(&message[header..]).ok_or_else(|| self.malformed(DAMAGED))?;
        if body > BODY_LIMIT {
            return Err(self.malformed(LARGE));
        }
        let start = message.len();
        self.read_bytes(&mut message, body)?;
        if decompressed_size(&message[header..start], &message[start..]).is_none_or(|bytes| bytes > BODY_LIMIT as u64) {
            return Err(self.malformed(LARGE));
        }
        self.decode(message)
    }

    /// Checks that the file ends with the magic bytes. Otherwise it was truncated within its footer.
    fn check_footer(&mut self) -> Result<(), IngestError> {
        let mut end = Vec::new();
        loop {
            let before = end.len();
            let read = (&mut self.bytes).take(1 << 16).read_to_end(&mut end);
            read.map_err(|error| unreadable(&self.file, &error))?;
            if end.len() == before {
                return if end.ends_with(&MAGIC[..6]) { Ok(()) } else { Err(self.malformed(DAMAGED)) };
            }
            end.drain(..end.len().saturating_sub(6));
        }
    }

    fn decode(&mut self, message: Vec<u8>) -> Result<(), IngestError> {
        let mut buffer = Buffer::from_vec(message);
        while !buffer.is_empty() {
            let Ok(batch) = self.decoder.decode(&mut buffer) else { return Err(self.malformed(DAMAGED)) };
            self.batches.extend(batch);
        }
        Ok(())
    }

    /// The next rows of the first decoded batch. They are copied, so that they do not keep the whole message in memory.
    fn next_rows(&mut self) -> Option<RawBatch> {
        let batch = self.batches.front()?;
        let bytes = batch.get_array_memory_size() / batch.num_rows().max(1) + 1;
        let rows = (BATCH_BYTES / bytes).clamp(1, BATCH_ROWS).min(batch.num_rows() - self.returned);
        let selected = UInt32Array::from_iter_values((self.returned..self.returned + rows).map(|row| row as u32));
        let copied: Result<Vec<ArrayRef>, _> =
            self.indices.iter().map(|&index| take(batch.column(index), &selected, None)).collect();
        self.returned += rows;
        Some(RawBatch { columns: copied.ok()?, rows, typing: Typing::Typed })
    }
}

/// Reads eight bytes, or fewer at the end.
fn read_word(file: &str, bytes: &mut dyn Read) -> Result<Vec<u8>, IngestError> {
    let mut word = Vec::new();
    bytes.take(8).read_to_end(&mut word).map_err(|error| unreadable(file, &error))?;
    Ok(word)
}

fn body_length(header: &[u8]) -> Option<usize> {
    usize::try_from(root_as_message(header).ok()?.bodyLength()).ok()
}

fn record_batch<'header>(message: &Message<'header>) -> Option<Header<'header>> {
    message.header_as_record_batch().or_else(|| message.header_as_dictionary_batch()?.data())
}

/// The size of a message's buffers after decompression. `None` if a buffer is outside the body, or the batch claims an
/// impossible number of rows.
fn decompressed_size(header: &[u8], body: &[u8]) -> Option<u64> {
    let message = root_as_message(header).ok()?;
    let Some(batch) = record_batch(&message) else { return Some(0) };
    if !(0..=i64::from(i32::MAX)).contains(&batch.length()) {
        return None;
    }
    let (Some(_), Some(buffers)) = (batch.compression(), batch.buffers()) else { return Some(body.len() as u64) };
    let mut sum = 0_u64;
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).ok()?;
        let length = usize::try_from(buffer.length()).ok()?;
        if length == 0 {
            continue;
        }
        let size: [u8; 8] = body.get(start..start.checked_add(8)?)?.try_into().ok()?;
        // Minus one marks a buffer that is not compressed.
        let size = i64::from_le_bytes(size);
        sum = sum.checked_add(if size == -1 { length as u64 } else { u64::try_from(size).ok()? })?;
    }
    Some(sum)
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<RawBatch>, IngestError> {
        loop {
            match self.batches.front() {
                Some(batch) if self.returned < batch.num_rows() => {
                    return self.next_rows().map(Some).ok_or_else(|| self.malformed(DAMAGED));
                }
                Some(_) => {
                    self.batches.pop_front();
                    self.returned = 0;
                }
                None if self.ended => return Ok(None),
                None => self.read_message()?,
            }
        }
    }
}
