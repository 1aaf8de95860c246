//! Sums of one lane of one block, kept for the next time. Proof: `proofs/summary.md`.
//!
//! Sums of rows are exact, so those of a window are the sums of its blocks. A reader that holds a permit may
//! have the kernel sum a block that the permit covers, keep the result beside the block, and give it to a later
//! session in the stead of the rows. A summary is as secret as the rows: it cannot be copied, printed or read,
//! becomes bytes only for the holder of a permit that covers its block, and is opened again only by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::block::{BlockId, Lane, StreamId};
use crate::codec::Malformed;
use crate::cost::SCALE;
use crate::grant::Permit;
use crate::moments::{MomentBounds, PlaceBounds};
use crate::noise::NoiseSource;
use crate::session::{Rows, Session, SessionError};
use crate::table::{Range, Taken, add_shares, check_keys, histogram_kind, pairs_kind, shares_of};

/// The caller's digest of everything that turns a row into what the functions of a row return: the query, the
/// encoding, the choice of key and value. Under one tag two functions differ in the bounds they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub [u8; 32]);

impl Tag {
    /// The kind of sums that have these bounds.
    pub(crate) fn of(self, bounds: &[u64]) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(self.0);
        bounds.iter().for_each(|bound| hash.update(bound.to_le_bytes()));
        hash.finalize().into()
    }
}

/// Whose rows are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block.
    pub block: BlockId,
    /// The lane of it.
    pub lane: Lane,
    /// The reader's digest of the rows as they are stored, so that sums of fewer rows are not taken for those
    /// of more.
    pub source: [u8; 32],
}

/// Exact sums of one lane of one block. Not to be copied, printed or read.
pub struct Summary {
    stream: StreamId,
    part: Part,
    /// What was summed: the caller's tag with the kernel's bounds.
    kind: [u8; 32],
    rows: u64,
    numbers: Vec<i64>,
}

impl Permit {
    /// Nothing if a number does not fit into 64 bits, which takes millions of rows; they are then read anew.
    fn summary(
        &self, part: Part, kind: [u8; 32], size: usize, sum: impl FnOnce(&mut [i128]) -> u64,
    ) -> Result<Option<Summary>, SessionError> {
        if !self.covers(self.stream, part.block, part.lane) {
            return Err(SessionError::NotCovered);
        }
        let mut total = vec![0; size];
        let rows = sum(&mut total);
        let numbers: Option<Vec<i64>> = total.into_iter().map(|number| i64::try_from(number).ok()).collect();
        Ok(numbers.map(|numbers| Summary { stream: self.stream, part, kind, rows, numbers }))
    }

