//! The catalog: what the log says of streams and blocks that is no question of budget.
//!
//! Like the ledger it is a fold of the log by a pure function, which checks every note it takes: a log that
//! breaks the rules is not opened. It must never hold a row, a count of rows or a budget.

mod note;
mod noted;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use note::Note;
pub(crate) use noted::Noted;

use crate::blocks::Part;
use crate::stream::StreamFile;

/// How far a block has come, apart from being retired, which is the ledger's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Rows may still be added.
    #[default]
    Open,
    /// Never changes again.
    Sealed,
    /// Its files are no longer kept.
    Deleted,
}

/// A block's files and stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) stage: Stage,
    pub(crate) parts: Vec<Part>,
}

/// A policy that waits for a second principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) text: String,
    pub(crate) by: String,
}

/// A stream as its notes describe it.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) file: StreamFile,
    pub(crate) proposal: Option<Proposal>,
    pub(crate) batches: BTreeSet<String>,
    pub(crate) blocks: BTreeMap<String, Block>,
    pub(crate) quarantine: BTreeSet<String>,
}

/// All streams, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    streams: BTreeMap<String, Stream>,
}

/// A note that the rules do not allow at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced;

impl Catalog {
    /// The stream with this name, if a note has defined it.
    pub(crate) fn stream(&self, name: &str) -> Option<&Stream> {
        self.streams.get(name)
    }

    /// All streams, by name.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&str, &Stream)> {
        self.streams.iter().map(|(name, stream)| (name.as_str(), stream))
    }

    /// Takes in one note of the log.
    ///
    /// # Errors
    /// When the note breaks the rules; the catalog is then unchanged.
    pub(crate) fn apply(&mut self, note: Note) -> Result<(), Misplaced> {
        if let Note::StreamDefined { stream, text, .. } = note {
            return self.define(stream, &text);
        }
        let stream = self.streams.get_mut(note.stream()).ok_or(Misplaced)?;
        match note {
            Note::StreamDefined { .. } => Ok(()),
            Note::PolicyProposed { text, by, .. } => {
                stream.proposal = Some(Proposal { text, by });
                Ok(())
            }
            Note::RowsIngested { batch, parts, quarantine, .. } => {
                stream.ingest(batch, parts.into_iter().map(Part::from).collect(), quarantine)
            }
            Note::BlocksSealed { blocks, .. } => stream.advance(&blocks, Stage::Open, Stage::Sealed),
            Note::BlocksDeleted { blocks, .. } => {
                stream.advance(&blocks, Stage::Sealed, Stage::Deleted)?;
                for key in &blocks {
                    stream.blocks.entry(key.clone()).and_modify(|block| block.parts.clear());
                }
                Ok(())
            }
        }
    }

    fn define(&mut self, name: String, text: &str) -> Result<(), Misplaced> {
        let file = StreamFile::parse(text).map_err(|_| Misplaced)?;
        if file.name() != name {
            return Err(Misplaced);
        }
        match self.streams.get_mut(&name) {
            Some(stream) => {
                stream.file = file;
                stream.proposal = None;
            }
            None => {
                let stream = Stream {
                    file,
                    proposal: None,
                    batches: BTreeSet::new(),
                    blocks: BTreeMap::new(),
                    quarantine: BTreeSet::new(),
                };
                self.streams.insert(name, stream);
            }
        }
        Ok(())
    }
}

impl Stream {
    fn ingest(&mut self, batch: String, parts: Vec<Part>, quarantine: Option<String>) -> Result<(), Misplaced> {
        let open = |part: &Part| self.blocks.get(&part.block).is_none_or(|block| block.stage == Stage::Open);
        if self.batches.contains(&batch) || !parts.iter().all(open) {
            return Err(Misplaced);
        }
        self.batches.insert(batch);
        self.quarantine.extend(quarantine);
        for part in parts {
            self.blocks.entry(part.block.clone()).or_default().parts.push(part);
        }
        Ok(())
    }

    /// Moves blocks on by one stage, all of them or none. A block without rows may not be known yet.
    fn advance(&mut self, keys: &[String], from: Stage, to: Stage) -> Result<(), Misplaced> {
        let stage = |key: &String| self.blocks.get(key).map_or(Stage::Open, |block| block.stage);
        if !keys.iter().all(|key| stage(key) == from) {
            return Err(Misplaced);
        }
        for key in keys {
            self.blocks.entry(key.clone()).or_default().stage = to;
        }
        Ok(())
    }
}
