//! Snapshots: the state of the ledger as bytes, so that a log need not be read from its first record every time
//! (`docs/reference/log-format.md`).
//!
//! A snapshot is trusted only if a record of the chain commits to its hash, which the gate checks. Decoding must
//! nevertheless accept arbitrary bytes: it never panics, never allocates more than a small multiple of its input, and
//! never returns a state whose later use could panic.

use super::{Entry, GrantState, Ledger, Stream, book};
use crate::codec::{MalformedBytes, Reader, Writer};
use crate::event::Charge;
use crate::log::Head;
use crate::wire::Wire;
use sage_numerics::KeyIndex;

/// The first bytes of every snapshot, so that no other hashed bytes can be mistaken for one.
const DOMAIN: &[u8; 8] = b"sagestat";
/// Bytes of a spent amount: the sum of fewer than 2^32 charges, each below 2^64.
const SPENT_SIZE: usize = 12;
/// The least number of bytes of a grant: its number, its key and its state.
const LEAST_GRANT: usize = 34;

impl Ledger {
    /// The canonical bytes of the state at this log head.
    pub(crate) fn to_snapshot(&self, head: Head) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(4096 + 80 * self.grants.len()));
        out.raw(DOMAIN);
        head.length.put(&mut out);
        head.hash.put(&mut out);
        // Pending charges are subtracted here and added again by the reader, so that no bytes decode to a state from
        // which more can be cancelled than was charged.
        let mut streams = self.streams.clone();
        self.waiting.values().for_each(|charge| book(&mut streams, charge, |spent, amount| *spent -= amount));
        out.number(streams.len() as u64);
        for stream in &streams {
            stream.name.put(&mut out);
            stream.policy.put(&mut out);
            stream.keys.put(&mut out);
            stream.retired.put(&mut out);
            stream.spent.iter().flatten().flatten().for_each(|spent| out.raw(&spent.to_le_bytes()[..SPENT_SIZE]));
        }
        self.grants.put(&mut out);
        self.waiting.values().for_each(|charge| charge.put(&mut out));
        out.0
    }

    /// Decodes a state and the log head it belongs to.
    pub(crate) fn from_snapshot(bytes: &[u8]) -> Result<(Self, Head), MalformedBytes> {
        let mut input = Reader(bytes);
        if input.raw(DOMAIN.len())? != DOMAIN {
            return Err(MalformedBytes);
        }
        let head = Head { length: Wire::get(&mut input)?, hash: Wire::get(&mut input)? };
        let mut ledger = Self { streams: input.list(get_stream)?, ..Self::default() };
        let count = usize::try_from(input.number()?).map_err(|_| MalformedBytes)?;
        if count > input.0.len() / LEAST_GRANT || count >= u32::MAX as usize {
            return Err(MalformedBytes);
        }
        ledger.grants.reserve_exact(count);
        ledger.keys = KeyIndex::with_capacity(count);
        let mut waiting = Vec::new();
        for index in 0..count {
            let entry = Entry::get(&mut input)?;
            if entry.id.0 >= head.length || ledger.grants.last().is_some_and(|before| before.id >= entry.id) {
                return Err(MalformedBytes);
            }
            if entry.state == GrantState::Charged {
                waiting.push((entry.id, entry.key));
            }
            ledger.keys.insert(&entry.key.bytes(), index);
            ledger.grants.push(entry);
        }
        for (id, key) in waiting {
            let charge: Box<Charge> = Wire::get(&mut input)?;
            if charge.request.key != key || !ledger.has_valid_shape(&charge) {
                return Err(MalformedBytes);
            }
            book(&mut ledger.streams, &charge, |spent, amount| *spent += amount);
            ledger.waiting.insert(id, charge);
        }
        input.end()?;
        Ok((ledger, head))
    }
}

fn get_stream(input: &mut Reader<'_>) -> Result<Stream, MalformedBytes> {
    let mut stream = Stream::new(Wire::get(input)?, Wire::get(input)?);
    stream.keys = Wire::get(input)?;
    stream.known.extend(stream.keys.iter().cloned());
    stream.retired = Wire::get(input)?;
    if stream.known.len() != stream.keys.len() {
        return Err(MalformedBytes);
    }
    for (book, filter) in stream.spent.iter_mut().zip(stream.policy.filters()) {
        let size = filter.caps().len().checked_mul(stream.keys.len() * SPENT_SIZE).ok_or(MalformedBytes)?;
        for lane in book {
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte));
            *lane = input.raw(size)?.chunks_exact(SPENT_SIZE).map(number).collect();
        }
    }
    Ok(stream)
}
