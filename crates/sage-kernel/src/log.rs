//! The log: the interface of a store, and a hash chain, so that the store does not have to be trusted.
//!
//! A store keeps records in order and appends a batch if the log head is still the one that the caller expects. Each
//! record contains the hash of the record before, so a reader that starts from a known log head detects every edited,
//! removed or reordered record. This module must never accept a record that it has not verified.

use sha2::{Digest, Sha256};

use crate::codec::MalformedBytes;
use crate::event::Event;
use crate::message::display;

/// The first bytes of the hash input, so that no other hash can be mistaken for a record's.
const DOMAIN: &[u8; 8] = b"sagelog1";

/// A log head: the number of records in a log and the hash of the last one. It identifies the log's whole content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of records, which is the number of the next one.
    pub length: u64,
    /// The hash of the last record; zeros for an empty log.
    pub hash: [u8; 32],
}

impl Head {
    /// The log head of an empty log.
    pub const EMPTY: Self = Self { length: 0, hash: [0; 32] };
}

/// A stored event, chained to the record before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its index in the log, from zero.
    pub number: u64,
    /// The time of writing in milliseconds since 1970, by the writer's clock. No decision depends on it.
    pub time: u64,
    /// The hash of the record before.
    pub previous: [u8; 32],
    /// The encoded event.
    pub body: Vec<u8>,
    /// The hash of all other fields.
    pub hash: [u8; 32],
}

impl Record {
    /// The record of an event that is appended after the given log head.
    pub fn after(head: Head, time: u64, event: &Event) -> Self {
        let mut record = Self { number: head.length, time, previous: head.hash, body: event.to_bytes(), hash: [0; 32] };
        record.hash = record.digest();
        record
    }

    /// The log head of a log that ends with this record.
    pub const fn head(&self) -> Head {
        Head { length: self.number + 1, hash: self.hash }
    }

    fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(DOMAIN);
        hasher.update(self.number.to_le_bytes());
        hasher.update(self.time.to_le_bytes());
        hasher.update(self.previous);
        hasher.update(&self.body);
        hasher.finalize().into()
    }

    /// Verifies that the record follows `head`, and returns its event and the new log head.
    ///
    /// # Errors
    /// When the record does not follow `head`, or does not contain an event.
    pub fn verify(&self, head: Head) -> Result<(Event, Head), BrokenChain> {
        if self.number != head.length || self.previous != head.hash || self.hash != self.digest() {
            return Err(BrokenChain { number: head.length });
        }
        let event = Event::from_bytes(&self.body).map_err(|MalformedBytes| BrokenChain { number: self.number })?;
        Ok((event, self.head()))
    }
}

/// A record does not continue the hash chain: the log was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenChain {
    /// The number of the first record that does not fit.
    pub number: u64,
}

display!(error BrokenChain {
    Self { number } => format!(
        "record {number} of the log is not what was written there; nothing is granted until an operator has \
         compared the log with a copy or an exported log head"
    ),
});

/// Why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// Another writer appended first; nothing was written.
    Conflict,
    /// The store failed and nothing was written.
    Failed(String),
    /// It is not known whether the records were written.
    Unknown(String),
}

display!(error LogError {
    Self::Conflict => "another writer appended first",
    Self::Failed(reason) => format!("the log could not be used: {reason}"),
    Self::Unknown(reason) => format!("it is not known whether the log was written: {reason}"),
});

/// A store of records.
///
/// # Guarantee
/// An implementation guarantees that an append that returned `Ok` is durable, that a batch is appended completely or not
/// at all, and that it is appended only while the log has exactly `expected.length` records. It is not trusted with
/// history: every record read is verified against the hash chain.
pub trait Log {
    /// Reads up to `limit` records, from number `from` on.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError>;

    /// Appends records that follow `expected`, and returns the new log head.
    ///
    /// # Errors
    /// [`LogError::Conflict`] when the log no longer ends at `expected`; otherwise what went wrong.
    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError>;
}
