//! The life cycle of blocks after ingest: sealed, retired, deleted.
//!
//! Each step is an event first. Files are removed only after the log records their deletion, so a crash can leave files
//! that no event names, but never the reverse. The worker loop retires and deletes blocks past their retention in the
//! same steps as an officer. No privacy guarantee depends on the clock: a wrong clock keeps rows for too long or too
//! short a time, and reveals nothing.

use std::collections::BTreeMap;

use sage_kernel::{BlockId, Blocks, Gate, StreamId};

use crate::api::policy::{found, in_role};
use crate::api::{Engine, EngineError, Principal, Store, lock, note, now};
use crate::catalog::{Note, Stage};
use crate::stream::Role;

/// How often the worker loop searches for rows past their retention, in milliseconds.
const EXPIRY_CHECK_INTERVAL: u64 = 60_000;

impl Engine {
    /// Seals blocks: no row will be added to them, and they can be charged.
    ///
    /// # Errors
    /// When a block does not exist or is not open, or the principal is not a data engineer of the stream.
    pub fn seal(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::DataEngineer)?;
            set(gate, id, keys)?;
            if let Some(key) = keys.iter().find(|key| known.stage(key) != Stage::Open) {
                return Err(EngineError::Stage { block: key.clone(), needed: "open" });
            }
            let (stream, blocks, by) = (stream.to_owned(), keys.to_vec(), by.name().to_owned());
            Ok(note(gate, catalog, &Note::BlocksSealed { stream, blocks, by })?)
        })
    }

    /// The open blocks that ended before `instant`, in microseconds since 1970, in order of arrival. A block without a
    /// time, such as one of users, ends with the last batch that added rows to it.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn open_before(&self, stream: &str, instant: i64) -> Result<Vec<String>, EngineError> {
        self.select(stream, |stage, end| stage == Stage::Open && end.is_some_and(|end| end <= instant))
    }

    /// The blocks that are not deleted and ended before `instant`, in order of arrival.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn over_before(&self, stream: &str, instant: i64) -> Result<Vec<String>, EngineError> {
        self.select(stream, |stage, end| stage != Stage::Deleted && end.is_some_and(|end| end <= instant))
    }

    /// Retires blocks: they can never be read again.
    ///
    /// # Errors
    /// When a block does not exist, or the principal is not an officer of the stream.
    pub fn retire(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::PrivacyOfficer)?;
            let blocks = set(gate, id, keys)?;
            Ok(gate.retire(now(), id, blocks)?)
        })
    }

    /// Deletes the files and cached summaries of retired blocks. The deletion is recorded; their charges stay. If
    /// blocks are encrypted, their keys are destroyed first, so that remaining copies of the files cannot be read
    /// either.
    ///
    /// # Errors
    /// When a block is not retired, or the principal is not an officer of the stream.
    pub fn delete(&self, by: &Principal, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        self.delete_retired(Some(by), stream, keys)
    }

    /// Deletes the files of retired blocks, for an officer or because of the stream's retention.
    fn delete_retired(&self, by: Option<&Principal>, stream: &str, keys: &[String]) -> Result<(), EngineError> {
        let files = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            by.map_or(Ok(()), |by| in_role(known, by, Role::PrivacyOfficer))?;
            let blocks = set(gate, id, keys)?;
            if let Some(block) = first_not_retired(gate, id, &blocks) {
                return Err(EngineError::Stage { block, needed: "retired" });
            }
            let files: Vec<String> = keys
                .iter()
                .filter_map(|key| known.blocks.get(key))
                .flat_map(|block| block.parts.iter().map(|part| part.path(stream)))
                .collect();
            let (stream, blocks, by) = (stream.to_owned(), keys.to_vec(), by.map(|by| by.name().to_owned()));
            note(gate, catalog, &Note::BlocksDeleted { stream, blocks, by })?;
            Ok(files)
        })?;
        keys.iter().try_for_each(|key| self.blocks.destroy_key(&format!("{stream}/{key}")))?;
        keys.iter().try_for_each(|key| self.sums.remove(stream, key))?;
        files.iter().try_for_each(|file| self.blocks.delete(file)).map_err(EngineError::from)
    }

    /// Blocks past their retention at `instant`, in microseconds since 1970, in order of arrival.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn expired(&self, stream: &str, instant: i64) -> Result<Vec<String>, EngineError> {
        let catalog = self.catalog();
        let known = catalog.stream(stream).ok_or_else(|| EngineError::NoStream(stream.to_owned()))?;
        let Some(retention) = known.file.retention else { return Ok(Vec::new()) };
        self.select(stream, |stage, end| {
            let over = end.is_some_and(|end| end.saturating_add(retention.microseconds()) <= instant);
            stage != Stage::Deleted && over
        })
    }

    /// Retires and deletes the blocks of all streams that are past their retention at `time`, in milliseconds since
    /// 1970. Each is retired by an event, deleted by an event, and only then are its keys, summaries and files removed.
    /// After a crash in between, the next call continues.
    ///
    /// # Errors
    /// When the log or the store fails.
    pub fn delete_expired_blocks(&self, time: u64) -> Result<(), EngineError> {
        let instant = i64::try_from(time).unwrap_or(i64::MAX).saturating_mul(1000);
        let catalog = self.catalog();
        let with_retention = catalog.streams().filter(|(_, known)| known.file.retention.is_some());
        for (stream, _) in with_retention {
            let expired = match self.expired(stream, instant) {
                // The stream was described but never created.
                Err(EngineError::NoStream(_)) => continue,
                expired => expired?,
            };
            if expired.is_empty() {
                continue;
            }
            self.with(|gate, catalog| {
                let (id, _) = found(gate, catalog, stream)?;
                let blocks = set(gate, id, &expired)?;
                if first_not_retired(gate, id, &blocks).is_none() {
                    return Ok(());
                }
                Ok(gate.retire(now(), id, blocks)?)
            })?;
            self.delete_retired(None, stream, &expired)?;
        }
        Ok(())
    }

    /// Applies the retention of all streams, at most once a minute.
    pub(crate) fn apply_retention(&self, time: u64) -> Result<(), EngineError> {
        let mut checked = lock(&self.expiry_checked);
        if checked.is_some_and(|last| time.abs_diff(last) < EXPIRY_CHECK_INTERVAL) {
            return Ok(());
        }
        *checked = Some(time);
        drop(checked);
        self.erase_expired_quarantine(time)?;
        self.delete_expired_blocks(time)
    }

    fn select(&self, stream: &str, matches: impl Fn(Stage, Option<i64>) -> bool) -> Result<Vec<String>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            let keys = gate.ledger().stream(id).map_or(&[][..], |stream| stream.block_keys());
            let chosen = keys.iter().filter(|key| matches(known.stage(key), known.block_end(key)));
            Ok(chosen.cloned().collect())
        })
    }
}

