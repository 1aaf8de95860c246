//! The life of blocks after their rows are in: sealed, retired, deleted.
//!
//! Each step is an event first. Files go only after the log says that they are no longer kept, so a crash
//! leaves files nobody names, never names without files. No safety rests on the clock: a retention that is
//! over only retires.

use std::collections::BTreeMap;

use sage_kernel::{BlockId, Blocks, Gate, StreamId};

use super::policy::{found, in_role};
use super::{Engine, EngineError, Principal, Store, note, now};
use crate::catalog::{Note, Stage};
use crate::stream::{Role, Span};

impl Engine {
    /// Seals blocks: no row will be added to them, and they can be charged from now on.
    ///
    /// # Errors
    /// When one of them does not exist or is not open, or the principal is no data engineer of the stream.
    pub fn seal(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(&known.file, by, Role::DataEngineer)?;
            set(gate, id, keys)?;
            if let Some(key) = keys.iter().find(|key| known.stage(key) != Stage::Open) {
                return Err(EngineError::Stage { block: key.clone(), needed: "open" });
            }
            let (stream, blocks, by) = (stream.to_owned(), keys.to_vec(), by.name().to_owned());
            Ok(note(gate, catalog, &Note::BlocksSealed { stream, blocks, by })?)
        })
    }

    /// The open blocks whose time is over at this instant (microseconds since 1970), in order of arrival.
    /// Blocks without a time are never over.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn open_before(&self, stream: &str, instant: i64) -> Result<Vec<String>, EngineError> {
        self.select(stream, |stage, span| stage == Stage::Open && span.is_some_and(|span| span.end <= instant))
    }

    /// The blocks that are not deleted and whose time is over at this instant, in order of arrival.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn over_before(&self, stream: &str, instant: i64) -> Result<Vec<String>, EngineError> {
        self.select(stream, |stage, span| stage != Stage::Deleted && span.is_some_and(|span| span.end <= instant))
    }

    /// Retires blocks: they can never be read again.
    ///
    /// # Errors
    /// When one of them does not exist, or the principal is no officer of the stream.
    pub fn retire(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(&known.file, by, Role::PrivacyOfficer)?;
            let blocks = set(gate, id, keys)?;
            Ok(gate.retire(now(), id, blocks)?)
        })
    }

    /// Deletes the files of retired blocks, and the sums that were made of them. That they are gone is an event; that
    /// they were charged stays.
    ///
    /// # Errors
    /// When one of them is not retired, or the principal is no officer of the stream.
    pub fn delete(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        let files = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(&known.file, by, Role::PrivacyOfficer)?;
            let blocks = set(gate, id, keys)?;
            if let Some(block) = first_not_retired(gate, id, &blocks) {
                return Err(EngineError::Stage { block, needed: "retired" });
            }
            let files: Vec<String> = keys
                .iter()
                .filter_map(|key| known.blocks.get(key))
                .flat_map(|block| block.parts.iter().map(|part| part.path(stream)))
                .collect();
            let (stream, blocks, by) = (stream.to_owned(), keys.to_vec(), by.name().to_owned());
            note(gate, catalog, &Note::BlocksDeleted { stream, blocks, by })?;
            Ok(files)
        })?;
        keys.iter().try_for_each(|key| self.sums.remove(stream, key))?;
        files.iter().try_for_each(|file| self.blocks.delete(file)).map_err(EngineError::from)
    }

    /// Blocks whose retention is over at this instant (microseconds since 1970), in order of arrival.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn expired(&self, stream: &str, instant: i64) -> Result<Vec<String>, EngineError> {
        let catalog = self.catalog();
        let known = catalog.stream(stream).ok_or_else(|| EngineError::NoStream(stream.to_owned()))?;
        let Some(kept) = known.file.retention else { return Ok(Vec::new()) };
        self.select(stream, |stage, span| {
            let over = span.is_some_and(|span| span.end.saturating_add(kept.microseconds()) <= instant);
            stage != Stage::Deleted && over
        })
    }

    fn select(&self, stream: &str, wanted: impl Fn(Stage, Option<Span>) -> bool) -> Result<Vec<String>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            let keys = gate.ledger().stream(id).map_or(&[][..], |stream| stream.block_keys());
            let chosen = keys.iter().filter(|key| {
                let span = known.file.blocks.parse(key).and_then(|levels| levels.span);
                wanted(known.stage(key), span)
            });
            Ok(chosen.cloned().collect())
        })
    }
}

/// The blocks with these keys, in the order of the keys.
pub(super) fn numbers(gate: &Gate<Store>, stream: StreamId, keys: &[String]) -> Result<Vec<BlockId>, EngineError> {
    let known = gate.ledger().stream(stream).map_or(&[][..], |stream| stream.block_keys());
    let places: BTreeMap<&str, u32> = known.iter().map(String::as_str).zip(0..).collect();
    let number = |key: &String| places.get(key.as_str()).map(|&place| BlockId(place));
    keys.iter().map(|key| number(key).ok_or_else(|| EngineError::NoBlock(key.clone()))).collect()
}

/// The set of the blocks with these keys.
pub(super) fn set(gate: &Gate<Store>, stream: StreamId, keys: &[String]) -> Result<Blocks, EngineError> {
    let numbers = numbers(gate, stream, keys)?;
    Blocks::from_ranges(numbers.into_iter().map(|block| (block.0, block.0))).map_err(EngineError::Blocks)
}

/// The key of the first block that is not retired.
fn first_not_retired(gate: &Gate<Store>, stream: StreamId, blocks: &Blocks) -> Option<String> {
    let stream = gate.ledger().stream(stream)?;
    let mut all = blocks.ranges().iter().flat_map(|range| range.first().0..=range.last().0);
    let kept = all.find(|&place| !stream.is_retired(BlockId(place)))?;
    stream.block_keys().get(kept as usize).cloned()
}
