//! Cached block summaries: exact sums over one lane of one block. Proof: `proofs/summary.md`.
//!
//! Sums are exact, so the sums over a window are the sums over its blocks. With a permit, a reader can have the kernel
//! sum a block that the permit covers, store the summary next to the block, and give it to a later session instead of
//! the rows. A summary is as secret as the rows: it must never be copied, printed or read, and it is converted to bytes
//! and back only under a permit that covers its block. The bytes are authenticated with a secret of the directory: a
//! file that another program wrote, or that belongs to another log, block, lane or tag, is refused, and so are sums that
//! no rows can have.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::block::{BlockId, Lane, StreamId};
use crate::codec::MalformedBytes;
use crate::contribution::{Contribution, PerUnit};
use crate::cost::SCALE;
use crate::grant::Permit;
use crate::moments::{MomentBounds, OneHotBounds, ROWS_LIMIT};
use crate::noise::NoiseSource;
use crate::session::{Rows, Session, SessionError};
use crate::table::{Range, Rounding, add_shares, check_keys, histogram_form, pairs_form, split_shares};

/// The caller's digest of everything that determines what the callbacks return for a row: the query, the encoding, the
/// choice of key and value. Callbacks under the same tag can differ only in their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryTag(pub [u8; 32]);

impl SummaryTag {
    /// The kind of a summary: a digest of the tag and the bounds.
    pub(crate) fn kind(self, bounds: &[u64]) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(self.0);
        bounds.iter().for_each(|bound| hash.update(bound.to_le_bytes()));
        hash.finalize().into()
    }
}

/// The rows that a summary sums: one lane of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPart {
    /// The block.
    pub block: BlockId,
    /// The lane of the block.
    pub lane: Lane,
    /// The reader's digest of the stored rows, so that a summary of an earlier state of the block is not used.
    pub source: [u8; 32],
}

/// The secret of a directory that authenticates its summaries. It must not be printed.
///
/// # Guarantee
/// The caller provides 32 uniformly random bytes that no untrusted program has read. Without them nobody can create bytes
/// that [`Permit::unseal`] accepts, except with probability 2^-256 per attempt.
pub struct SummaryKey([u8; 32]);

impl SummaryKey {
    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// HMAC-SHA-256 (RFC 2104) of the concatenated parts.
    fn authenticate(&self, parts: &[&[u8]]) -> [u8; 32] {
        let pad = |byte: u8| std::array::from_fn::<u8, 64, _>(|at| byte ^ self.0.get(at).unwrap_or(&0));
        let inner = parts.iter().fold(Sha256::new_with_prefix(pad(0x36)), |hash, part| hash.chain_update(part));
        Sha256::new_with_prefix(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
    }
}

/// Exact sums over one lane of one block. It cannot be copied, printed or read.
pub struct Summary {
    stream: StreamId,
    part: BlockPart,
    tag: SummaryTag,
    /// The mechanism and its bounds.
    form: Vec<u64>,
    /// The digest of tag and form.
    kind: [u8; 32],
    rows: u64,
    numbers: Vec<i64>,
}

impl Permit {
    /// A summary of the sums that `sum` computes; `None` if a sum does not fit into 64 bits, which takes millions of rows.
    fn summary(
        &self, part: BlockPart, tag: SummaryTag, form: Vec<u64>, size: usize, sum: impl FnOnce(&mut [i128]) -> u64,
    ) -> Result<Option<Summary>, SessionError> {
        if !self.covers(self.stream, part.block, part.lane) {
            return Err(SessionError::NotCovered);
        }
        let mut total = vec![0; size];
        let rows = sum(&mut total);
        let numbers: Option<Vec<i64>> = total.into_iter().map(|number| i64::try_from(number).ok()).collect();
        let kind = tag.kind(&form);
        Ok(numbers.map(|numbers| Summary { stream: self.stream, part, tag, form, kind, rows, numbers }))
    }

