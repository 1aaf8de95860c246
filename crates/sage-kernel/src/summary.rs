//! Sums of one lane of one block, kept for the next time. Proof: `proofs/summary.md`.
//!
//! Sums of rows are exact, so those of a window are the sums of its blocks. A reader that holds a permit may
//! have the kernel sum a block that the permit covers, keep the result beside the block, and give it to a later
//! session in the stead of the rows. A summary is as secret as the rows: it cannot be copied, printed or read,
//! becomes bytes only for the holder of a permit that covers its block, and is opened again only by one. The bytes
//! are authenticated with a secret of the directory: a file that another program wrote, or that belongs to another
//! log, block, lane or tag, is refused, and so are numbers that no rows have.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::block::{BlockId, Lane, StreamId};
use crate::codec::Malformed;
use crate::cost::SCALE;
use crate::grant::Permit;
use crate::moments::{MomentBounds, PlaceBounds, ROWS_LIMIT};
use crate::noise::NoiseSource;
use crate::session::{Rows, Session, SessionError};
use crate::table::{Range, Taken, add_shares, check_keys, histogram_form, pairs_form, shares_of};

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

/// The secret of a directory that authenticates the summaries kept in it. Not to be printed.
///
/// # Guarantee
/// The caller promises 32 uniform bytes that no one outside the trusted side has read. Without them no bytes can
/// be made that [`Permit::unseal`] accepts, but for a chance of 2^-256 a try.
pub struct SummaryKey([u8; 32]);

impl SummaryKey {
    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// HMAC-SHA-256 (RFC 2104) of the parts one after the other.
    fn authenticate(&self, parts: &[&[u8]]) -> [u8; 32] {
        let pad = |byte: u8| std::array::from_fn::<u8, 64, _>(|at| byte ^ self.0.get(at).unwrap_or(&0));
        let inner = parts.iter().fold(Sha256::new_with_prefix(pad(0x36)), |hash, part| hash.chain_update(part));
        Sha256::new_with_prefix(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
    }
}

/// Exact sums of one lane of one block. Not to be copied, printed or read.
pub struct Summary {
    stream: StreamId,
    part: Part,
    tag: Tag,
    /// Which sums they are, and with which bounds.
    form: Vec<u64>,
    /// What was summed: the caller's tag with the form.
    kind: [u8; 32],
    rows: u64,
    numbers: Vec<i64>,
}

impl Permit {
    /// None if a number does not fit into 64 bits, which takes millions of rows; they are then read again.
    fn summary(
        &self, part: Part, tag: Tag, form: Vec<u64>, size: usize, sum: impl FnOnce(&mut [i128]) -> u64,
    ) -> Result<Option<Summary>, SessionError> {
        if !self.covers(self.stream, part.block, part.lane) {
            return Err(SessionError::NotCovered);
        }
        let mut total = vec![0; size];
        let rows = sum(&mut total);
        let numbers: Option<Vec<i64>> = total.into_iter().map(|number| i64::try_from(number).ok()).collect();
        let kind = tag.of(&form);
        Ok(numbers.map(|numbers| Summary { stream: self.stream, part, tag, form, kind, rows, numbers }))
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
        self.summary(part, tag, bounds.form(), size, |total| bounds.sum(rows, total, value))
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
        self.summary(part, tag, bounds.form(), size, |total| bounds.sum(rows, total, value))
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
        let form = pairs_form(keys, range, taken);
        self.summary(part, tag, form, 2 * keys as usize, |total| add_shares(rows, total, shares))
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
        self.summary(part, tag, histogram_form(keys), keys as usize, |total| add_shares(rows, total, shares))
    }

    /// The bytes of a summary for a store that is trusted with the rows themselves, authenticated with the key; None
    /// unless the permit covers its block.
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