    /// Sums the moments of a block's rows, as [`Session::moments`] does. Nothing if there are millions of rows,
    /// more than a summary holds.
    ///
    /// # Errors
    /// When the permit does not cover the block or a bound is out of range.
    pub fn summarise_moments<R: Rows>(
        &self, part: Part, tag: Tag, bounds: MomentBounds, rows: &[R], value: impl Fn(R::Row<'_>, &mut [f64]) -> f64,
    ) -> Result<Option<Summary>, SessionError> {
        let size = bounds.units()?.triangle();
        self.summary(part, bounds.kind(tag), size, |total| bounds.sum(rows, total, value))
    }

    /// Sums the moments of a block's rows, as [`Session::place_moments`] does; otherwise as
    /// [`Permit::summarise_moments`].
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_places<R: Rows>(
        &self, part: Part, tag: Tag, bounds: PlaceBounds, rows: &[R], value: impl Fn(R::Row<'_>, &mut [u32]) -> f64,
    ) -> Result<Option<Summary>, SessionError> {
        let size = bounds.units()?.triangle();
        self.summary(part, bounds.kind(tag), size, |total| bounds.sum(rows, total, value))
    }

    /// Sums a block's rows by key, as [`Session::pairs`] does; otherwise as [`Permit::summarise_moments`].
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_pairs<R: Rows>(
        &self, part: Part, tag: Tag, keys: u32, (range, taken): (Range, Taken), rows: &[R],
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Option<Summary>, SessionError> {
        check_keys(keys)?;
        let shares = |row: R::Row<'_>| value(row).map(|(key, value)| (key, shares_of(value, range, taken)));
        let kind = pairs_kind(tag, keys, range, taken);
        self.summary(part, kind, 2 * keys as usize, |total| add_shares(rows, total, shares))
    }

    /// Counts a block's rows by key, as [`Session::histogram`] does; otherwise as [`Permit::summarise_moments`].
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_histogram<R: Rows>(
        &self, part: Part, tag: Tag, keys: u32, rows: &[R], key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Option<Summary>, SessionError> {
        check_keys(keys)?;
        let shares = |row: R::Row<'_>| key(row).map(|key| (key, [SCALE]));
        self.summary(part, histogram_kind(tag, keys), keys as usize, |total| add_shares(rows, total, shares))
    }

    /// The bytes of a summary for a store that is trusted with the rows themselves; nothing unless the permit
    /// covers its block.
    pub fn seal(&self, summary: &Summary) -> Option<Vec<u8>> {
        if !self.covers(summary.stream, summary.part.block, summary.part.lane) {
            return None;
        }
        let mut bytes = [&summary.kind[..], &summary.rows.to_le_bytes()].concat();
        bytes.extend(summary.numbers.iter().flat_map(|number| number.to_le_bytes()));
        let digest = digest(summary.stream, summary.part, &bytes);
        bytes.extend(digest);
        Some(bytes)
    }

    /// The summary of a part from its bytes.
    ///
    /// # Errors
    /// When the bytes are not those that were sealed for this part and source, or the permit does not cover it.
    pub fn unseal(&self, part: Part, bytes: &[u8]) -> Result<Summary, Malformed> {
        let (body, sealed) = bytes.split_last_chunk::<32>().ok_or(Malformed)?;
        if !self.covers(self.stream, part.block, part.lane) || digest(self.stream, part, body) != *sealed {
            return Err(Malformed);
        }
        let (kind, rest) = body.split_first_chunk::<32>().ok_or(Malformed)?;
        let (rows, rest) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
        let numbers = rest.as_chunks::<8>().0.iter().map(|number| i64::from_le_bytes(*number)).collect();
        Ok(Summary { stream: self.stream, part, kind: *kind, rows: u64::from_le_bytes(*rows), numbers })
    }
}

/// What binds the bytes of a summary to the part they are sums of.
fn digest(stream: StreamId, part: Part, body: &[u8]) -> [u8; 32] {
    let place = [stream.0, part.block.0, part.lane.index() as u32].map(u32::to_le_bytes);
    let hash = Sha256::new_with_prefix(b"sage summary 1\n").chain_update(place.as_flattened());
    hash.chain_update(part.source).chain_update(body).finalize().into()
}

/// The summaries that the permit covers, each block and kind once, by lane.
pub(crate) fn distinct(permit: &Permit, given: Vec<Arc<Summary>>) -> [Vec<Arc<Summary>>; 2] {
    let mut kept = [Vec::new(), Vec::new()];
    let mut seen = BTreeSet::new();
    for summary in given {
        let Part { block, lane, .. } = summary.part;
        if permit.covers(summary.stream, block, lane) && seen.insert((block, lane, summary.kind)) {
            kept[lane.index()].push(summary);
        }
    }
    kept
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// Adds the lane's summaries of this kind, and what `sum` adds for its rows; gives the number of rows.
    pub(crate) fn gather(
        &self, lane: Lane, kind: [u8; 32], total: &mut [i128], sum: impl FnOnce(&[R], &mut [i128]) -> u64,
    ) -> Result<u64, SessionError> {
        if self.plans[lane.index()].is_none() {
            return Err(SessionError::NotCovered);
        }
        let kept = &self.kept[lane.index()];
        let mut rows = sum(&self.rows[lane.index()], total);
        let mut found = kept.is_empty();
        for summary in kept.iter().filter(|summary| summary.kind == kind) {
            found = true;
            rows += summary.rows;
            total.iter_mut().zip(&summary.numbers).for_each(|(total, &number)| *total += i128::from(number));
        }
        if found { Ok(rows) } else { Err(SessionError::Parameter("the lane was opened on sums of another kind")) }
    }
}
