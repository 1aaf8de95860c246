//! Arrow IPC, as a stream or as a file, whose messages are the same and which is read as one.
//!
//! A message says how much memory it will take. What says too much is refused before it is read.

use std::collections::VecDeque;
use std::io::{self, Read};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::take;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::{Message, RecordBatch as Header, root_as_message};

use super::{BATCH_BYTES, BATCH_ROWS, Decoder, Found, Typing, places, unreadable};
use crate::ingest::error::IngestError;

/// The most a message may say of itself, and the most its rows may take.
const HEADER_LIMIT: usize = 64 << 20;
const BODY_LIMIT: usize = 256 << 20;

const MAGIC: &[u8; 8] = b"ARROW1\0\0";
const DAMAGED: &str = "this is no Arrow IPC, or it is damaged or cut short";
const LARGE: &str = "an Arrow record batch is larger than 256 MiB; write the file in smaller batches";

pub(super) struct Rows {
    file: String,
    bytes: Box<dyn Read + Send>,
    decoder: StreamDecoder,
    names: Vec<String>,
    places: Vec<usize>,
    /// The batches in hand, and the first row of the first that was not given yet.
    batches: VecDeque<RecordBatch>,
    given: usize,
    ended: bool,
    container: Container,
}

/// What the messages are wrapped in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Stream,
    /// After the messages comes a footer, which is not needed, and the magic word again.
    File,
}

impl Rows {
    pub(super) fn open(file: &str, mut bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        let mut start = word(file, &mut bytes)?;
        let container = if start == MAGIC { Container::File } else { Container::Stream };
        if container == Container::File {
            // Writers fill up with zeros to eight bytes, some to sixty-four.
            start = word(file, &mut bytes)?;
            for _ in 0..8 {
                if start != [0; 8] {
                    break;
                }
                start = word(file, &mut bytes)?;
            }
        }
        let bytes: Box<dyn Read + Send> = Box::new(io::Cursor::new(start).chain(bytes));
        let (file, names) = (file.to_owned(), names.to_vec());
        let mut rows = Self {
            file,
            bytes,
            decoder: StreamDecoder::new(),
            names,
            places: Vec::new(),
            batches: VecDeque::new(),
            given: 0,
            ended: false,
            container,
        };
        // The schema comes first and tells whether the columns are there. It has no body, and the decoder
        // takes up what has none only when it meets the next message.
        while rows.decoder.schema().is_none() && !rows.ended {
            rows.message()?;
        }
        let Some(schema) = rows.decoder.schema() else { return Err(rows.wrong(DAMAGED)) };
        let there: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        rows.places = places(&rows.file, &rows.names, &there)?;
        Ok(rows)
    }

    fn wrong(&self, reason: &'static str) -> IngestError {
        IngestError::Malformed { file: self.file.clone(), line: None, reason }
    }

    /// Adds exactly so many bytes to the message.
    fn fill(&mut self, message: &mut Vec<u8>, count: usize) -> Result<(), IngestError> {
        let whole = message.len() + count;
        let read = (&mut self.bytes).take(count as u64).read_to_end(message);
        read.map_err(|error| unreadable(&self.file, &error))?;
        if message.len() == whole { Ok(()) } else { Err(self.wrong(DAMAGED)) }
    }

    /// Reads a message and decodes it.
    fn message(&mut self) -> Result<(), IngestError> {
        let mut message = Vec::new();
        self.fill(&mut message, 4)?;
        if message == [0xFF; 4] {
            self.fill(&mut message, 4)?;
        }
        let place = message.len() - 4;
        let length = message[place..].iter().rev().fold(0_usize, |length, &byte| length << 8 | usize::from(byte));
        if length == 0 {
            self.ended = true;
            if self.container == Container::File {
                self.footer()?;
            }
            return self.decode(message);
        }
        if length > HEADER_LIMIT {
            return Err(self.wrong(DAMAGED));
        }
        let header = message.len();
        self.fill(&mut message, length)?;
        let body = body_length(&message[header..]).ok_or_else(|| self.wrong(DAMAGED))?;
        if body > BODY_LIMIT {
            return Err(self.wrong(LARGE));
        }
        let start = message.len();
        self.fill(&mut message, body)?;
        if unpacked(&message[header..start], &message[start..]).is_none_or(|bytes| bytes > BODY_LIMIT as u64) {
            return Err(self.wrong(LARGE));
        }
        self.decode(message)
    }

    /// A file that was cut short within its footer is not the file that was written.
    fn footer(&mut self) -> Result<(), IngestError> {
        let mut end = Vec::new();
        loop {
            let before = end.len();
            let read = (&mut self.bytes).take(1 << 16).read_to_end(&mut end);
            read.map_err(|error| unreadable(&self.file, &error))?;
            if end.len() == before {
                return if end.ends_with(&MAGIC[..6]) { Ok(()) } else { Err(self.wrong(DAMAGED)) };
            }
            end.drain(..end.len().saturating_sub(6));
        }
    }

    fn decode(&mut self, message: Vec<u8>) -> Result<(), IngestError> {
        let mut buffer = Buffer::from_vec(message);
        while !buffer.is_empty() {
            let Ok(batch) = self.decoder.decode(&mut buffer) else { return Err(self.wrong(DAMAGED)) };
            self.batches.extend(batch);
        }
        Ok(())
    }

    /// Some rows of the first batch in hand. They are copied, so that what is kept of them does not keep the
    /// whole message.
    fn piece(&mut self) -> Option<Found> {
        let batch = self.batches.front()?;
        let bytes = batch.get_array_memory_size() / batch.num_rows().max(1) + 1;
        let rows = (BATCH_BYTES / bytes).clamp(1, BATCH_ROWS).min(batch.num_rows() - self.given);
        let all = UInt32Array::from_iter_values((self.given..self.given + rows).map(|row| row as u32));
        let copied: Result<Vec<ArrayRef>, _> =
            self.places.iter().map(|&place| take(batch.column(place), &all, None)).collect();
        self.given += rows;
        Some(Found { columns: copied.ok()?, rows, typing: Typing::Typed })
    }
}

/// The next eight bytes, or what is left.
fn word(file: &str, bytes: &mut dyn Read) -> Result<Vec<u8>, IngestError> {
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

/// How many bytes the buffers of a message have when they are unpacked; nothing if they are not where it says,
/// or the batch claims more rows than any has.
fn unpacked(header: &[u8], body: &[u8]) -> Option<u64> {
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
        // Minus one stands for a buffer that is not packed.
        let size = i64::from_le_bytes(size);
        sum = sum.checked_add(if size == -1 { length as u64 } else { u64::try_from(size).ok()? })?;
    }
    Some(sum)
}

impl Decoder for Rows {
    fn next(&mut self) -> Result<Option<Found>, IngestError> {
        loop {
            match self.batches.front() {
                Some(batch) if self.given < batch.num_rows() => {
                    return self.piece().map(Some).ok_or_else(|| self.wrong(DAMAGED));
                }
                Some(_) => {
                    self.batches.pop_front();
                    self.given = 0;
                }
                None if self.ended => return Ok(None),
                None => self.message()?,
            }
        }
    }
}
