//! The life of blocks after their rows are in: sealed, retired, deleted.
//!
//! Each step is an event first. Files go only after the log says that they are no longer kept, so a crash
//! leaves files nobody names, never names without files. No safety rests on the clock: a retention that is
//! over only retires.

use sage_kernel::{BlockId, Blocks, Gate, StreamId};

use super::policy::{found, in_role};
use super::{Engine, EngineError, Principal, Store, note, now};
use crate::catalog::{Note, Stage, Stream};
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
            places(gate, id, keys)?;
            in_stage(known, keys, Stage::Open, "open")?;
            let (stream, blocks, by) = (stream.to_owned(), keys.to_vec(), by.name().to_owned());
            Ok(note(gate, &Note::BlocksSealed { stream, blocks, by })?)
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

    /// Retires blocks: they can never be read again.
    ///
    /// # Errors
    /// When one of them does not exist, or the principal is no officer of the stream.
    pub fn retire(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(&known.file, by, Role::PrivacyOfficer)?;
            let blocks = places(gate, id, keys)?;
            Ok(gate.retire(now(), id, blocks)?)
        })
    }

    /// Deletes the files of retired blocks. That they are gone is an event; that they were charged stays.
    ///
    /// # Errors
    /// When one of them is not retired, or the principal is no officer of the stream.
    pub fn delete(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        let files = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(&known.file, by, Role::PrivacyOfficer)?;
            let blocks = places(gate, id, keys)?;
            let retired = gate.ledger().stream(id).map(|stream| move |block| stream.is_retired(block));
            let kept = |place: u32| retired.as_ref().is_none_or(|retired| !retired(BlockId(place)));
            let all = blocks.ranges().iter().flat_map(|range| range.first().0..=range.last().0);
            if let Some(place) = all.into_iter().find(|&place| kept(place)) {
                return Err(EngineError::Stage { block: key_of(gate, id, place), needed: "retired" });
            }
            let files: Vec<String> = keys
                .iter()
                .filter_map(|key| known.blocks.get(key))
                .flat_map(|block| block.parts.iter().map(|part| part.path(stream)))
                .collect();
            let (stream, blocks, by) = (stream.to_owned(), keys.to_vec(), by.name().to_owned());
            note(gate, &Note::BlocksDeleted { stream, blocks, by })?;
            Ok(files)
        })?;
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
                wanted(stage_of(known, key), span)
            });
            Ok(chosen.cloned().collect())
        })
    }
}

/// The stage of a block that exists; one without rows is open until somebody seals it.
pub(super) fn stage_of(stream: &Stream, key: &str) -> Stage {
    stream.blocks.get(key).map_or(Stage::Open, |block| block.stage)
}

pub(super) fn in_stage(
    stream: &Stream, keys: &[String], stage: Stage, needed: &'static str,
) -> Result<(), EngineError> {
    match keys.iter().find(|key| stage_of(stream, key) != stage) {
        Some(key) => Err(EngineError::Stage { block: key.clone(), needed }),
        None => Ok(()),
    }
}

/// The blocks with these keys.
pub(super) fn places(gate: &Gate<Store>, stream: StreamId, keys: &[String]) -> Result<Blocks, EngineError> {
    let known = gate.ledger().stream(stream);
    let place = |key: &String| known.and_then(|stream| stream.block_with_key(key)).map(|block| (block.0, block.0));
    let found: Result<Vec<(u32, u32)>, EngineError> =
        keys.iter().map(|key| place(key).ok_or_else(|| EngineError::NoBlock(key.clone()))).collect();
    Blocks::from_ranges(found?).map_err(|_| EngineError::NoBlock(String::new()))
}

fn key_of(gate: &Gate<Store>, stream: StreamId, place: u32) -> String {
    let keys = gate.ledger().stream(stream).map(|stream| stream.block_keys());
    keys.and_then(|keys| keys.get(place as usize)).cloned().unwrap_or_default()
}
