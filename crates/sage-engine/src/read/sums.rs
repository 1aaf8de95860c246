//! Block summaries: blocks are summarised as they are read, and cached summaries replace blocks that were read before.
//!
//! The kernel computes a summary under the permit, seals it for the cache with a secret of the directory, and opens it
//! again only with that secret and under a permit that covers the block. This module decides which summaries replace
//! which rows: by a tag, which is a digest of everything between a stored row and its summands, and by the digest of
//! the block's parts. Different computations must never have the same tag. A missing summary only costs another read.

use sage_kernel::{BlockId, Lane, Permit, Summary, SummaryKey, SummaryTag};
use sage_learn::statistics::StatisticError;

use super::error::ReadError;
use super::query::{PreparedQuery, Query};
use super::reader::{LaneContent, LaneHandler, Source};
use super::unit::Unit;
use crate::blocks::{SummaryCache, SummaryId};

/// Incremented when the same query or encoding gives another result within one version of the program. Since 3, rows
/// with missing values are left out; since 4, several records of a user count.
const ENCODING_VERSION: u64 = 4;

/// Summarises the batches of one lane of one block, under a permit that covers it. Each summary covers all batches. An
/// empty result, if summaries do not fit or are larger than the rows, passes the rows to the session.
pub type SummaryFunction<'a, B> =
    dyn Fn(&Permit, (sage_kernel::BlockPart, SummaryTag), &[B]) -> Result<Vec<Summary>, StatisticError> + Sync + 'a;

/// How blocks are summarised.
pub struct SummaryPlan<'a, B> {
    /// The summarised lanes. For the others the session gets the rows.
    pub lanes: &'a [Lane],
    /// The summary function.
    pub sum: &'a SummaryFunction<'a, B>,
    /// Whether the summaries are cached.
    pub keep: SummaryRetention<'a>,
}

/// Whether summaries are cached after their session.
#[derive(Clone, Copy)]
pub enum SummaryRetention<'a> {
    /// They are dropped.
    Discard,
    /// They replace their block in later sessions.
    Cache(&'a SummaryCacheAccess<'a>),
}

/// A cache of summaries with the key and tag under which they are stored.
pub struct SummaryCacheAccess<'a> {
    /// The cache.
    pub sums: &'a SummaryCache,
    /// The directory's secret, with which the kernel authenticates summaries.
    pub key: &'a SummaryKey,
    /// The digest of the computation, from [`tag`].
    pub tag: SummaryTag,
    /// Whether the block with this key was deleted.
    pub gone: &'a (dyn Fn(&str) -> bool + Sync),
}

/// A digest of everything that determines a summary besides the stored rows: the stream's columns, the query, the unit,
/// the program version, and `what`, in which the caller describes the encoding, the sums and their bounds.
pub fn tag(prepared: &PreparedQuery, query: &Query, unit: &Unit, what: &str) -> SummaryTag {
    let mut hash = blake3::Hasher::new_derive_key("sage: what is summed");
    let mut add = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    add(env!("CARGO_PKG_VERSION"));
    add(&format!("{ENCODING_VERSION} {unit:?} {:?}", query.filter));
    add(&format!("{} {}", prepared.schema.fields().len(), query.columns.len()));
    for field in prepared.schema.fields() {
        add(&format!("{:?} {:?} {}", field.name(), field.data_type(), field.is_nullable()));
    }
    for column in &query.columns {
        add(&format!("{:?} {:?}", column.name, column.sql));
    }
    add(what);
    SummaryTag(*hash.finalize().as_bytes())
}

impl<B> SummaryPlan<'_, B> {
    /// The tag of the session. Summaries that are not cached live in one session, so one tag serves all of them.
    pub(super) const fn tag(&self) -> SummaryTag {
        match self.keep {
            SummaryRetention::Discard => SummaryTag([0; 32]),
            SummaryRetention::Cache(cache) => cache.tag,
        }
    }
}

/// Summarises lanes for a session.
pub(super) struct SummaryHandler<'a, B> {
    pub(super) permit: &'a Permit,
    pub(super) source: &'a Source,
    pub(super) sums: &'a SummaryPlan<'a, B>,
}

impl<B> SummaryHandler<'_, B> {
    fn part(&self, block: BlockId, lane: Lane) -> sage_kernel::BlockPart {
        sage_kernel::BlockPart { block, lane, source: self.source.digest(block) }
    }

    /// The cache entry of a lane of a block, if it is cached.
    fn cache_entry(&self, block: BlockId, lane: Lane) -> Option<(&SummaryCacheAccess<'_>, SummaryId<'_>)> {
        let SummaryRetention::Cache(cache) = self.sums.keep else { return None };
        let block = self.source.key(block).filter(|_| self.sums.lanes.contains(&lane))?;
        Some((cache, SummaryId { stream: self.source.name(), block, lane, tag: cache.tag }))
    }
}

impl<B> LaneHandler<B> for SummaryHandler<'_, B> {
    fn cached_summaries(&self, block: BlockId, lane: Lane) -> Option<Vec<Summary>> {
        let (cache, entry) = self.cache_entry(block, lane)?;
        let part = self.part(block, lane);
        let sealed = cache.sums.find(&entry, part.source)?;
        let open = |bytes: &Vec<u8>| self.permit.unseal(cache.key, part, cache.tag, bytes);
        // A forged, foreign or damaged summary is ignored, and the block is read again.
        let opened = sealed.iter().map(open).collect::<Result<Vec<_>, _>>();
        opened.ok().filter(|sums| !sums.is_empty())
    }

    fn handle(&self, block: BlockId, lane: Lane, rows: Vec<B>, bytes: u64) -> Result<LaneContent<B>, ReadError> {
        if !self.sums.lanes.contains(&lane) {
            return Ok(LaneContent::Rows(rows));
        }
        let part = self.part(block, lane);
        let sums = (self.sums.sum)(self.permit, (part, self.sums.tag()), &rows).map_err(|_| ReadError::Failed)?;
        if sums.is_empty() {
            return Ok(LaneContent::Rows(rows));
        }
        if let Some((cache, entry)) = self.cache_entry(block, lane)
            && let Some(sealed) = sums.iter().map(|sums| self.permit.seal(cache.key, sums)).collect::<Option<Vec<_>>>()
        {
            cache.sums.insert(&entry, part.source, bytes, &sealed, || (cache.gone)(entry.block));
        }
        Ok(LaneContent::Summaries(sums))
    }

    /// Cached summaries are shared by several grants, so the seed is the tag instead of the grant.
    fn sampling_seed(&self, lane: Lane) -> Vec<u8> {
        match self.sums.keep {
            SummaryRetention::Cache(cache) if self.sums.lanes.contains(&lane) => cache.tag.0.to_vec(),
            _ => self.permit.grant().0.to_le_bytes().to_vec(),
        }
    }
}
