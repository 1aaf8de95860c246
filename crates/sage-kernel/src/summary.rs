//! Sums of one lane of one block, kept for the next time. Proof: `proofs/summary.md`.
//!
//! Sums of rows are exact, so those of a window are the sums of its blocks. A reader that holds a permit may
//! have the kernel sum a block that the permit covers, keep the result beside the block, and give it to a later
//! session in the stead of the rows. A summary is as secret as the rows: it cannot be copied, printed or read,
//! becomes bytes only for the holder of a permit that covers its block, and is opened again only by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use sage_exact::Sums;
use sha2::{Digest, Sha256};

use crate::block::{BlockId, Lane, StreamId};
use crate::codec::{Malformed, Reader, Writer};
use crate::grant::Permit;
use crate::moments::{MomentBounds, Moments, PlaceBounds};
use crate::noise::NoiseSource;
use crate::session::{Rows, Session, SessionError};
use crate::table::{Pair, Range, TableNoise, Taken, as_pairs, check_keys, each_share, shares_of};

const HEAD: &[u8] = b"sage summary 1\n";

/// The caller's digest of everything that turns a row into what the functions of a row return: the query,
/// the encoding, the choice of key and value. Equal tags promise equal functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub [u8; 32]);

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
    sums: Sums,
}

/// What is summed, with every bound that the kernel enforces.
#[derive(Clone, Copy)]
enum Bounds {
    Moments(MomentBounds),
    Places(PlaceBounds),
    Pairs(u32, Range, Taken),
    Histogram(u32),
}

impl Bounds {
    fn kind(self, tag: Tag) -> [u8; 32] {
        let mut writer = Writer::default();
        writer.raw(&tag.0);
        let numbers = match self {
            Self::Moments(bounds) => {
                vec![0, u64::from(bounds.width), bounds.feature_norm.to_bits(), bounds.label_size.to_bits()]
            }
            Self::Places(bounds) => {
                vec![1, u64::from(bounds.named), u64::from(bounds.places), bounds.label_size.to_bits()]
            }
            Self::Pairs(keys, range, taken) => {
                vec![2, u64::from(keys), range.low.to_bits(), range.high.to_bits(), taken as u64]
            }
            Self::Histogram(keys) => vec![3, u64::from(keys)],
        };
        numbers.into_iter().for_each(|number| writer.number(number));
        Sha256::digest(&writer.0).into()
    }
}

impl Permit {
    fn summary(
        &self, part: Part, bounds: Bounds, tag: Tag, sum: impl FnOnce() -> Sums,
    ) -> Result<Summary, SessionError> {
        if !self.covers(self.stream, part.block, part.lane) {
            return Err(SessionError::NotCovered);
        }
        Ok(Summary { stream: self.stream, part, kind: bounds.kind(tag), sums: sum() })
    }