    /// The summary of a part under a tag, from its bytes.
    ///
    /// # Guarantee
    /// The bytes were sealed with this key for this log, stream, part, source and tag, and what they hold is what
    /// the proofs assume of sums of rows: `proofs/summary.md`.
    ///
    /// # Errors
    /// When any of this is not so, or the permit does not cover the part.
    pub fn unseal(&self, key: &SummaryKey, part: Part, tag: Tag, bytes: &[u8]) -> Result<Summary, Malformed> {
        let (body, sealed) = bytes.split_last_chunk::<32>().ok_or(Malformed)?;
        let expected = self.code(key, part, tag, body);
        // All bytes are compared, so that the time taken does not tell how many agree.
        let differs = expected.iter().zip(sealed).fold(0, |all, (one, other)| all | (one ^ other)) != 0;
        if differs || !self.covers(self.stream, part.block, part.lane) {
            return Err(Malformed);
        }
        let (words, []) = body.as_chunks::<8>() else { return Err(Malformed) };
        let (length, rest) = words.split_first().ok_or(Malformed)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Malformed)?;
        let (form, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        let (rows, numbers) = rest.split_first().ok_or(Malformed)?;
        let form: Vec<u64> = form.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let rows = u64::from_le_bytes(*rows);
        let numbers: Vec<i64> = numbers.iter().map(|number| i64::from_le_bytes(*number)).collect();
        if !could_be_sums(&form, rows, &numbers) {
            return Err(Malformed);
        }
        Ok(Summary { stream: self.stream, part, tag, kind: tag.of(&form), form, rows, numbers })
    }

    /// The authentication code that binds the bytes of a summary to what they are sums of.
    fn code(&self, key: &SummaryKey, part: Part, tag: Tag, body: &[u8]) -> [u8; 32] {
        let numbers = [self.stream.0, part.block.0, part.lane.index() as u32].map(u32::to_le_bytes);
        key.authenticate(&[DOMAIN, &self.origin, numbers.as_flattened(), &part.source, &tag.0, body])
    }
}

/// The first bytes of everything that is authenticated; all fields but the last have a fixed length.
const DOMAIN: &[u8; 16] = b"sage: summary 2\n";

/// Whether rows could have these sums, as far as the proofs rely on it (`proofs/summary.md`).
fn could_be_sums(form: &[u64], rows: u64, numbers: &[i64]) -> bool {
    let narrow = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
    let units = match *form {
        [0, width, feature_norm, label_size] => {
            let (feature_norm, label_size) = (f64::from_bits(feature_norm), f64::from_bits(label_size));
            MomentBounds { width: narrow(width), feature_norm, label_size }.units()
        }
        [1, named, places, label_size] => {
            let label_size = f64::from_bits(label_size);
            PlaceBounds { named: narrow(named), places: narrow(places), label_size }.units()
        }
        [2, keys, ..] => return could_be_table(2, keys, rows, numbers),
        [3, keys] => return could_be_table(1, keys, rows, numbers),
        _ => return false,
    };
    units.is_ok_and(|units| units.could_have(rows, numbers))
}

/// Whether rows could have these sums of shares by key: a row adds [`SCALE`] to the numbers of one key at most.
fn could_be_table(each: u64, keys: u64, rows: u64, numbers: &[i64]) -> bool {
    let total: i128 = numbers.iter().map(|&number| i128::from(number)).sum();
    keys.checked_mul(each) == Some(numbers.len() as u64)
        && numbers.iter().all(|&number| number >= 0)
        && rows <= ROWS_LIMIT
        && total <= i128::from(rows) * i128::from(SCALE)
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
    /// Adds the lane's summaries of this form, and what `sum` adds for its rows; gives the number of rows.
    pub(crate) fn gather(
        &self, lane: Lane, form: &[u64], total: &mut [i128], sum: impl FnOnce(&[R], &mut [i128]) -> u64,
    ) -> Result<u64, SessionError> {
        if self.plans[lane.index()].is_none() {
            return Err(SessionError::NotCovered);
        }
        let (kept, kind) = (&self.kept[lane.index()], self.tag.of(form));
        let mut rows = sum(&self.rows[lane.index()], total);
        let mut found = kept.is_empty();
        for summary in kept.iter().filter(|summary| summary.kind == kind) {
            found = true;
            rows = rows.saturating_add(summary.rows);
            total.iter_mut().zip(&summary.numbers).for_each(|(total, &number)| *total += i128::from(number));
        }
        if found { Ok(rows) } else { Err(SessionError::Parameter("the lane was opened on sums of another kind")) }
    }
}