/// The blocks with these keys, in the same order.
pub(crate) fn numbers(gate: &Gate<Store>, stream: StreamId, keys: &[String]) -> Result<Vec<BlockId>, EngineError> {
    let known = gate.ledger().stream(stream).map_or(&[][..], |stream| stream.block_keys());
    let indices: BTreeMap<&str, u32> = known.iter().map(String::as_str).zip(0..).collect();
    let number = |key: &String| indices.get(key.as_str()).map(|&index| BlockId(index));
    keys.iter().map(|key| number(key).ok_or_else(|| EngineError::NoBlock(key.clone()))).collect()
}

/// The keys without duplicates, in the order of their first occurrence.
pub(crate) fn folded(keys: &[String]) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    keys.iter().filter(|key| seen.insert(key.as_str())).cloned().collect()
}

/// The set of the blocks with these keys.
pub(crate) fn set(gate: &Gate<Store>, stream: StreamId, keys: &[String]) -> Result<Blocks, EngineError> {
    let numbers = numbers(gate, stream, keys)?;
    Blocks::from_ranges(numbers.into_iter().map(|block| (block.0, block.0))).map_err(EngineError::Blocks)
}

/// The key of the first block that is not retired.
fn first_not_retired(gate: &Gate<Store>, stream: StreamId, blocks: &Blocks) -> Option<String> {
    let stream = gate.ledger().stream(stream)?;
    let mut all = blocks.ranges().iter().flat_map(|range| range.first().0..=range.last().0);
    let first = all.find(|&index| !stream.is_retired(BlockId(index)))?;
    stream.block_keys().get(first as usize).cloned()
}
