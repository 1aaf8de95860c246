//! Blocks that are summed as they are read, and sums in the stead of blocks that were read before.
//!
//! The kernel sums, under the permit, and what is kept is sealed by it with a secret of the directory and opened again
//! only with that secret and under a permit that covers the block. Which sums stand for which rows is decided here: by a tag that is a digest of everything between
//! a stored row and what is added up, and by the digest of the block's parts. A tag must never be the same for two
//! things that differ; a sum that is missing costs a reading and nothing else.

use sage_kernel::{BlockId, Lane, Permit, Summary, SummaryKey, SummaryTag};
use sage_learn::statistics::StatisticError;

use super::error::ReadError;
use super::query::{Prepared, Query};
use super::reader::{Fate, Settled, Source};
use super::unit::Unit;
use crate::blocks::{SummaryCache, SummaryId};

/// Raised when the same query or encoding makes something else of a row within one version of the program. Since 3, rows
/// with missing values are left out.
const FORM: u64 = 3;

/// Has the kernel sum the batches of one lane of one block, under a permit that covers it: each summary is of all of
/// them. None if the sums do not fit or are larger than the rows; then the session is given the rows.
pub type Summing<'a, B> =
    dyn Fn(&Permit, (sage_kernel::BlockPart, SummaryTag), &[B]) -> Result<Vec<Summary>, StatisticError> + Sync + 'a;

/// How blocks are summed.
pub struct Sums<'a, B> {
    /// The lanes that are summed; of the others the session is given the rows.
    pub lanes: &'a [Lane],
    /// What a block is summed to.
    pub sum: &'a Summing<'a, B>,
    /// What becomes of the sums after their session.
    pub keep: Keep<'a>,
}

/// What becomes of sums after their session.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    /// They are gone.
    Nothing,
    /// They stand for their block in later sessions.
    In(&'a Keeping<'a>),
}

/// Where sums are kept, and as what.
pub struct Keeping<'a> {
    /// Where.
    pub sums: &'a SummaryCache,
    /// The directory's secret, with which the kernel authenticates them.
    pub key: &'a SummaryKey,
    /// What is summed, as [`tag`] says it.
    pub tag: SummaryTag,
    /// Whether the rows of the block with this key are no longer kept.
    pub gone: &'a (dyn Fn(&str) -> bool + Sync),
}

/// A digest of everything that turns a stored row into what is summed: the stream's columns, the query, the unit, the
/// program, and `what`, in which the caller says how the query's columns are encoded and which sums with which bounds
/// are made of them.
pub fn tag(prepared: &Prepared, query: &Query, unit: &Unit, what: &str) -> SummaryTag {
    let mut hash = blake3::Hasher::new_derive_key("sage: what is summed");
    let mut say = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    say(env!("CARGO_PKG_VERSION"));
    say(&format!("{FORM} {unit:?} {:?}", query.filter));
    say(&format!("{} {}", prepared.schema.fields().len(), query.columns.len()));
    for field in prepared.schema.fields() {
        say(&format!("{:?} {:?} {}", field.name(), field.data_type(), field.is_nullable()));
    }
    for column in &query.columns {
        say(&format!("{:?} {:?}", column.name, column.sql));
    }
    say(what);
    SummaryTag(*hash.finalize().as_bytes())
}

impl<B> Sums<'_, B> {
    /// The tag of the session. Sums that are not kept are used in one session alone, so one tag does for all of them.
    pub(super) const fn tag(&self) -> SummaryTag {
        match self.keep {
            Keep::Nothing => SummaryTag([0; 32]),
            Keep::In(keeping) => keeping.tag,
        }
    }
}

/// What becomes of rows in a session on sums.
pub(super) struct Summed<'a, B> {
    pub(super) permit: &'a Permit,
    pub(super) source: &'a Source,
    pub(super) sums: &'a Sums<'a, B>,
}

impl<B> Summed<'_, B> {
    fn part(&self, block: BlockId, lane: Lane) -> sage_kernel::BlockPart {
        sage_kernel::BlockPart { block, lane, source: self.source.digest(block) }
    }

    /// Where the sums of a lane of a block are kept, if they are.
    fn kept(&self, block: BlockId, lane: Lane) -> Option<(&Keeping<'_>, SummaryId<'_>)> {
        let Keep::In(keeping) = self.sums.keep else { return None };
        let block = self.source.key(block).filter(|_| self.sums.lanes.contains(&lane))?;
        Some((keeping, SummaryId { stream: self.source.name(), block, lane, tag: keeping.tag }))
    }
}

impl<B> Fate<B> for Summed<'_, B> {
    fn known(&self, block: BlockId, lane: Lane) -> Option<Vec<Summary>> {
        let (keeping, place) = self.kept(block, lane)?;
        let part = self.part(block, lane);
        let sealed = keeping.sums.find(&place, part.source)?;
        let open = |bytes: &Vec<u8>| self.permit.unseal(keeping.key, part, keeping.tag, bytes);
        // Forged, foreign or damaged: the block is read and summed again, as if nothing were there.
        let opened = sealed.iter().map(open).collect::<Result<Vec<_>, _>>();
        opened.ok().filter(|sums| !sums.is_empty())
    }

    fn settle(&self, block: BlockId, lane: Lane, rows: Vec<B>, bytes: u64) -> Result<Settled<B>, ReadError> {
        if !self.sums.lanes.contains(&lane) {
            return Ok(Settled::Rows(rows));
        }
        let part = self.part(block, lane);
        let sums = (self.sums.sum)(self.permit, (part, self.sums.tag()), &rows).map_err(|_| ReadError::Failed)?;
        if sums.is_empty() {
            return Ok(Settled::Rows(rows));
        }
        if let Some((keeping, place)) = self.kept(block, lane)
            && let Some(sealed) =
                sums.iter().map(|sums| self.permit.seal(keeping.key, sums)).collect::<Option<Vec<_>>>()
        {
            keeping.sums.insert(&place, part.source, bytes, &sealed, || (keeping.gone)(place.block));
        }
        Ok(Settled::Sums(sums))
    }

    /// Sums that are kept stand for the rows of other grants too, so their draw is not the grant's.
    fn draw(&self, lane: Lane) -> Vec<u8> {
        match self.sums.keep {
            Keep::In(keeping) if self.sums.lanes.contains(&lane) => keeping.tag.0.to_vec(),
            _ => self.permit.grant().0.to_le_bytes().to_vec(),
        }
    }
}
