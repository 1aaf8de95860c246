//! The log: what a store must do, and the chain that lets the kernel not believe it.
//!
//! A store keeps records in order and appends a batch if the head is still the one the caller saw. Each
//! record carries the hash of the one before, so an edit, a removal or a reordering anywhere is found by
//! whoever reads on from a head they know. This module must never accept a record it has not verified.

use sha2::{Digest, Sha256};

use crate::codec::Malformed;
use crate::event::Event;
use crate::message::says;

/// The first bytes of everything that is hashed, so that no other hash can be mistaken for a record's.
const DOMAIN: &[u8; 8] = b"sagelog1";

/// Where a log ends: how many records there are, and the hash of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Records so far; the next one has this number.
    pub length: u64,
    /// The hash of the last record; zeros before the first.
    pub hash: [u8; 32],
}

impl Head {
    /// The head of an empty log.
    pub const EMPTY: Self = Self { length: 0, hash: [0; 32] };
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log, from zero.
    pub number: u64,
    /// When it was written, in milliseconds since 1970 by the writer's clock. Nothing depends on it.
    pub time: u64,
    /// The hash of the record before.
    pub previous: [u8; 32],
    /// The event.
    pub body: Vec<u8>,
    /// The hash of all of this: where the log ends if this record is the last.
    pub hash: [u8; 32],
}

impl Record {
    /// The record of an event that follows a head.
    pub fn after(head: Head, time: u64, event: &Event) -> Self {
        let mut record = Self { number: head.length, time, previous: head.hash, body: event.to_bytes(), hash: [0; 32] };
        record.hash = record.digest();
        record
    }

    /// The head of a log that ends with this record.
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

    /// The event in a record that follows `head`, and the head after it.
    ///
    /// # Errors
    /// When the record does not follow the head, or holds no event.
    pub fn verify(&self, head: Head) -> Result<(Event, Head), BrokenChain> {
        if self.number != head.length || self.previous != head.hash || self.hash != self.digest() {
            return Err(BrokenChain { number: head.length });
        }
        let event = Event::from_bytes(&self.body).map_err(|Malformed| BrokenChain { number: self.number })?;
        Ok((event, self.head()))
    }
}

/// The record with this number is not the one that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenChain {
    /// The first record that does not fit.
    pub number: u64,
}

says!(error BrokenChain {
    Self { number } => format!(
        "record {number} of the log is not what was written there; nothing is granted until an operator has \
         compared the log with a copy or an exported head"
    ),
});

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// Somebody else appended first; nothing was written.
    Conflict,
    /// Nothing was written, for a reason of the store's.
    Failed(String),
    /// It is not known whether the records were written.
    Unknown(String),
}

says!(error LogError {
    Self::Conflict => "another writer appended first",
    Self::Failed(reason) => format!("the log could not be used: {reason}"),
    Self::Unknown(reason) => format!("it is not known whether the log was written: {reason}"),
});

/// A place where records are kept.
///
/// # Guarantee
/// An implementation promises that an append that returned `Ok` is durable, that a batch is appended
/// whole or not at all, and that it succeeds only while the log is exactly `expected.length` long. It is
/// not trusted with history: every record read is verified against the chain.
pub trait Log {
    /// Up to `limit` records from number `from` on.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError>;

    /// Appends the records, which follow `expected`, and returns the head the store then has.
    ///
    /// # Errors
    /// [`LogError::Conflict`] when the log no longer ends at `expected`; otherwise what went wrong.
    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError>;
}