    /// Sums the moments of a block's rows, as [`Session::moments`] does. `None` if a sum does not fit into 64 bits, which
    /// takes millions of rows; the block's rows are then read each time.
    ///
    /// # Errors
    /// When the permit does not cover the block or a bound is out of range.
    pub fn summarise_moments<R: Rows>(
        &self, part: BlockPart, tag: SummaryTag, bounds: impl Into<PerUnit<MomentBounds>>, rows: &[R],
        value: impl Fn(R::Row<'_>, &mut [f64]) -> f64,
    ) -> Result<Option<Summary>, SessionError> {
        let bounds = bounds.into();
        let size = bounds.units()?.triangle();
        self.summary(part, tag, bounds.form(), size, |total| bounds.sum(rows, total, value))
    }

    /// Sums the moments of a block's rows, as [`Session::one_hot_moments`] does; otherwise as
    /// [`Permit::summarise_moments`].
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_one_hot<R: Rows>(
        &self, part: BlockPart, tag: SummaryTag, bounds: impl Into<PerUnit<OneHotBounds>>, rows: &[R],
        value: impl Fn(R::Row<'_>, &mut [u32]) -> f64,
    ) -> Result<Option<Summary>, SessionError> {
        let bounds = bounds.into();
        let size = bounds.units()?.triangle();
        self.summary(part, tag, bounds.form(), size, |total| bounds.sum(rows, total, value))
    }

    /// Sums a block's rows by key, as [`Session::pairs`] does; otherwise as [`Permit::summarise_moments`].
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_pairs<R: Rows>(
        &self, part: BlockPart, tag: SummaryTag, keys: impl Into<PerUnit<u32>>, (range, rounding): (Range, Rounding),
        rows: &[R], value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Option<Summary>, SessionError> {
        let keys = keys.into();
        check_keys(keys.bounds)?;
        let shares =
            |row: R::Row<'_>, steps| value(row).map(|(key, value)| (key, split_shares(value, range, rounding, steps)));
        let form = pairs_form(keys, range, rounding);
        self.summary(part, tag, form, 2 * keys.bounds as usize, |total| add_shares(rows, keys, total, shares))
    }

    /// Counts a block's rows by key, as [`Session::histogram`] does; otherwise as [`Permit::summarise_moments`].
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_histogram<R: Rows>(
        &self, part: BlockPart, tag: SummaryTag, keys: impl Into<PerUnit<u32>>, rows: &[R],
        key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Option<Summary>, SessionError> {
        let keys = keys.into();
        check_keys(keys.bounds)?;
        let shares = |row: R::Row<'_>, steps| key(row).map(|key| (key, [steps]));
        let sum = |total: &mut [i128]| add_shares(rows, keys, total, shares);
        self.summary(part, tag, histogram_form(keys), keys.bounds as usize, sum)
    }

    /// The bytes of a summary, authenticated with the key, for a store that is trusted with the rows; `None` unless the
    /// permit covers the block.
    pub fn seal(&self, key: &SummaryKey, summary: &Summary) -> Option<Vec<u8>> {
        let Summary { stream, part, tag, form, rows, numbers, .. } = summary;
        if !self.covers(*stream, part.block, part.lane) {
            return None;
        }
        let words = [form.len() as u64].into_iter().chain(form.iter().copied()).chain([*rows]);
        let words = words.map(u64::to_le_bytes).chain(numbers.iter().map(|number| number.to_le_bytes()));
        let mut bytes = words.collect::<Vec<_>>().into_flattened();
        let code = self.code(key, *part, *tag, &bytes);
        bytes.extend(code);
        Some(bytes)
    }

    /// Verifies and decodes the summary of a part under a tag.
    ///
    /// # Guarantee
    /// The bytes were sealed with this key for this log, stream, part, source and tag, and the sums have the properties
    /// that the proofs assume of sums of rows: `proofs/summary.md`.
    ///
    /// # Errors
    /// When this does not hold, or the permit does not cover the part.
    pub fn unseal(
        &self, key: &SummaryKey, part: BlockPart, tag: SummaryTag, bytes: &[u8],
    ) -> Result<Summary, MalformedBytes> {
        let (body, sealed) = bytes.split_last_chunk::<32>().ok_or(MalformedBytes)?;
        let expected = self.code(key, part, tag, body);
        // All bytes are compared, so that the time does not reveal how many agree.
        let differs = expected.iter().zip(sealed).fold(0, |all, (one, other)| all | (one ^ other)) != 0;
        if differs || !self.covers(self.stream, part.block, part.lane) {
            return Err(MalformedBytes);
        }
        let (words, []) = body.as_chunks::<8>() else { return Err(MalformedBytes) };
        let (length, rest) = words.split_first().ok_or(MalformedBytes)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| MalformedBytes)?;
        let (form, rest) = rest.split_at_checked(length).ok_or(MalformedBytes)?;
        let (rows, numbers) = rest.split_first().ok_or(MalformedBytes)?;
        let form: Vec<u64> = form.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let rows = u64::from_le_bytes(*rows);
        let numbers: Vec<i64> = numbers.iter().map(|number| i64::from_le_bytes(*number)).collect();
        if !could_be_sums(&form, rows, &numbers) {
            return Err(MalformedBytes);
        }
        Ok(Summary { stream: self.stream, part, tag, kind: tag.kind(&form), form, rows, numbers })
    }

    /// The authentication code, which binds the bytes of a summary to its log, stream, block, lane, source and tag.
    fn code(&self, key: &SummaryKey, part: BlockPart, tag: SummaryTag, body: &[u8]) -> [u8; 32] {
        let numbers = [self.stream.0, part.block.0, part.lane.index() as u32].map(u32::to_le_bytes);
        key.authenticate(&[DOMAIN, &self.origin, numbers.as_flattened(), &part.source, &tag.0, body])
    }
}

/// The first bytes of the authenticated message; all fields except the last have a fixed length.
const DOMAIN: &[u8; 16] = b"sage: summary 2\n";

/// Whether the sums have the properties of sums of rows that the proofs rely on (`proofs/summary.md`).
fn could_be_sums(form: &[u64], rows: u64, numbers: &[i64]) -> bool {
    let narrow = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
    let moments = if let [0 | 1, ..] = form { 4 } else { usize::MAX };
    let (form, rest) = form.split_at_checked(moments).unwrap_or((form, &[]));
    let Some(contribution) = Contribution::from_form(rest) else { return false };
    let units = match *form {
        [0, width, feature_norm, label_size] => {
            let (feature_norm, label_size) = (f64::from_bits(feature_norm), f64::from_bits(label_size));
            contribution.per_unit(MomentBounds { width: narrow(width), feature_norm, label_size }).units()
        }
        [1, active, columns, label_size] => {
            let (active, columns, label_size) = (narrow(active), narrow(columns), f64::from_bits(label_size));
            contribution.per_unit(OneHotBounds { active, columns, label_size }).units()
        }
        [2, keys, ..] => return could_be_table(2, keys, rows, numbers),
        [3, keys] | [3, keys, _] => return could_be_table(1, keys, rows, numbers),
        _ => return false,
    };
    units.is_ok_and(|units| units.could_have(rows, numbers))
}

/// Whether the sums can be those of a table: a row adds at most [`SCALE`] to the sums of one key.
fn could_be_table(each: u64, keys: u64, rows: u64, numbers: &[i64]) -> bool {
    let total: i128 = numbers.iter().map(|&number| i128::from(number)).sum();
    keys.checked_mul(each) == Some(numbers.len() as u64)
        && numbers.iter().all(|&number| number >= 0)
        && rows <= ROWS_LIMIT
        && total <= i128::from(rows) * i128::from(SCALE)
}

/// The summaries that the permit covers, at most one for each block and kind, by lane.
pub(crate) fn distinct(permit: &Permit, given: Vec<Arc<Summary>>) -> [Vec<Arc<Summary>>; 2] {
    let mut kept = [Vec::new(), Vec::new()];
    let mut seen = BTreeSet::new();
    for summary in given {
        let BlockPart { block, lane, .. } = summary.part;
        if permit.covers(summary.stream, block, lane) && seen.insert((block, lane, summary.kind)) {
            kept[lane.index()].push(summary);
        }
    }
    kept
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// Adds up the lane's summaries of this form and the sums that `sum` adds for its rows; returns the number of rows.
    pub(crate) fn gather(
        &self, lane: Lane, form: &[u64], total: &mut [i128], sum: impl FnOnce(&[R], &mut [i128]) -> u64,
    ) -> Result<u64, SessionError> {
        if self.plans[lane.index()].is_none() {
            return Err(SessionError::NotCovered);
        }
        let (kept, kind) = (&self.summaries[lane.index()], self.tag.kind(form));
        let mut rows = sum(&self.rows[lane.index()], total);
        let mut found = kept.is_empty();
        for summary in kept.iter().filter(|summary| summary.kind == kind) {
            found = true;
            rows = rows.saturating_add(summary.rows);
            total.iter_mut().zip(&summary.numbers).for_each(|(total, &number)| *total += i128::from(number));
        }
        if found {
            Ok(rows)
        } else {
            Err(SessionError::Parameter("the lane was opened with cached summaries of another kind"))
        }
    }
}