    /// Sums the moments of a block's rows, as [`Session::moments`] does.
    ///
    /// # Errors
    /// When the permit does not cover the block or a bound is out of range.
    pub fn summarise_moments<R: Rows>(
        &self, part: Part, tag: Tag, bounds: MomentBounds, rows: &[R], value: impl Fn(R::Row<'_>, &mut [f64]) -> f64,
    ) -> Result<Summary, SessionError> {
        bounds.units()?;
        self.summary(part, Bounds::Moments(bounds), tag, || bounds.sum(rows, value))
    }

    /// Sums the moments of a block's rows, as [`Session::place_moments`] does.
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_places<R: Rows>(
        &self, part: Part, tag: Tag, bounds: PlaceBounds, rows: &[R], value: impl Fn(R::Row<'_>, &mut [u32]) -> f64,
    ) -> Result<Summary, SessionError> {
        bounds.units()?;
        self.summary(part, Bounds::Places(bounds), tag, || bounds.sum(rows, value))
    }

    /// Sums a block's rows by key, as [`Session::pairs`] does.
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_pairs<R: Rows>(
        &self, part: Part, tag: Tag, keys: u32, (range, taken): (Range, Taken), rows: &[R],
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Summary, SessionError> {
        check_keys(keys)?;
        let shares = |row: R::Row<'_>| value(row).map(|(key, value)| (key, shares_of(value, range, taken)));
        self.summary(part, Bounds::Pairs(keys, range, taken), tag, || table(keys, rows, shares))
    }

    /// Counts a block's rows by key, as [`Session::histogram`] does.
    ///
    /// # Errors
    /// As [`Permit::summarise_moments`].
    pub fn summarise_histogram<R: Rows>(
        &self, part: Part, tag: Tag, keys: u32, rows: &[R], key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Summary, SessionError> {
        check_keys(keys)?;
        let shares = |row: R::Row<'_>| key(row).map(|key| (key, [crate::cost::SCALE]));
        self.summary(part, Bounds::Histogram(keys), tag, || table(keys, rows, shares))
    }

    /// The bytes of a summary for a store that is trusted with the rows themselves; nothing unless the permit
    /// covers its block.
    pub fn seal(&self, summary: &Summary) -> Option<Vec<u8>> {
        if !self.covers(summary.stream, summary.part.block, summary.part.lane) {
            return None;
        }
        let mut writer = Writer::default();
        writer.raw(&header(summary.stream, summary.part));
        writer.raw(&summary.kind);
        writer.number(summary.sums.rows);
        writer.number(summary.sums.size() as u64);
        writer.number(summary.sums.numbers.len() as u64);
        for &number in &summary.sums.numbers {
            // Signs go to the lowest bit, so that small numbers are short.
            writer.number(((number << 1) ^ (number >> 63)) as u64);
        }
        let digest = Sha256::digest(&writer.0);
        writer.raw(&digest);
        Some(writer.0)
    }

    /// The summary of a part from its bytes.
    ///
    /// # Errors
    /// When the bytes are not those that were sealed for this part and source, or the permit does not cover it.
    pub fn unseal(&self, part: Part, bytes: &[u8]) -> Result<Summary, Malformed> {
        let (body, digest) = bytes.split_last_chunk::<32>().ok_or(Malformed)?;
        if !self.covers(self.stream, part.block, part.lane) || Sha256::digest(body) != *digest {
            return Err(Malformed);
        }
        let rest = body.strip_prefix(&header(self.stream, part)[..]).ok_or(Malformed)?;
        let mut reader = Reader(rest);
        let kind = *reader.raw(32)?.first_chunk().ok_or(Malformed)?;
        let (rows, size) = (reader.number()?, usize::try_from(reader.number()?).map_err(|_| Malformed)?);
        let numbers = reader.list(|reader| {
            let number = reader.number()?;
            Ok((number >> 1) as i64 ^ -((number & 1) as i64))
        })?;
        reader.end()?;
        Ok(Summary { stream: self.stream, part, kind, sums: Sums::written(size, numbers, rows).ok_or(Malformed)? })
    }
}

/// What the bytes of a part's summaries begin with.
fn header(stream: StreamId, part: Part) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.raw(HEAD);
    writer.number(u64::from(stream.0));
    writer.number(u64::from(part.block.0));
    writer.byte(part.lane.index() as u8);
    writer.raw(&part.source);
    writer.0
}

fn table<R: Rows, const NUMBERS: usize>(
    keys: u32, rows: &[R], shares: impl Fn(R::Row<'_>) -> Option<(u32, [u64; NUMBERS])>,
) -> Sums {
    let mut sums = Sums::new(keys as usize * NUMBERS);
    each_share(rows, shares, |key, shares| {
        if key < keys {
            let sums = sums.room(1)[key as usize * NUMBERS..].iter_mut();
            sums.zip(shares).for_each(|(sum, share)| *sum += share as i64);
        }
    });
    sums
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
    /// The sums of this kind that the lane was opened on.
    fn kept_sums(&self, lane: Lane, bounds: Bounds, tag: Tag) -> Result<Vec<&Sums>, SessionError> {
        if self.plans[lane.index()].is_none() {
            return Err(SessionError::NotCovered);
        }
        let kind = bounds.kind(tag);
        let kept = self.kept[lane.index()].iter().filter(|summary| summary.kind == kind);
        let kept: Vec<&Sums> = kept.map(|summary| &summary.sums).collect();
        if kept.is_empty() || !self.rows[lane.index()].is_empty() {
            return Err(SessionError::Parameter("the lane was not opened on sums of this kind alone"));
        }
        Ok(kept)
    }

    /// The moments that [`Session::moments`] would give for the rows of the blocks the lane holds sums of.
    ///
    /// # Errors
    /// When the lane is not granted, holds rows, or holds no sums of this kind.
    pub fn kept_moments(&self, lane: Lane, tag: Tag, bounds: MomentBounds) -> Result<Moments, SessionError> {
        let units = bounds.units()?;
        Ok(self.settle(lane, units, &self.kept_sums(lane, Bounds::Moments(bounds), tag)?))
    }

    /// The moments that [`Session::place_moments`] would give.
    ///
    /// # Errors
    /// As [`Session::kept_moments`].
    pub fn kept_place_moments(&self, lane: Lane, tag: Tag, bounds: PlaceBounds) -> Result<Moments, SessionError> {
        let units = bounds.units()?;
        Ok(self.settle(lane, units, &self.kept_sums(lane, Bounds::Places(bounds), tag)?))
    }

    /// What [`Session::pairs`] would release, as the same mechanism.
    ///
    /// # Errors
    /// As [`Session::pairs`] and [`Session::kept_moments`].
    pub fn kept_pairs(
        &mut self, lane: Lane, tag: Tag, keys: u32, (range, taken): (Range, Taken), noise: TableNoise,
    ) -> Result<Vec<Pair>, SessionError> {
        let bounds = Bounds::Pairs(keys, range, taken);
        let sums = self.table(lane, keys, noise, |session, sums| {
            let kept = session.kept_sums(lane, bounds, tag)?;
            kept.iter().for_each(|kept| kept.add_to(sums.as_flattened_mut()));
            Ok(())
        });
        Ok(as_pairs(sums?))
    }

    /// What [`Session::histogram`] would release, as the same mechanism.
    ///
    /// # Errors
    /// As [`Session::histogram`] and [`Session::kept_moments`].
    pub fn kept_histogram(
        &mut self, lane: Lane, tag: Tag, keys: u32, noise: TableNoise,
    ) -> Result<Vec<f64>, SessionError> {
        let counts = self.table::<1>(lane, keys, noise, |session, sums| {
            let kept = session.kept_sums(lane, Bounds::Histogram(keys), tag)?;
            kept.iter().for_each(|kept| kept.add_to(sums.as_flattened_mut()));
            Ok(())
        });
        Ok(counts?.into_flattened())
    }
}
